"""The contents of a store when all is over, read out past everything that failed."""

from __future__ import annotations

from time import monotonic

from stepwell.core.port import ExecutionQuery, Store
from stepwell.core.records.events import Event
from stepwell_testkit.conformance.ask import data_of
from tests.chaos.load.clients import TENANT, following, view_of
from tests.chaos.oracle.calls import History, Kept, Sending, Span
from tests.simulation.simulator.violation import holds
from tests.support.patience import insisting


async def kept_by(store: Store, names: set[str]) -> dict[str, Kept]:
    """Return what the store has of these runs."""
    return {name: await _kept(store, name) for name in sorted(names)}


async def at_rest(store: Store, history: History) -> dict[str, Kept]:
    """Return what the store has of all runs, to which nothing is added any more.

    A server may still be doing what a client has given up waiting for. Nobody knows for how long, so each such
    run gets one commit more: what still comes then has lost its base.
    """
    for name, version in _may_come(history).items():
        await _pass(store, history, name, version)
    return await kept_by(store, history.runs)


def _may_come(history: History) -> dict[str, int]:
    """Return the newest version of each run that was sent, and may be there or come yet."""
    found: dict[str, int] = {}
    for tried in history.tried.values():
        if tried.possible and tried.acknowledged == float("inf"):
            name, version = tried.commit.run_id, tried.commit.version
            found[name] = max(version, found.get(name, 0))
    return found


async def _pass(store: Store, history: History, name: str, version: int) -> None:
    """Bring a run to this version at the least."""
    while True:
        run = await store.get_run(TENANT, name)
        if run is not None and run.version >= version:
            return
        commit = following(run, name, f"last-{name}-{run.version if run else 0}")
        invoked = monotonic()
        (result,) = await insisting(lambda commit=commit: store.commit([commit]))
        history.sent(commit, Sending(Span(invoked, monotonic()), result.verdict))


async def _kept(store: Store, name: str) -> Kept:
    loaded = await store.load(TENANT, name)
    if loaded is None:
        return Kept(0, (), {}, {})
    events: list[Event] = []
    while len(events) < loaded.run.last_event:
        page = await store.read_events(TENANT, name, after=len(events), limit=1_000)
        assert page is not None
        holds(page.events, "E1", f"{name} has {len(events)} of {loaded.run.last_event} events")
        events += page.events
    ids: list[str] = []
    cursor = ""
    while True:
        rows = await store.page(
            ExecutionQuery(tenant_id=TENANT, run_id=name, cursor=cursor, limit=1_000)
        )
        ids += [one.execution_id for one in rows.items]
        cursor = rows.cursor
        if not cursor:
            break
    results: dict[str, bytes] = {}
    for at in range(0, len(ids), 100):
        payloads = await store.read_payloads(TENANT, name, ids[at : at + 100])
        results.update({one.key: data_of(one) for one in payloads})
    return Kept(loaded.run.version, tuple(events), view_of(loaded).open, results)
