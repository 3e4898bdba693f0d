"""Pytest plugin: which proofs were played at this commit, with what they recorded, in one file.

Each test that passed is a line of it at once, so that an interrupted `make proof` goes on where it was.
`--share N` picks a tenth of the proofs. At its end each run writes which rare things its tests must meet:
those that they name in their mark, `proof(meets=…)`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import doors
from tests.support.proofs import record
from tests.support.proofs.shares import SHARES, file_of, shares_of

RECORDS = "stepwell-records"
"""Property of a test's report that carries its records."""


class Played(NamedTuple):
    """Content of the file of a commit."""

    tests: dict[str, float]
    """Seconds of each test that passed."""
    records: list[record.Record]
    """Records of these tests."""
    selected: int = 0
    """Tests that the last run was to play, those that were played before included."""
    must_meet: frozenset[str] = frozenset()
    """Rare things that the tests of the last run must meet."""


def read(path: Path) -> Played:
    """Return what was played; nothing where there is no file."""
    tests: dict[str, dict[str, Any]] = {}
    last: dict[str, Any] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            one = json.loads(line)
        except ValueError:
            continue  # The last line of a run that was killed.
        if "test" in one:
            tests[one["test"]] = one
        else:
            last = one
    return Played(
        {name: one["seconds"] for name, one in tests.items()},
        [record.Record(**each) for one in tests.values() for each in one["records"]],
        last.get("selected", 0),
        frozenset(last.get("must_meet", ())),
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `scripts.proof`."""
    group = parser.getgroup("stepwell")
    group.addoption("--share", type=int, choices=range(SHARES), help="a tenth of the proofs")
    group.addoption("--played", type=Path, help="the file of what was played; kept up")
    group.addoption("--go-on", action="store_true", help="leave out what was played before")


def pytest_configure(config: pytest.Config) -> None:
    """Have the process that reports write the file."""
    path = config.getoption("played")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(path), "stepwell-played")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the share, without what was played before."""
    share: int | None = config.getoption("share")
    path: Path | None = config.getoption("played")
    kept = items[:]
    if share is not None:
        shares = shares_of((item.nodeid for item in items), doors.expected(doors.Door.PROOF))
        kept = [item for item in kept if shares[item.nodeid] == share]
    if path is None:
        _leave(config, items, kept)
        return
    selected = {"selected": len(kept), "must_meet": sorted(_must_meet(kept))}
    if hasattr(config, "workerinput"):
        config.workeroutput["selected"] = selected  # pyright: ignore[reportAttributeAccessIssue] - xdist's
    else:
        writer: Any = config.pluginmanager.get_plugin("stepwell-played")
        writer.selected = selected
    if config.getoption("go_on"):
        before = read(path).tests
        kept = [item for item in kept if item.nodeid not in before]
    _leave(config, items, kept)


def _leave(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    chosen = set(kept)
    left_out = [item for item in items if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _must_meet(items: Iterable[pytest.Item]) -> set[str]:
    return {
        name
        for item in items
        for mark in item.iter_markers("proof")
        for name in mark.kwargs.get("meets", ())
    }


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget the records of the test before."""
    record.kept.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Send a test's records with its last report."""
    if call.when == "teardown" and record.kept:
        plain = [one._asdict() | {"happened": dict(one.happened)} for one in record.kept]
        item.user_properties.append((RECORDS, json.dumps(plain)))


class _Writer:
    """Writes a line for each test that has passed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}
        self._passed: set[str] = set()
        self.selected: dict[str, Any] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if report.when == "call" and report.passed:
            self._passed.add(name)
        if report.when == "teardown" and report.passed and name in self._passed:
            found = [
                json.loads(str(text)) for key, text in report.user_properties if key == RECORDS
            ]
            records = [one for each in found for one in each]
            seconds = round(self._seconds[name], 3)
            for one in records:
                if one["proof"] and not one["command"]:
                    one["command"] = f"make proof ARGS={file_of(name)}"
                    one["seconds"] = seconds
            self._append({"test": name, "seconds": seconds, "records": records})

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.selected = getattr(node, "workeroutput", {}).get("selected", self.selected)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if self.selected is not None:
            self._append(self.selected)

    def _append(self, line: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
