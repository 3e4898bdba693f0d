"""Pytest plugin: the doors of the tests, which test is behind which, and what each door took.

- `check`: the rules of the code itself, which `make check` plays.
- `test`: everything that needs no server of its own, and each real server under the conformance suite once.
- `stores`: everything else that wants real servers, disks, kills or networks.
- `proof`: what carries the mark `proof`. Its size grows with the scale (tests/support/proofs/sizes.py); what of it
  needs nothing real is behind `test` as well, in little.
- `frameworks`: all of tests/frameworks, which is played in an environment that has them.

`pytest --door=stores` plays one door; without the option every test is played, the proofs in little.
The door follows from the folder, the fixtures and the parameters of a test (`doors_of`), and `test` is
what remains: no test is behind none. A test that starts a server without asking for the fixture `backends`,
and without a parameter named for a server, fails; so none slips through the first door.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from time import monotonic

import pytest

from tests.support.backends import child
from tests.support.backends.shared import stop_all
from tests.support.proofs import shares

TOP = Path(__file__).parents[2]
SECONDS = Path(__file__).parent / "seconds.json"
SLOWEST = 10
TOLERATED = 1.5
"""Times the expected seconds: what took longer is listed in red."""
TOLERATED_S = 5.0
"""On top of that, for what is short."""


class Door(StrEnum):
    """Name of a door: what the option `--door` takes."""

    CHECK = "check"
    TEST = "test"
    STORES = "stores"
    PROOF = "proof"
    FRAMEWORKS = "frameworks"


RULES = "tests/unit/house/"
"""Folder of the code's own rules."""
FRAMEWORKS = "tests/frameworks/"
"""Folder of what imports agent frameworks, which other doors' environment lacks."""
REAL = ("tests/chaos", "tests/support/backends")
"""Folders about servers, disks, kills and networks: nothing in them is behind the first door."""
PURE = ("tests/unit/",)
"""Folders that need no server, whatever their parameters are named."""
ONCE = "tests/contract/conformance/test_conformance.py"
"""Behind the first door it plays each of `ONCE_ON`; these and more ways to them are behind the second."""
ONCE_ON = frozenset({"postgres", "redis", "valkey", "redis_cluster"})
SERVER = re.compile(r"(grpc_)?(postgres|redis|valkey)(_cluster)?|grpc_sqlite")
"""Parameters named like this ask for a real server, or for one more way to a store that is tested anyway."""


def servers_in(parameters: str) -> frozenset[str]:
    """Return the servers that a test's parameters name: `postgres-seed-1` has one."""
    return frozenset(one for one in re.split(r"[-, ]+", parameters) if SERVER.fullmatch(one))


def may_start_servers(path: str, *, fixtures: Collection[str], parameters: str) -> bool:
    """Return whether a test may start a server: it can be seen that it wants one."""
    if path.startswith(PURE):
        return False
    return path.startswith(REAL) or "backends" in fixtures or bool(servers_in(parameters))


def doors_of(
    path: str, *, fixtures: Collection[str], parameters: str, sized: bool
) -> frozenset[Door]:
    """Return the doors that a test is behind: one, or for a proof the first as well."""
    if path.startswith(RULES):
        return frozenset({Door.CHECK})
    if path.startswith(FRAMEWORKS):
        return frozenset({Door.FRAMEWORKS})
    servers = servers_in(parameters)
    real = may_start_servers(path, fixtures=fixtures, parameters=parameters)
    if sized:
        return frozenset({Door.PROOF} if real else {Door.PROOF, Door.TEST})
    if real and not (path == ONCE and servers <= ONCE_ON):
        return frozenset({Door.STORES})
    return frozenset({Door.TEST})


def path_of(item: pytest.Item) -> str:
    """Return a test's file as a path below the project's folder."""
    return item.path.relative_to(TOP).as_posix() if item.path.is_relative_to(TOP) else ""


def _parameters(item: pytest.Item) -> str:
    called = getattr(item, "callspec", None)
    return str(called.id) if called else ""


def _doors(item: pytest.Item) -> frozenset[Door]:
    return doors_of(
        path_of(item),
        fixtures=getattr(item, "fixturenames", ()),
        parameters=_parameters(item),
        sized=item.get_closest_marker("proof") is not None,
    )


# --- selection ---


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that picks a door."""
    group = parser.getgroup("stepwell")
    group.addoption("--door", choices=list(Door), help="play what is behind this door only")
    group.addoption(
        "--write-seconds", action="store_true", help=f"keep this door's seconds in {SECONDS.name}"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Have servers ask first, temporary files in memory, and times kept by the process that reports."""
    child.before_start = refuse_servers
    memory = child.memory_folder()
    if memory is not None and config.getoption("door") in (Door.TEST, Door.STORES):
        # SQLite waits for the disk at each commit; what the proofs show needs a real one.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Times(config), "stepwell-times")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders that have nothing behind the door: importing them takes seconds, or fails."""
    door = config.getoption("door")
    if door is None:
        return None
    left_out = [] if door == Door.FRAMEWORKS else [FRAMEWORKS]
    if door == Door.TEST:
        left_out += REAL
    return True if any(collection_path == TOP / folder for folder in left_out) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what wants real servers, and keep what is behind the door."""
    door = config.getoption("door")
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        doors = _doors(item)
        if Door.STORES in doors:
            item.add_marker("stores")
        (kept if door is None or door in doors else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


# --- servers ---

_running: pytest.Item | None = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Remember which test runs."""
    global _running  # noqa: PLW0603 - what starts a server has no other way to its test
    _running = item
    try:
        return (yield)
    finally:
        _running = None


def refuse_servers() -> None:
    """Refuse a server to a test of which nobody could see that it wants one.

    Raises:
        AssertionError: the test would be behind the wrong door.
    """
    item = _running
    if item is not None:
        seen = may_start_servers(
            path_of(item),
            fixtures=getattr(item, "fixturenames", ()),
            parameters=_parameters(item),
        )
        assert seen, f"{item.nodeid} starts a server: let it ask for the fixture `backends`"


@pytest.fixture(scope="session")
def backends() -> Iterator[None]:
    """Servers that the process shares end with the session, and not only with the process."""
    yield
    stop_all()


# --- times ---


class Times:
    """Seconds of each test, added up by folder, and compared with those that are kept."""

    def __init__(self, config: pytest.Config) -> None:
        self._door: str | None = config.getoption("door")
        self._write = bool(config.getoption("write_seconds"))
        self._began = monotonic()
        self.tests = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid] += report.duration  # pyright: ignore[reportArgumentType] - seconds add up as well

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._door is None:
            return
        write = terminalreporter.write_line
        took_s = monotonic() - self._began
        terminalreporter.section(f"door {self._door}: {len(self.tests):,} tests, {took_s:.0f} s")
        for name, seconds in self.tests.most_common(SLOWEST):
            write(f"{seconds:8.1f} s  {name}")
        write(f"{self.tests.total():8.1f} s  in all processes together")
        took, usual = by_folder(self.tests), expected(self._door)
        if self._door == Door.PROOF:
            took, usual = by_file(self.tests), usual_of_files(self.tests, usual)
        for line in slower(took, usual):
            write(line, red=True)
        if self._write and self._door != Door.PROOF:
            keep_expected(self._door, {folder: round(s, 1) for folder, s in took.items()})


def by_folder(tests: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each folder, two levels deep."""
    found = Counter[str]()
    for name, seconds in tests.items():
        path = name.partition("::")[0]
        found["/".join(path.split("/")[:3][: max(2, path.count("/"))])] += seconds  # pyright: ignore[reportArgumentType] - seconds add up as well
    return dict(sorted(found.items()))


def by_file(tests: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each file."""
    found = Counter[str]()
    for name, seconds in tests.items():
        found[shares.file_of(name)] += seconds  # pyright: ignore[reportArgumentType] - seconds add up as well
    return dict(sorted(found.items()))


def usual_of_files(tests: Iterable[str], kept: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds that these proofs usually take in each file, known or guessed."""
    return by_file({name: shares.seconds_of(name, kept) for name in tests})


def slower(took: Mapping[str, float], usual: Mapping[str, float]) -> list[str]:
    """Return a line for each folder that took clearly longer than it usually does."""
    return [
        f"{seconds:8.1f} s  in {name}, and {usual[name]:.1f} s are expected: see {SECONDS.name}"
        for name, seconds in took.items()
        if name in usual and seconds > TOLERATED * usual[name] + TOLERATED_S
    ]


def expected(door: str) -> dict[str, float]:
    """Return the seconds that are kept for a door."""
    return json.loads(SECONDS.read_text(encoding="utf-8")).get(door, {})


def keep_expected(door: str, seconds: Mapping[str, float]) -> None:
    """Write a door's seconds into the table; those of other doors stay."""
    table = json.loads(SECONDS.read_text(encoding="utf-8"))
    table[door] = dict(sorted(seconds.items()))
    SECONDS.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
