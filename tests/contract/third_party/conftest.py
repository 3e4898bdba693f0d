"""Packages of others, as their authors would install them: their own tests run where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
JOURNAL = HERE / "stepwell-journal"
collect_ignore = [str(JOURNAL)]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build stepwell-journal and install it into a folder of its own; nothing is fetched."""
    target = tmp_path_factory.mktemp("installed")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(JOURNAL)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture
def environment(installed: Path) -> dict[str, str]:
    """Return an environment in which the package is installed."""
    return {**os.environ, "PYTHONPATH": str(installed)}
