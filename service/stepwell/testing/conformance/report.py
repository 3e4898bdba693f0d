"""The list at the end of a test run: which invariants each driver was held to, and what it excused.

`from stepwell.testing.conformance.report import pytest_terminal_summary` in a conftest turns it on.
Under pytest-xdist that is a conftest of the tests' top folder: the process that prints reads no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, cast

import pytest

from stepwell.testing.conformance.catalog import STORE_INVARIANTS, invariants_of

_CASE = re.compile(r"test_conformance\.py::(?P<group>\w+)::(?P<case>\w+)\[(?P<driver>\w+)")
_PRINTED = pytest.StashKey[bool]()


class Outcome(NamedTuple):
    """How one case went on one driver."""

    case: str
    driver: str
    word: str
    reason: str = ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a paragraph for each driver."""
    stash = terminalreporter.config.stash
    outcomes = list(_outcomes(terminalreporter))
    if not outcomes or stash.get(_PRINTED, False):
        return
    stash[_PRINTED] = True
    terminalreporter.section("store conformance")
    for driver in dict.fromkeys(outcome.driver for outcome in outcomes):
        for line in summary_of(driver, [it for it in outcomes if it.driver == driver]):
            terminalreporter.write_line(line)


def summary_of(driver: str, outcomes: Iterable[Outcome]) -> list[str]:
    """Return the lines about one driver."""
    by_word: dict[str, list[Outcome]] = {"passed": [], "failed": [], "skipped": []}
    for outcome in outcomes:
        by_word.setdefault(outcome.word, []).append(outcome)
    counts = ", ".join(f"{len(found)} {word}" for word, found in by_word.items() if found)
    broken = {name for it in by_word["failed"] for name in invariants_of(it.case)}
    kept = {name for it in by_word["passed"] for name in invariants_of(it.case)} - broken
    lines = [f"{driver}: {counts}", f"  kept: {' '.join(sorted(kept, key=_order)) or 'none'}"]
    if broken:
        lines.append(f"  BROKEN: {' '.join(sorted(broken, key=_order))}")
    missing = [name for name in STORE_INVARIANTS if name not in kept | broken]
    if missing:
        lines.append(f"  not tested: {' '.join(missing)}")
    lines += [f"  excused: {it.case}: {it.reason}" for it in by_word["skipped"]]
    return lines


def _outcomes(reporter: pytest.TerminalReporter) -> Iterable[Outcome]:
    for word in ("passed", "failed", "skipped", "error"):
        for report in reporter.stats.get(word, ()):
            found = _CASE.search(report.nodeid) if isinstance(report, pytest.TestReport) else None
            if found is None:
                continue
            failed = word in {"failed", "error"}
            # A skip is told as (path, line, reason).
            told = cast("tuple[object, ...]", report.longrepr) if word == "skipped" else ()
            reason = str(told[2]) if len(told) == 3 else ""
            yield Outcome(found["case"], found["driver"], "failed" if failed else word, reason)


def _order(name: str) -> tuple[str, int]:
    return (name[0], int(name[1:]))
