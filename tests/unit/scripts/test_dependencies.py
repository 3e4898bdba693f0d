"""The dependencies of an installation without extras."""

from __future__ import annotations

import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]


def test_greenlet_of_long_sqlite_transactions_is_installed_without_an_extra() -> None:
    # SQLAlchemy 2.1 doesn't depend on it, and the environment of the tests has it in any case.
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]

    assert any(each.startswith("greenlet>=") for each in project["dependencies"])
