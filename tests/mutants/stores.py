"""Stores with a bug that takes more than one call: each is right but for one thing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import (
    NOBODY,
    Claim,
    Claimed,
    Commit,
    CommitResult,
    Due,
    EventPage,
    FeedEntry,
    FeedQuery,
    Hint,
    KeySwap,
    Loaded,
    Page,
    Reservation,
    RunQuery,
    Runtime,
    Store,
    StoredPayload,
)
from stepwell.core.records.errors import InvalidArgument, OutcomeUnknown, StoreError
from stepwell.core.records.events import Event
from stepwell.core.records.model import Budget, Run
from stepwell.core.records.states import OPEN, DueKind, ExecutionStatus, Verdict
from tests.mutants.changes import MutantStore

StorePort = Callable[[Store, Runtime], Store]
RunKey = tuple[str, str]


class KeysNotReserved(MutantStore):
    """Says that a key is reserved, and writes nothing."""

    async def swap_keys(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        looks = [KeySwap(key=one.key) for one in swaps]
        stands = await self.inner.swap_keys(tenant_id, pipeline_id, looks)
        return [
            one.after if one.before == there else there
            for one, there in zip(swaps, stands, strict=True)
        ]


class KeysTakenEarly(MutantStore):
    """Replaces a reservation whose commit may still come: it says that nobody has the key."""

    async def swap_keys(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        stands = list(await self.inner.swap_keys(tenant_id, pipeline_id, swaps))
        for place, (swap, there) in enumerate(zip(swaps, stands, strict=True)):
            if swap.after not in (NOBODY, there) and await self._is_undecided(tenant_id, there):
                again = [replace(swap, before=there)]
                stands[place] = (await self.inner.swap_keys(tenant_id, pipeline_id, again))[0]
        return stands

    async def _is_undecided(self, tenant_id: str, reservation: Reservation) -> bool:
        rows = await self.inner.load(tenant_id, reservation.run_id)
        return rows is not None and rows.commit_id == reservation.commit_id


class TornLoad(MutantStore):
    """Loads a run with the tasks that it had a commit earlier."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.before: dict[RunKey, Loaded | None] = {}

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        for one in commits:
            key = (one.tenant_id, one.run_id)
            self.before[key] = await self.inner.load(*key)
        return await self.inner.commit(commits)

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        rows = await self.inner.load(tenant_id, run_id, since=since)
        before = self.before.get((tenant_id, run_id))
        if rows is None or before is None:
            return rows
        old = {task.task_id: task for task in before.tasks}
        return replace(rows, tasks=tuple(old.get(task.task_id, task) for task in rows.tasks))


class VersionNotCompared(MutantStore):
    """Writes a commit over whatever version the run has."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        for one in commits:
            run = await self.inner.get_run(one.tenant_id, one.run_id)
            if run is not None and one.version <= run.version:
                one = replace(one, version=run.version + 1, follows="")
            results += await self.inner.commit([one])
        return results


class AcknowledgedEarly(MutantStore):
    """Answers a commit at once and writes it afterwards."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self.runtime.spawn(self._write(commits), name="write later")
        now_us = self.runtime.now_us()
        return [CommitResult(verdict=Verdict.COMMITTED, now_us=now_us) for _ in commits]

    async def _write(self, commits: Sequence[Commit]) -> None:
        with suppress(StoreError):
            await self.inner.commit(commits)


class SentAnewWhenUnknown(MutantStore):
    """Sends a commit whose outcome is unknown again as a new one."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        while True:
            try:
                return await self.inner.commit(commits)
            except OutcomeUnknown:
                await self.runtime.sleep(0.05)
                commits = [replace(one, commit_id=self.runtime.new_id()) for one in commits]


class RefusedTriedAgain(MutantStore):
    """Tries a refused commit again with the next one."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.refused: list[Commit] = []

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results = await self.inner.commit(commits)
        again, self.refused = self.refused, []
        for commit in again:
            await self.inner.commit([commit])
        pairs = zip(commits, results, strict=True)
        self.refused = [one for one, result in pairs if result.verdict is Verdict.CONFLICT]
        return results


class OpenThoughClosed(MutantStore):
    """Leaves out that a step which waits for a worker is over."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.waiting: set[tuple[RunKey, str]] = set()

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit([self._changed(one) for one in commits])

    def _changed(self, one: Commit) -> Commit:
        key = (one.tenant_id, one.run_id)
        kept = tuple(
            row
            for row in one.executions
            if row.status in OPEN or (key, row.execution_id) not in self.waiting
        )
        for row in one.executions:
            if row.status is ExecutionStatus.READY:
                self.waiting.add((key, row.execution_id))
            elif row.status is ExecutionStatus.LEASED:
                self.waiting.discard((key, row.execution_id))
        return replace(one, executions=kept)


class LimitsForgotten(MutantStore):
    """Reads a run without its budget and with twice its parallel steps; writes both as they are."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.right: dict[RunKey, Run] = {}

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        rows = await self.inner.load(tenant_id, run_id, since=since)
        if rows is None:
            return None
        run = self.right[tenant_id, run_id] = rows.run
        spec = replace(run.spec, max_parallel=2 * run.spec.max_parallel)
        return replace(rows, run=replace(run, spec=spec, budget=Budget()))

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit([self._restored(one) for one in commits])

    def _restored(self, one: Commit) -> Commit:
        right = self.right.get((one.tenant_id, one.run_id))
        if right is None:
            return one
        budget = one.run.budget if one.run.budget != Budget() else right.budget
        return replace(one, run=replace(one.run, spec=right.spec, budget=budget))


class PublishedEarly(MutantStore):
    """Shows events to the watchers of its replica before they are committed."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.shown: dict[RunKey, tuple[Event, ...]] = {}

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self.shown.update({(one.tenant_id, one.run_id): one.events for one in commits})
        return await self.inner.commit(commits)

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        page = await self.inner.read_events(tenant_id, run_id, after=after, limit=limit)
        early = self.shown.get((tenant_id, run_id), ())
        if page is not None and early and early[0].number == page.latest + 1 > after:
            return replace(page, events=(*page.events, *early), latest=early[-1].number)
        return page


class RepeatsAnEvent(MutantStore):
    """Begins a page with the event that it comes after."""

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        return await self.inner.read_events(tenant_id, run_id, after=max(0, after - 1), limit=limit)


class ReadsWhenNotified(MutantStore):
    """Reads events again only if a notification has come since."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.pages: dict[tuple[str, str, int], EventPage | None] = {}
        inner.subscribe(self._forget)

    def _forget(self, tenant_id: str, run_id: str, _version: int) -> None:
        for key in tuple(self.pages):
            if key[:2] == (tenant_id, run_id) or not run_id:
                del self.pages[key]

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        key = (tenant_id, run_id, after)
        if key not in self.pages:
            page = await self.inner.read_events(tenant_id, run_id, after=after, limit=limit)
            if page is None or page.events:
                return page
            self.pages[key] = page
        return self.pages[key]


class ClaimsWhenNotified(MutantStore):
    """Claims nothing unless a notification has come since the last claim."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.notified = True
        inner.subscribe(self._notify)

    def _notify(self, _tenant_id: str, _run_id: str, _version: int) -> None:
        self.notified = True

    async def claim(self, claim: Claim) -> Claimed:
        if not self.notified:
            nothing = await self.inner.claim(replace(claim, wants=(), due_limit=0))
            return replace(nothing, ready=tuple(() for _ in claim.wants), next_due_ms=-1)
        self.notified = False
        return await self.inner.claim(claim)


class FeedByNumber(MutantStore):
    """Numbers a commit when it begins, and reads the feed by `number > cursor`."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.begun = 0
        self.entries: dict[int, FeedEntry] = {}

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        first = self.begun + 1
        self.begun += len(commits)
        # Every other one takes longer, and so ends after one that has begun later.
        for _ in range(3 if first % 2 else 0):
            await asyncio.sleep(0)
        results = await self.inner.commit(commits)
        for number, (one, result) in enumerate(zip(commits, results, strict=True), first):
            if result.verdict is Verdict.COMMITTED:
                self.entries[number] = FeedEntry(
                    tenant_id=one.tenant_id, run_id=one.run_id, version=one.version
                )
        return results

    async def page(self, query: Any) -> Page[Any]:
        if not isinstance(query, FeedQuery):
            return await self.inner.page(query)
        if not query.cursor.isdecimal() and query.cursor:
            raise InvalidArgument("no cursor of this store")
        after = int(query.cursor or 0)
        newer = [
            (number, entry)
            for number, entry in sorted(self.entries.items())
            if number > after and query.tenant_id in ("", entry.tenant_id)
        ][: query.limit]
        last = newer[-1][0] if newer else after
        return Page(items=tuple(entry for _, entry in newer), cursor=str(last))


class WallClock(MutantStore):
    """Compares the deadlines of timers and leases with the wall clock."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.until_us: dict[Due, int] = {}

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results = await self.inner.commit(commits)
        now_us = self.runtime.now_us()
        for one, result in zip(commits, results, strict=True):
            if result.verdict is not Verdict.COMMITTED:
                continue
            names = {"tenant_id": one.tenant_id, "run_id": one.run_id, "version": one.version}
            for timer in one.timers:
                due = Due(kind=DueKind.TIMER, name=timer.name, **names)
                self.until_us[due] = now_us + timer.delay_ms * 1_000
            for lease in one.leases:
                kind, name = DueKind.LEASE_EXPIRED, lease.execution_id
                due = Due(kind=kind, name=name, token=lease.token, **names)
                self.until_us[due] = now_us + lease.lease_ms * 1_000
        return results

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self.inner.claim(claim)
        now_us = self.runtime.now_us()
        early = [due for due, until_us in self.until_us.items() if until_us <= now_us]
        for due in early:
            del self.until_us[due]
        return replace(claimed, due=tuple(dict.fromkeys((*claimed.due, *early))))


class TenantForgotten(MutantStore):
    """Forgets the tenant in a read by id, in a list and in a claim."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.tenants: dict[str, None] = {}

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self.tenants.update(dict.fromkeys(one.tenant_id for one in commits))
        return await self.inner.commit(commits)

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        for one in (tenant_id, *self.tenants):
            run = await self.inner.get_run(one, run_id)
            if run is not None:
                return run
        return None

    async def page(self, query: Any) -> Page[Any]:
        if not isinstance(query, RunQuery):
            return await self.inner.page(query)
        pages = [
            await self.inner.page(replace(query, tenant_id=one))
            for one in dict.fromkeys((query.tenant_id, *self.tenants))
        ]
        return replace(pages[0], items=tuple(run for page in pages for run in page.items))

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self.inner.claim(claim)
        for tenant_id in self.tenants:
            wants = tuple(replace(want, tenant_id=tenant_id) for want in claim.wants)
            more = await self.inner.claim(replace(claim, wants=wants, due_limit=0))
            ready = tuple(a + b for a, b in zip(claimed.ready, more.ready, strict=True))
            claimed = replace(claimed, ready=ready)
        return claimed


class NamesJoined(MutantStore):
    """Keys a run by its tenant and its id with a colon between, and either may hold a colon."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self.keys: dict[str, RunKey] = {}

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self.keys.update({f"{c.tenant_id}:{c.run_id}": (c.tenant_id, c.run_id) for c in commits})
        return await self.inner.commit(commits)

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        key = self.keys.get(f"{tenant_id}:{run_id}", (tenant_id, run_id))
        return await self.inner.get_run(*key)


class EmptyIsNone(MutantStore):
    """Returns no payload of no bytes: `if data` stands where `if data is not None` belongs."""

    async def read_payloads(self, *names: Any, **more: Any) -> Sequence[StoredPayload]:
        payloads = await self.inner.read_payloads(*names, **more)
        return [one for one in payloads if one.payload is None or one.payload.data]


class FailedSyncIgnored(MutantStore):
    """Says that a commit is durable although the disk has failed under it."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        try:
            return await self.inner.commit(commits)
        except StoreError:
            return [CommitResult(verdict=Verdict.COMMITTED) for _ in commits]


class NeverUnsubscribes(MutantStore):
    """Goes on notifying those who have unsubscribed."""

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        self.inner.subscribe(hint)
        return lambda: None
