"""The list at the end of a test run: for each driver its cases by group, invariants and excuses.

`from stepwell_testkit.conformance.report import pytest_terminal_summary` in a conftest enables it.
Under pytest-xdist it must be the conftest of the tests' top folder, the only one that the printing
process reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

import pytest

from stepwell_testkit.conformance.catalog import STORE_INVARIANTS, invariants_of
from stepwell_testkit.conformance.groups import GROUPS, MANDATORY, OPTIONAL
from stepwell_testkit.conformance.harness import CASE, DRIVER, EXCUSE, GROUP

_PRINTED = pytest.StashKey[bool]()


class Outcome(NamedTuple):
    """The outcome of one case on one driver."""

    case: str
    driver: str
    group: str
    word: str
    """`passed`, `failed` or `skipped`."""
    excuse: str = ""
    """The name of the excuse: the case's own, or an optional group's."""
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


def summary_of(driver: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Return the lines about one driver."""
    words = Counter(it.word for it in outcomes)
    counts = ", ".join(
        f"{words[word]} {word}" for word in ("passed", "failed", "skipped") if words[word]
    )
    broken = {name for it in outcomes if it.word == "failed" for name in invariants_of(it.case)}
    passed = {name for it in outcomes if it.word == "passed" for name in invariants_of(it.case)}
    lines = [
        f"{driver}: {len(outcomes)} cases: {counts}",
        f"  mandatory: {_by_group(MANDATORY, outcomes)}",
        f"  optional: {_by_group(OPTIONAL, outcomes)}",
        f"  kept: {_in_order(passed - broken) or 'none'}",
    ]
    if broken:
        lines.append(f"  BROKEN: {_in_order(broken)}")
    missing = set(STORE_INVARIANTS) - passed - broken
    if missing:
        lines.append(f"  not tested: {_in_order(missing)}")
    excused = Counter((it.excuse or it.case, it.reason) for it in outcomes if it.word == "skipped")
    for (name, reason), many in excused.items():
        group = f" (group, {many} cases)" if name in GROUPS else f" ({many} cases)"
        lines.append(f"  excused: {name}{group if many > 1 or name in GROUPS else ''}: {reason}")
    return lines


def _by_group(names: Iterable[str], outcomes: Sequence[Outcome]) -> str:
    """Return `commits 40, claims 23 of 24`: the number of passed cases of each group."""
    run = Counter(it.group for it in outcomes)
    passed = Counter(it.group for it in outcomes if it.word == "passed")
    return ", ".join(
        f"{name} {passed[name]}" + (f" of {run[name]}" if passed[name] < run[name] else "")
        for name in names
        if run[name]
    )


def _outcomes(reporter: pytest.TerminalReporter) -> Iterable[Outcome]:
    for word in ("passed", "failed", "skipped", "error"):
        for report in reporter.stats.get(word, ()):
            if not isinstance(report, pytest.TestReport):
                continue
            noted = {name: str(value) for name, value in report.user_properties}
            if DRIVER not in noted:
                continue
            # A skip is reported as (path, line, reason).
            reported = cast("tuple[object, ...]", report.longrepr) if word == "skipped" else ()
            reason = str(reported[2]) if len(reported) == 3 else ""
            yield Outcome(
                case=noted[CASE],
                driver=noted[DRIVER],
                group=noted[GROUP],
                word="failed" if word == "error" else word,
                excuse=noted.get(EXCUSE, ""),
                reason=reason.removeprefix("Skipped: ").removeprefix(f"{noted[DRIVER]}: "),
            )


def _in_order(names: Iterable[str]) -> str:
    return " ".join(sorted(names, key=lambda name: (name[0], int(name[1:]))))
