"""Row 6: the functional suite again, each of its tests over a store that fails.

The tests are those of `tests/service/capabilities`, word for word; what differs is the store behind their server.
What a client may see of all that is the right answer, or UNAVAILABLE, after which it calls again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from stepwell_client import RunHandle, Unavailable
from stepwell_client.errors import RunNotFound
from stepwell_client.internal import BACKOFFS
from stepwell_testkit.faults import Mode
from tests.chaos.faults.functional import (
    FIXTURES,
    Cell,
    FaultyDoors,
    LeftOut,
    borrowed,
    cells_of,
    codes,
    replay_command,
    seed,
    spared,
)
from tests.service.capabilities import (
    test_budgets,
    test_cli_agent,
    test_control,
    test_effects,
    test_forks,
    test_history,
    test_logs,
    test_people,
    test_queues,
    test_retention,
    test_sessions,
)
from tests.service.capabilities.conftest import STORES, Served
from tests.support.logs import capture_logs
from tests.support.proofs.record import note

MODULES = (
    test_budgets,
    test_cli_agent,
    test_control,
    test_effects,
    test_forks,
    test_history,
    test_logs,
    test_people,
    test_queues,
    test_retention,
    test_sessions,
)
CALLED_AGAIN = frozenset({Mode.REFUSE, Mode.TIME_OUT, Mode.CUT})
"""Modes after which clients call again."""
DONE_AGAIN = frozenset({Mode.TIME_OUT, Mode.TWICE, Mode.CUT})
"""Modes in which a store may do twice what it was asked once."""
WRITTEN = LeftOut(
    CALLED_AGAIN & DONE_AGAIN, "a line of a log may be there twice, and is never missing"
)
MANUAL = LeftOut(CALLED_AGAIN, "its calls are made by hand, and not again")
LEFT_OUT = {
    "test_a_killed_workers_conversation_goes_on": WRITTEN,
    "test_invalid_resolution_is_refused": MANUAL,
    "test_replicas_share_a_queue_s_limit": LeftOut(
        CALLED_AGAIN, "a replica whose worker has to connect again gives its share up meanwhile"
    ),
}
"""Tests whose assertion is about what faults rightly change."""

LINES = spared("append_logs", why="a line of a log may be there twice, and is never missing")
LINES = LINES._replace(modes=DONE_AGAIN)
PURGED = spared("page", "delete_run", why="called again, a purge names what it removed that time")
SPARED = {
    "test_a_killed_workers_conversation_goes_on": LINES,
    "test_purge_removes_forks_before_their_parents_and_no_parent_of_what_stays": PURGED,
    "test_purge_removes_what_ended_and_nothing_else": PURGED,
    "test_who_removed_a_run_stands_in_the_log": PURGED,
}
"""Tests in which some calls meet no faults; all the others do."""
SPARED |= {name: LINES for name, _ in borrowed(test_logs) if name not in SPARED}
Delete = Callable[..., Awaitable[None]]
CELLS: dict[str, list[Cell]] = {}
MET = {
    "commit:unknown_applied": "unknown commit that was applied",
    "commit:cut_before": "unknown commit that was not applied",
    "commit:unknown_not_applied": "unknown commit that was not applied",
    "hint:lost": "notification lost",
}
"""Names of the faulty store's counts, and the whole proof's names for them."""

for _name, _test in borrowed(*MODULES):
    assert _name not in CELLS, f"two tests are called {_name}"
    CELLS[_name] = cells_of(_name, tuple(STORES), LEFT_OUT.get(_name))
    if CELLS[_name]:
        globals()[_name] = _test

pytestmark = pytest.mark.proof


def test_few_cells_are_left_out() -> None:
    """Most tests that want a server are played over the four stores, in every mode."""
    every = left_out = 0
    for name, _ in borrowed(*MODULES):
        cells = len(STORES) * len(Mode)
        every += cells
        if name in LEFT_OUT:
            left_out += len(STORES) * len(LEFT_OUT[name].modes)
    assert left_out < every / 8, f"{left_out} of {every}"
    assert LEFT_OUT.keys() | SPARED.keys() <= CELLS.keys()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture in FIXTURES:
        if fixture in metafunc.fixturenames:
            cells = CELLS[metafunc.function.__name__]
            metafunc.parametrize(fixture, cells, ids=lambda cell: cell.name, indirect=True)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients call again as they always do, but sooner, and don't give up: that is not what is tested here.

    A fork reads a dozen times, and where a third of all reads is refused it takes some dozen calls.
    """
    for backoff in BACKOFFS:
        monkeypatch.setattr(backoff, "attempts_max", 1_000)
        monkeypatch.setattr(backoff, "base_seconds", 0.02)
        monkeypatch.setattr(backoff, "cap_seconds", 0.1)
    # The one call that they don't repeat: whoever makes it may.
    monkeypatch.setattr(RunHandle, "delete", _deleting(RunHandle.delete))


def _deleting(delete: Delete) -> Delete:
    async def repeated(run: RunHandle, *, on_behalf_of: str = "") -> None:
        again = False
        while True:
            try:
                await delete(run, on_behalf_of=on_behalf_of)
            except Unavailable:
                again = True
                continue
            except RunNotFound:
                if not again:
                    raise
            break

    return repeated


@pytest.fixture
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    cell: Cell = request.param
    name = request.function.__name__
    doors = FaultyDoors(name, cell, SPARED.get(name))
    print(replay_command(request.node.nodeid))
    with STORES[cell.store](tmp_path) as url, capture_logs() as lines:
        async with AsyncExitStack() as stack:
            served = Served(stack, tmp_path, cell.store, url, doors)
            await served.start()
            yield served
            ended = codes(served.server)
        unexpected = [line for line in lines if line["log_level"] in ("error", "critical")]
    print(ended, doors.seen)
    assert not unexpected, unexpected
    assert not ended.keys() & {"INTERNAL", "UNKNOWN"}, ended
    happened = Counter[str]()
    for counted, met in MET.items():
        happened[met] += doors.seen[counted]
    faults = sum(many for what, many in doors.seen.items() if what.endswith(f":{cell.mode}"))
    figures = {"tests": 1, "faults": faults}
    note("functional suite over a faulty store", figures, happened, seed())


served_everywhere = served
