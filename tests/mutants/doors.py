"""Defects as drivers have them, each a door to a store: what goes through it is right but for one thing.

`DoorFactory` opens stores of the memory driver behind `DOOR[0]`, the door of the bug that is planted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import (
    Claimed,
    ClaimRequest,
    Commit,
    CommitResult,
    EndedQuery,
    EndedRun,
    ExecutionPage,
    FeedPage,
    InputPage,
    InputQuery,
    Loaded,
    Renewal,
    Store,
    StoredPayload,
    WorkerLease,
)
from stepwell.core.records.model import Outcome
from stepwell.core.records.states import DueKind, ExecutionStatus, LogKind, RunStatus, Verdict
from stepwell_testkit.proxy import StoreProxy
from tests.contract.conformance.conftest import MemoryFactory


class VersionOffByOne(StoreProxy):
    """It also takes a commit at the version that is stored."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        for commit in commits:
            run = await self.inner.get_run(commit.tenant_id, commit.run_id)
            if run is not None and run.version == commit.version > 1:
                commit = replace(commit, version=commit.version + 1)
            results += await self.inner.commit([commit])
        return results


class FenceIgnored(StoreProxy):
    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit([replace(commit, fences=()) for commit in commits])


class FenceOfFirstOnly(StoreProxy):
    """In a group, it looks at the first commit's fences alone."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        rest = [replace(commit, fences=()) for commit in commits[1:]]
        return await self.inner.commit([*commits[:1], *rest])


class ResendRefused(StoreProxy):
    """A commit that is not the run's last one is not recognised when it comes again."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        for commit in commits:
            run = await self.inner.get_run(commit.tenant_id, commit.run_id)
            late = run is not None and run.version > commit.version
            (result,) = await self.inner.commit([commit])
            results.append(replace(result, verdict=Verdict.CONFLICT) if late else result)
        return results


class ResendAppliedTwice(StoreProxy):
    """The rows beside the version are written again: the log of messages grows."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        twice = [replace(commit, messages=commit.messages * 2) for commit in commits]
        return await self.inner.commit(twice)


class HoldForgotten(StoreProxy):
    async def claim(self, request: ClaimRequest) -> Claimed:
        return await self.inner.claim(replace(request, hold_ms=0))


class EarlyDelivery(StoreProxy):
    """A delay is cut to a tenth."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit(
            [
                replace(
                    commit,
                    executions=tuple(
                        replace(one, delay_ms=one.delay_ms // 10) for one in commit.executions
                    ),
                )
                for commit in commits
            ]
        )


class PriorityForgotten(StoreProxy):
    async def claim(self, request: ClaimRequest) -> Claimed:
        found = await self.inner.claim(request)
        return replace(found, ready=tuple(steps[::-1] for steps in found.ready))


class RoleForgotten(StoreProxy):
    """`*` is taken for the name of a role."""

    async def claim(self, request: ClaimRequest) -> Claimed:
        wants = tuple(
            replace(want, roles=tuple(role for role in want.roles if role != "*"))
            for want in request.wants
        )
        return await self.inner.claim(replace(request, wants=wants))


class PageDropsARow(StoreProxy):
    """The row at the boundary of two pages is on neither."""

    async def list_executions(self, *key: str, **asked: Any) -> ExecutionPage:
        page = await self.inner.list_executions(*key, **asked)
        return replace(page, executions=page.executions[:-1]) if page.cursor else page


class DeltaMissesInputs(StoreProxy):
    """Since a version, what was answered meanwhile is left out."""

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        rows = await self.inner.load(tenant_id, run_id, since=since)
        return rows if rows is None or rows.complete else replace(rows, inputs=())


class DeltaIsOneShort(StoreProxy):
    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        return await self.inner.load(tenant_id, run_id, since=since + 1 if since else 0)


class TombstoneIgnored(StoreProxy):
    """A deleted run that is born again is told so."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.deleted: set[tuple[str, str]] = set()

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        deleted = await self.inner.delete_run(tenant_id, run_id, version=version)
        if deleted:
            self.deleted.add((tenant_id, run_id))
        return deleted

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return [
            replace(result, verdict=Verdict.COMMITTED)
            if commit.version == 1 and (commit.tenant_id, commit.run_id) in self.deleted
            else result
            for commit, result in zip(commits, await self.inner.commit(commits), strict=True)
        ]


class FeedSkips(StoreProxy):
    """The last entry of a full page is read and not told."""

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> FeedPage:
        page = await self.inner.feed(tenant_id=tenant_id, cursor=cursor, limit=limit)
        full = len(page.entries) == limit > 1
        return replace(page, entries=page.entries[:-1]) if full else page


class BytesAltered(StoreProxy):
    """Empty bytes are taken for none."""

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> Sequence[StoredPayload]:
        found = await self.inner.read_payloads(tenant_id, run_id, keys)
        return [one for one in found if one.payload.data]


class NulCut(StoreProxy):
    """A text ends at its first NUL."""

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        found = await self.inner.read_outcomes(tenant_id, run_id, execution_ids)
        return [replace(one, response=one.response.partition("\x00")[0]) for one in found]


class AnyTokenRenews(StoreProxy):
    """A heartbeat is believed whatever its token."""

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        await self.inner.renew(renewals)
        return [True] * len(renewals)


class LeaseOutlivesItsEnd(StoreProxy):
    """A lease is listed for its worker after the execution has ended."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.seen: dict[tuple[str, str], dict[str, WorkerLease]] = {}

    async def list_leases(self, tenant_id: str, worker_id: str) -> Sequence[WorkerLease]:
        seen = self.seen.setdefault((tenant_id, worker_id), {})
        for one in await self.inner.list_leases(tenant_id, worker_id):
            seen[one.token] = one
        return list(seen.values())


class UnknownOutcomeExpires(StoreProxy):
    """An UNKNOWN_OUTCOME execution is kept as LEASED, so that its lease expires again."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit(
            [
                replace(commit, executions=tuple(_leased(one) for one in commit.executions))
                for commit in commits
            ]
        )


def _leased(one: Any) -> Any:
    unknown = one.status is ExecutionStatus.UNKNOWN_OUTCOME
    return replace(one, status=ExecutionStatus.LEASED) if unknown else one


class Raises(StoreProxy):
    """An error of its database comes through."""

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Any:
        if revision > 2:
            raise KeyError(revision)
        return await self.inner.read_plan(tenant_id, run_id, revision)


class OrphanIsBorn(StoreProxy):
    """A fork is born whoever is there."""

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit([_without_parent(commit) for commit in commits])


def _without_parent(commit: Commit) -> Commit:
    spec = replace(commit.run.spec, parent_run_id="")
    return replace(commit, run=replace(commit.run, spec=spec))


class NothingIsLeft(StoreProxy):
    """A deleted run's results go with it, whoever refers to them."""

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        if await self.inner.get_run(tenant_id, run_id) is None:
            return []
        return await self.inner.read_outcomes(tenant_id, run_id, execution_ids)


class FirstOfAKey(StoreProxy):
    """Of the same key the first one committed is found."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.seen: set[tuple[str, str, str]] = set()

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        for commit in commits:
            names = [(commit.tenant_id, one.pipeline_id, one.key) for one in commit.keyed]
            new = tuple(
                one for one, name in zip(commit.keyed, names, strict=True) if name not in self.seen
            )
            (result,) = await self.inner.commit([replace(commit, keyed=new)])
            if result.verdict is Verdict.COMMITTED:
                self.seen.update(names)
            results.append(result)
        return results


class AnsweredIsOpen(StoreProxy):
    """What was answered is still shown to everybody."""

    async def list_inputs(self, query: InputQuery) -> InputPage:
        return await self.inner.list_inputs(replace(query, run_id=query.run_id or "r1"))


class EndedOfAnyStatus(StoreProxy):
    async def list_ended(self, query: EndedQuery) -> Sequence[EndedRun]:
        statuses = (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)
        return await self.inner.list_ended(replace(query, statuses=statuses))


class TrimTakesAll(StoreProxy):
    """All kinds of an execution's entries go."""

    async def trim_logs(
        self, tenant_id: str, run_id: str, *, execution_id: str, kind: LogKind
    ) -> None:
        assert kind in LogKind
        for each in LogKind:
            await self.inner.trim_logs(tenant_id, run_id, execution_id=execution_id, kind=each)


class PurgeGoesTooFar(StoreProxy):
    async def purge_logs(self, *, older_ms: int, limit: int) -> int:
        return await self.inner.purge_logs(older_ms=older_ms // 2, limit=limit)


FOUND_BY_PROGRAMS: tuple[type[StoreProxy], ...] = (
    VersionOffByOne,
    FenceIgnored,
    FenceOfFirstOnly,
    ResendRefused,
    ResendAppliedTwice,
    HoldForgotten,
    EarlyDelivery,
    PriorityForgotten,
    RoleForgotten,
    PageDropsARow,
    DeltaMissesInputs,
    DeltaIsOneShort,
    TombstoneIgnored,
    FeedSkips,
    BytesAltered,
    NulCut,
    AnyTokenRenews,
    LeaseOutlivesItsEnd,
    UnknownOutcomeExpires,
    Raises,
    OrphanIsBorn,
    NothingIsLeft,
    FirstOfAKey,
    AnsweredIsOpen,
    EndedOfAnyStatus,
    TrimTakesAll,
    PurgeGoesTooFar,
)


class TriesAgainBehindTheBack(StoreProxy):
    """A commit that was refused is tried again by the driver, once there is a place for it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.refused: list[Commit] = []

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results = await self.inner.commit(commits)
        again, self.refused = self.refused, []
        for commit in again:
            await self.inner.commit([commit])
        pairs = zip(commits, results, strict=True)
        self.refused = [one for one, result in pairs if result.verdict is Verdict.CONFLICT]
        return results


class DueOfThisProcess(StoreProxy):
    """What comes due is remembered by the process that wrote it, and forgotten with it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.known: set[str] = set()

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        for commit in commits:
            self.known |= {lease.token for lease in commit.leases}
            self.known |= {f"{commit.run_id} {timer.name}" for timer in commit.timers}
        return await self.inner.commit(commits)

    async def claim(self, request: ClaimRequest) -> Claimed:
        found = await self.inner.claim(request)
        due = tuple(one for one in found.due if self._is_known(one))
        return replace(found, due=due)

    def _is_known(self, one: Any) -> bool:
        name = f"{one.run_id} {one.name}" if one.kind is DueKind.TIMER else one.token
        return name in self.known


DOOR: list[Callable[[Store], Store]] = [StoreProxy]
"""What stores are opened behind now."""


class DoorFactory(MemoryFactory):
    """The memory driver, behind a door."""

    async def at(self, url: str) -> Store:
        store = await super().at(url)
        behind = DOOR[0](store)
        self.opened[id(behind)] = (behind, url)
        return behind
