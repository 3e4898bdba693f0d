"""Tests of the suite as a check: pytest in a process of its own, with the bug in it while they run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from stepwell_testkit.conformance.catalog import invariants_of
from tests.mutants.bug import Caught, Unnoticed
from tests.mutants.planting import PLANTED, now_planted
from tests.support.proofs.sizes import SCALE

TOP = Path(__file__).parents[2]
WITHIN_S = 60
QUIETLY = (
    "-x",
    "-q",
    "--no-header",
    "--tb=line",
    "-rfEs",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--timeout=15",
)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_COUNTS = re.compile(r"(\d+) (?:passed|failed|error)")
_MISSING = re.compile(r"^SKIPPED \[\d+\] \S+ (.*)$", re.MULTILINE)


class ByTests(NamedTuple):
    """Tests by their ids, in their order until one fails."""

    proof: str
    ids: tuple[str, ...]
    unit: str = "tests"

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Play them until one fails."""
        told = _run(now_planted(), *self.ids)
        failed = _FAILED.search(told)
        if failed is None:
            if (why := _MISSING.search(told)) is not None:
                pytest.skip(why[1])
            raise Unnoticed(f"no test of {' '.join(self.ids)} failed:\n{told}")
        name = failed[1].rpartition("::")[2]
        tried = sum(int(count) for count in _COUNTS.findall(told))
        return Caught(tuple(invariants_of(name)), name, tried, partial(_again, failed[1]))


def _again(test: str) -> None:
    told = _run(now_planted(), test)
    assert _FAILED.search(told) is None, told


def _run(planted: str, *ids: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.plugin", *QUIETLY, *ids]
    # A little of each; and what a bug does is no figure of any proof.
    left_out = ("PYTEST_", SCALE)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    environment[PLANTED] = planted
    done = subprocess.run(
        command,
        cwd=TOP,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")
    return done.stdout
