"""The oracles on short histories that are known: each lie is noticed, and nothing else is.

`oracle/history.py` reads what replicas wrote down, `load/follower.py` what a watcher saw, and
`oracle/checker.py` what clients of a store were answered. Every proof of this folder rests on them.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.port import ClaimRequest, Commit, CommitResult, FeedQuery, Renewal, Store
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.core.records.events import Event
from stepwell.core.records.model import Payload
from stepwell.core.records.states import EventType, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.faults import Faults, FaultyStore
from stepwell_testkit.proxy import StoreProxy
from tests.chaos.faults.functional import Chance
from tests.chaos.load.clients import HOLD_MS, Client, FeedReader, Field
from tests.chaos.load.follower import Follower
from tests.chaos.load.lives import StepPlayer
from tests.chaos.oracle import checker, history
from tests.chaos.oracle.history import Acknowledged
from tests.chaos.oracle.kept import kept_by
from tests.chaos.world import observed
from tests.chaos.world.cluster import Cluster
from tests.chaos.world.observed import Entry, Scribe, read
from tests.chaos.world.stores import Shared
from tests.simulation.simulator.violation import InvariantViolation
from tests.support.patience import PATIENCE_S

# --- what replicas wrote down ---------------------------------------------------------------------------


class Cut(StoreProxy):
    """A way to the store that is cut at the first outcome: the store has it by then, or never gets it."""

    def __init__(self, inner: Store, *, has_it: bool, other_bytes: bool = False) -> None:
        super().__init__(inner)
        self._has_it = has_it
        self._other_bytes = other_bytes

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        (commit,) = commits
        if not commit.outcomes:
            return await self.inner.commit(commits)
        if self._other_bytes:
            outcomes = (replace(one, result=Payload(data=b"!")) for one in commit.outcomes)
            commit = replace(commit, outcomes=tuple(outcomes))
        if self._has_it:
            await self.inner.commit([commit])
        raise OutcomeUnknown("cut")


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store = await open_store("memory://", runtime=SystemRuntime())
    yield store
    await store.close()


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(observed.DIARY, str(tmp_path / "diary"))
    monkeypatch.setenv(observed.NAME, "r1")
    return tmp_path / "diary"


async def written(store: Store, path: Path, *cuts: Cut) -> list[Entry]:
    """Play one run by workers that die at each cut, and by one that ends it; returns the diary."""
    for number, cut in enumerate(cuts):
        with pytest.raises(OutcomeUnknown):
            await StepPlayer(Scribe(cut), f"worker {number}", "seed").play("run")
    await StepPlayer(Scribe(store), "the last worker", "seed").play("run")
    return read(path)


async def test_S7_commit_without_an_answer_is_matched_by_its_id(store: Store, diary: Path) -> None:
    """Two commits have the same events and other bytes; the first of them never reached the store."""
    entries = await written(store, diary, Cut(store, has_it=False), Cut(store, has_it=True))
    twins = [one.sent for one in entries if one.sent is not None and one.sent.outcomes][:2]
    assert twins[0].events == twins[1].events
    assert twins[0].outcomes != twins[1].outcomes
    findings = await history.check(store, entries)
    assert findings.books["run"].applied[twins[0].version - 1].commit == twins[1]
    assert findings.seen["commit without an answer"] == 2


async def test_S7_bytes_that_nobody_sent_are_noticed(store: Store, diary: Path) -> None:
    cuts = (Cut(store, has_it=False), Cut(store, has_it=True, other_bytes=True))
    with pytest.raises(InvariantViolation, match="S7"):
        await history.check(store, await written(store, diary, *cuts))


def _renamed(entries: Sequence[Entry], commit: Commit, name: str) -> list[Entry]:
    """Give a commit another id, as if another one had been acknowledged."""
    return [
        replace(one, sent=replace(commit, commit_id=name))
        if one.sent == commit
        else replace(one, commit_id=name if one.commit_id == commit.commit_id else one.commit_id)
        for one in entries
    ]


@pytest.mark.parametrize("name", ["S3", "S3 at another id", "S2", "S5", "S7", "S8"])
async def test_broken_history_is_noticed_by_name(store: Store, diary: Path, name: str) -> None:
    entries = await written(store, diary)
    results = [one for one in entries if one.sent is not None and one.sent.outcomes]
    sent = results[-1]
    assert sent.sent is not None
    commit = sent.sent
    (outcome,), (fence,) = commit.outcomes, commit.fences
    assert outcome.result is not None
    known = Acknowledged("run", outcome.execution_id, fence.token, outcome.result.data)
    answer = next(one for one in entries if one.commit_id == commit.commit_id)
    assert answer.result is not None
    await history.check(store, entries, [known])

    lost = replace(commit, commit_id="lost", version=99)
    twin = replace(commit, commit_id="twin")
    refused = replace(answer, result=replace(answer.result, verdict=Verdict.CONFLICT))
    broken = {
        "S3": [*entries, replace(sent, sent=lost), replace(answer, commit_id="lost")],
        "S3 at another id": _renamed(entries, commit, "gone"),
        "S2": [*entries, replace(sent, sent=twin, door="r9"), replace(answer, commit_id="twin")],
        "S5": [refused if entry is answer else entry for entry in entries],
    }
    other = {"S7": known._replace(data=b"other"), "S8": known._replace(token="other")}
    with pytest.raises(InvariantViolation) as caught:
        await history.check(store, broken.get(name, entries), [other.get(name, known)])
    assert caught.value.name == name[:2]


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 20)


async def test_line_cut_short_by_a_kill_is_dropped_before_the_next_life(
    store: Store, diary: Path
) -> None:
    before = await written(store, diary)
    cut_short(diary)
    await StepPlayer(Scribe(store), "after the kill", "seed").play("another run")
    entries = read(diary)
    assert entries[: len(before) - 1] == before[:-1]
    assert {one.sent.run_id for one in entries[len(before) - 1 :] if one.sent} == {"another run"}


# --- what a watcher saw ---------------------------------------------------------------------------------

STARTED = Event(number=1, version=1, type=EventType.RUN_STARTED)
LOST = Event(number=2, version=2, type=EventType.EXECUTION_LEASED)
KEPT = Event(number=2, version=2, type=EventType.TASK_COMPLETED)
LATER = Event(number=3, version=3, type=EventType.RUN_SUCCEEDED)


class Calm(Random):
    """Chance by which a watcher stays where it is."""

    def random(self) -> float:
        return 0.99


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of which nothing is started."""
    cluster = Cluster(tmp_path, Shared("memory://"))
    yield cluster
    cluster.close()


@pytest.mark.parametrize(
    ("seen", "stored", "sent", "may_lose", "lost"),
    [
        ([STARTED, LOST], [STARTED, KEPT], [STARTED, LOST, KEPT], True, 1),
        # A watcher that was sent the run's end has left by the time that it comes to another one.
        ([STARTED, LOST], [STARTED, KEPT, LATER], [STARTED, LOST, KEPT, LATER], True, 1),
        ([STARTED, KEPT], [STARTED, KEPT, LATER], [STARTED, KEPT, LATER], True, None),
        ([STARTED, LOST], [STARTED, KEPT], [STARTED, KEPT], True, None),
        ([STARTED, LOST], [STARTED, KEPT], [STARTED, LOST, KEPT], False, None),
    ],
    ids=["seen and lost", "end lost", "end missed", "never sent", "store may lose nothing"],
)
async def test_E2_watcher_may_see_only_what_was_sent_and_lost(
    cluster: Cluster,
    seen: list[Event],
    stored: list[Event],
    sent: list[Event],
    may_lose: bool,
    lost: int | None,
) -> None:
    follower = Follower(cluster, "run", Calm(), may_lose=may_lose)
    await follower._take(seen, 0)
    if lost is None:
        with pytest.raises(InvariantViolation, match="E2"):
            follower.check(stored, sent)
    else:
        follower.check(stored, sent)
        assert follower.seen["event seen and lost"] == lost


# --- what clients of a store were answered --------------------------------------------------------------

OPERATIONS = 1_500
LIES_MIN = 30
"""One lie may be of what nobody can know yet."""
CLIENTS = 6
FAULTS = Faults(time_out=0.1, cut=0.1, refuse=0.05, delay_ms_max=3)


class Liar(StoreProxy):
    """A store that lies in one of its methods, now and then."""

    def __init__(
        self, inner: Store, method: str = "", lie: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(inner)
        self.turns = 0
        self.lies = 0
        self.old: dict[str, Any] = {}
        if lie is not None:
            setattr(self, method, partial(lie, self))

    def now(self, every: int = 20) -> bool:
        """Tell whether it is time for a lie, and count it."""
        self.turns += 1
        lie = self.turns % every == 0
        self.lies += lie
        return lie


async def another_id(door: Liar, commits: Sequence[Commit]) -> Sequence[CommitResult]:
    """Send again under another id what may have been done."""
    try:
        return await door.inner.commit(commits)
    except OutcomeUnknown:
        door.lies += 1
        again = [replace(one, commit_id=f"{one.commit_id}+") for one in commits]
        return await door.inner.commit(again)


async def acknowledges_first(door: Liar, commits: Sequence[Commit]) -> Sequence[CommitResult]:
    if door.now():
        return [CommitResult(verdict=Verdict.COMMITTED) for _ in commits]
    return await door.inner.commit(commits)


async def refuses_and_does(door: Liar, commits: Sequence[Commit]) -> Sequence[CommitResult]:
    results = await door.inner.commit(commits)
    return [CommitResult(verdict=Verdict.CONFLICT) for _ in commits] if door.now() else results


async def refuses_for_nothing(door: Liar, commits: Sequence[Commit]) -> Sequence[CommitResult]:
    if door.now():
        return [CommitResult(verdict=Verdict.CONFLICT) for _ in commits]
    return await door.inner.commit(commits)


async def drops_fences(door: Liar, commits: Sequence[Commit]) -> Sequence[CommitResult]:
    door.lies += any(one.fences for one in commits)
    return await door.inner.commit([replace(one, fences=()) for one in commits])


async def reads_the_old(door: Liar, tenant_id: str, run_id: str, *, since: int = 0) -> Any:
    loaded = await door.inner.load(tenant_id, run_id, since=since)
    old = door.old.setdefault(run_id, loaded)
    return old if door.now(3) else loaded


async def tears_loads(door: Liar, tenant_id: str, run_id: str, *, since: int = 0) -> Any:
    loaded = await door.inner.load(tenant_id, run_id, since=since)
    if loaded is None:
        return None
    old = door.old.setdefault(run_id, loaded.executions)
    return replace(loaded, executions=old) if door.now(3) else loaded


async def skips_events(door: Liar, tenant_id: str, run_id: str, *, after: int, limit: int) -> Any:
    page = await door.inner.read_events(tenant_id, run_id, after=after, limit=limit)
    skips = page is not None and len(page.events) > 2 and door.now(3)
    return replace(page, events=page.events[1:]) if page is not None and skips else page


async def splits_commits(door: Liar, tenant_id: str, run_id: str, *, after: int, limit: int) -> Any:
    page = await door.inner.read_events(tenant_id, run_id, after=after, limit=limit)
    if page is None or len(page.events) < 2:
        return page
    door.lies += 1
    return replace(page, events=page.events[:1])


async def forgets_in_feed(door: Liar, query: Any) -> Any:
    page = await door.inner.page(query)
    if not isinstance(query, FeedQuery) or len(page.items) < 2:
        return page
    door.lies += 1
    return replace(page, items=page.items[1:])


async def renews_all(door: Liar, renewals: Sequence[Renewal]) -> Sequence[bool]:
    await door.inner.renew(renewals)
    return [door.now(2) for _ in renewals]


async def holds_nothing(door: Liar, request: ClaimRequest) -> Any:
    door.lies += 1
    return await door.inner.claim(replace(request, hold_ms=0))


LIES: dict[str, tuple[Callable[..., Awaitable[Any]], set[str]]] = {
    "commit under another id": (another_id, {"S4", "S5"}),
    # Whoever believes it goes on from there: commits then follow what they weren't made for (E1), and
    # what was done is done twice (S7).
    "commit acknowledged first": (acknowledges_first, {"S2", "S3", "S4", "S7", "E1"}),
    "commit refused and done": (refuses_and_does, {"S4", "S5"}),
    "commit refused for nothing": (refuses_for_nothing, {"S2", "S4"}),
    "commit without fences": (drops_fences, {"S8"}),
    "load of an old version": (reads_the_old, {"S2", "S3", "E1"}),
    "load of two versions": (tears_loads, {"S1", "S7"}),
    "read_events with a gap": (skips_events, {"E2"}),
    "read_events that splits": (splits_commits, {"E8"}),
    "page of the feed with a gap": (forgets_in_feed, {"E1"}),
    "renew of everything": (renews_all, {"S8"}),
    "claim that holds nothing": (holds_nothing, {"S10"}),
}
"""The lie by its name, which begins with the method; and what it may be noticed by."""


async def played(folder: Path, lie: str = "") -> Counter[str]:
    """Play a history through three doors that fail and lie, and check it."""
    name = f"memory://{folder.as_posix().replace('/', '.')}"
    real = [await open_store(name, runtime=SystemRuntime()) for _ in range(3)]
    faulty = [FaultyStore(one, Chance(f"{at}"), FAULTS) for at, one in enumerate(real)]
    method = lie.partition(" ")[0]
    doors = [Liar(one, method, LIES[lie][0] if lie else None) for one in faulty]
    lies = LIES_MIN if lie else 0
    field = Field(doors, "checker", OPERATIONS, lambda: sum(one.lies for one in doors) >= lies)
    reader = FeedReader(field)
    lives: list[Awaitable[None]] = [reader.live()]
    lives += [Client(field, f"{number}").live() for number in range(CLIENTS)]
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*lives)
    for one in faulty:
        one.faults = Faults()
    await asyncio.sleep(0.05)
    try:
        kept = await kept_by(real[0], field.history.runs)
        while await reader.page():
            pass
    finally:
        for one in real:
            await one.close()
    return checker.check(field.history, kept, hold_ms=HOLD_MS)


async def test_honest_store_passes_and_every_fate_of_a_commit_is_met(tmp_path: Path) -> None:
    happened = await played(tmp_path)
    for fate in ("unknown commit that was applied", "unknown commit that was not applied"):
        assert happened[fate] > 0, happened
    assert happened["commit_id seen again"] > 0, happened


@pytest.mark.parametrize("lie", LIES)
async def test_lie_of_a_store_is_noticed_by_name(lie: str, tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation) as caught:
        await played(tmp_path, lie)
    assert caught.value.name in LIES[lie][1], caught.value
