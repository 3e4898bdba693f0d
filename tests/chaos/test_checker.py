"""The checker has teeth: each lie that a store could tell of a history is found, by its name."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.port import Claimed, ClaimRequest, Commit, CommitResult, Renewal, Store
from stepwell.core.records.errors import OutcomeUnknown
from stepwell.core.records.events import Event
from stepwell.core.records.model import Run, RunSpec
from stepwell.core.records.states import EventType, ExecutionStatus, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.faults import Faults, FaultyStore
from stepwell_testkit.proxy import StoreProxy
from tests.chaos.faults.functional import Chance
from tests.chaos.load.clients import HOLD_MS, TENANT, Client, FeedReader, Field
from tests.chaos.oracle.calls import Claiming, History, Kept, Sending, Span
from tests.chaos.oracle.checker import check
from tests.chaos.oracle.kept import kept_by
from tests.simulation.simulator.violation import InvariantViolation

OPERATIONS = 1_500
LIES_TOLD = 30
"""At the least: one may be told of what nobody can know yet."""
CLIENTS = 6
FAULTS = Faults(time_out=0.1, cut=0.1, refuse=0.05, delay_ms_max=3)


class Honest(StoreProxy):
    """A door that tells no lie."""

    def __init__(self, inner: Store, number: int) -> None:
        super().__init__(inner)
        self.number = number
        self.turns = 0
        self.lies = 0
        """How often it told one so far."""

    def now(self, every: int = 20) -> bool:
        """Whether it is time for a lie, which it then has told."""
        self.turns += 1
        lie = self.turns % every == 0
        self.lies += lie
        return lie


class AnotherId(Honest):
    """Sends again under another id what may have been done."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        try:
            return await self.inner.commit(commits)
        except OutcomeUnknown:
            self.lies += 1
            again = [replace(one, commit_id=f"{one.commit_id}+") for one in commits]
            return await self.inner.commit(again)


class AcknowledgesFirst(Honest):
    """Says that it is done, and then sometimes doesn't do it."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        if self.now():
            return [CommitResult(verdict=Verdict.COMMITTED) for _ in commits]
        return await self.inner.commit(commits)


class RefusesAndDoes(Honest):
    """Says that it was refused, and does it."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results = await self.inner.commit(commits)
        if self.now():
            return [CommitResult(verdict=Verdict.CONFLICT) for _ in commits]
        return results


class RefusesForNothing(Honest):
    """Says that another was faster, and nobody was."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        if self.now():
            return [CommitResult(verdict=Verdict.CONFLICT) for _ in commits]
        return await self.inner.commit(commits)


class LooksAtNoFence(Honest):
    """Lets in who has no lease any more."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self.lies += any(one.fences for one in commits)
        return await self.inner.commit([replace(one, fences=()) for one in commits])


class ReadsTheOld(Honest):
    """Answers some reads with what was so a while ago, as a standby would."""

    def __init__(self, inner: Store, number: int) -> None:
        super().__init__(inner, number)
        self.old: dict[tuple[str, str], Any] = {}

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Any:
        found = await self.inner.load(tenant_id, run_id, since=since)
        old = self.old.setdefault((tenant_id, run_id), found)
        return old if self.now(3) else found


class TearsLoads(Honest):
    """Returns the rows of two versions together."""

    def __init__(self, inner: Store, number: int) -> None:
        super().__init__(inner, number)
        self.old: dict[str, Any] = {}

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Any:
        found = await self.inner.load(tenant_id, run_id, since=since)
        if found is None:
            return None
        old = self.old.setdefault(run_id, found.executions)
        return replace(found, executions=old) if self.now(3) else found


class SkipsEvents(Honest):
    """Leaves out an event of a page."""

    async def read_events(self, tenant_id: str, run_id: str, *, after: int, limit: int) -> Any:
        page = await self.inner.read_events(tenant_id, run_id, after=after, limit=limit)
        if page is not None and len(page.events) > 2 and self.now(3):
            return replace(page, events=page.events[1:])
        return page


class SplitsCommits(Honest):
    """Ends a page in the middle of a commit."""

    async def read_events(self, tenant_id: str, run_id: str, *, after: int, limit: int) -> Any:
        page = await self.inner.read_events(tenant_id, run_id, after=after, limit=limit)
        if page is None or len(page.events) < 2:
            return page
        self.lies += 1
        return replace(page, events=page.events[:1])


class ForgetsInFeed(Honest):
    """Leaves out commits of the feed."""

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> Any:
        page = await self.inner.feed(tenant_id=tenant_id, cursor=cursor, limit=limit)
        if len(page.entries) < 2:
            return page
        self.lies += 1
        return replace(page, entries=page.entries[1:])


class RenewsAll(Honest):
    """Renews what is no lease."""

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        await self.inner.renew(renewals)
        return [self.now(2) for _ in renewals]


class HoldsNothing(Honest):
    """Gives to each who asks what was just given to another."""

    async def claim(self, request: ClaimRequest) -> Claimed:
        self.lies += 1
        return await self.inner.claim(replace(request, hold_ms=0))


LIES: dict[type[Honest], set[str]] = {
    AnotherId: {"S4", "S5"},
    # Who believes a lie goes on from there: commits then follow what they weren't made for (E1), and
    # what was done is done twice (S7).
    AcknowledgesFirst: {"S2", "S3", "S4", "S7", "E1"},
    RefusesAndDoes: {"S4", "S5"},
    RefusesForNothing: {"S2", "S4"},
    LooksAtNoFence: {"S8"},
    ReadsTheOld: {"S2", "S3", "E1"},
    TearsLoads: {"S1", "S7"},
    SkipsEvents: {"E2"},
    SplitsCommits: {"E8"},
    ForgetsInFeed: {"E1"},
    RenewsAll: {"S8"},
    HoldsNothing: {"S10"},
}


async def played(folder: Path, door: type[Honest], *, lies: int) -> Callable[[], Counter[str]]:
    """Play a history through three doors that fail and tell so many lies; returns what checks it."""
    name = f"memory://{folder.as_posix().replace('/', '.')}"
    real = [await open_store(name, runtime=SystemRuntime()) for _ in range(3)]
    faulty = [FaultyStore(one, Chance(f"{at}"), FAULTS) for at, one in enumerate(real)]
    doors = [door(one, at) for at, one in enumerate(faulty)]
    field = Field(
        doors, "checker", OPERATIONS, enough=lambda: sum(one.lies for one in doors) >= lies
    )
    reader = FeedReader(field)
    lives: list[Awaitable[None]] = [reader.live()]
    lives += [Client(field, f"{number}").live() for number in range(CLIENTS)]
    async with asyncio.timeout(60):
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
    return lambda: check(field.history, kept, hold_ms=HOLD_MS)


async def test_an_honest_store_passes_and_every_fate_of_a_commit_is_met(tmp_path: Path) -> None:
    happened = (await played(tmp_path, Honest, lies=0))()
    for what in (
        "unknown commit that was applied",
        "unknown commit that was not applied",
        "commit_id seen again",
    ):
        assert happened[what] > 0, happened


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
async def test_a_lie_is_found(lie: type[Honest], tmp_path: Path) -> None:
    with pytest.raises(InvariantViolation) as caught:
        (await played(tmp_path, lie, lies=LIES_TOLD))()
    print(caught.value)
    assert caught.value.name in LIES[lie]


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_claims_either_may_have_been_served_first(order: int) -> None:
    waited, quick, quick_too = Span(1.0, 2.2), Span(1.05, 1.1), Span(1.06, 1.2)

    claimed((waited, quick)[::order])

    with pytest.raises(InvariantViolation, match=r"S10: run e1 was given at Span.* and at Span"):
        claimed((quick, quick_too)[::order])


def claimed(spans: Sequence[Span]) -> None:
    """Check a history of claims of one execution, which is READY since long."""
    event = Event(number=1, version=1, type=EventType.EXECUTION_LEASED, message="c1")
    run = Run(spec=RunSpec(tenant_id=TENANT, run_id="run"), created_us=1, version=1, last_event=1)
    commit = Commit(
        commit_id="c1",
        tenant_id=TENANT,
        run_id="run",
        version=1,
        run=run,
        events=(event,),
        executions=(b.ready("e1"),),
    )
    history = History()
    history.sent(commit, Sending(Span(0.0, 0.1), Verdict.COMMITTED))
    history.claims += [Claiming("run", "e1", span) for span in spans]
    kept = Kept(1, (event,), {"e1": (ExecutionStatus.READY, "")}, {})
    check(history, {"run": kept}, hold_ms=HOLD_MS)
