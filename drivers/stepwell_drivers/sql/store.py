"""The Store port over SQL, for either database: writes go to the writer, reads to the readers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from stepwell.core.port import (
    INPUT_KEY,
    CheckpointQuery,
    Claim,
    Claimed,
    Commit,
    CommitResult,
    EndedQuery,
    EventPage,
    ExecutionQuery,
    FeedQuery,
    Hint,
    JournalAck,
    JournalQuery,
    JournalWrite,
    KeySwap,
    LeaseQuery,
    Loaded,
    LogQuery,
    LogsOfExecution,
    MessageQuery,
    OldLogs,
    Page,
    Presence,
    PresenceQuery,
    Query,
    QuestionQuery,
    Renewal,
    Reservation,
    RunQuery,
    Runtime,
    StoredPayload,
    StoreInfo,
    TaskQuery,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.core.records.model import LogEntry, Plan, Question, Run
from stepwell.core.records.states import Verdict
from stepwell_drivers.hints import HintBus, RunKey, newest
from stepwell_drivers.sql import journal, pages, reads, reservations, search
from stepwell_drivers.sql.deletes import DeleteWork
from stepwell_drivers.sql.dialect import Clock, Link
from stepwell_drivers.sql.entries import RecordWork
from stepwell_drivers.sql.logs import LogWork
from stepwell_drivers.sql.pages import About
from stepwell_drivers.sql.reservations import SwapWork
from stepwell_drivers.sql.writes import CommitWork, PresenceWork, RenewWork, Work

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

_PAGES: Mapping[type[Query[Any]], Callable[[Link, Any, About], Page[Any]]] = {
    RunQuery: pages.runs,
    TaskQuery: pages.tasks,
    ExecutionQuery: pages.executions,
    MessageQuery: pages.messages,
    CheckpointQuery: pages.checkpoints,
    LogQuery: pages.logs,
    JournalQuery: journal.page,
    QuestionQuery: search.questions,
    EndedQuery: search.ended,
    PresenceQuery: pages.presences,
    LeaseQuery: pages.leases,
    FeedQuery: pages.feed,
}
_ONE_STATEMENT = frozenset({CheckpointQuery, QuestionQuery, LeaseQuery})
"""Pages that are read by one statement, so in one snapshot without a transaction."""


def changed_by(done: Sequence[tuple[Work, Any]]) -> dict[RunKey, int]:
    """Return the runs that these writes changed, with their versions, for hints."""
    changes: list[tuple[str, str, int]] = []
    for work, answer in done:
        if isinstance(work, CommitWork):
            results: Sequence[CommitResult] = answer
            changes += [
                (one.tenant_id, one.run_id, one.version)
                for one, result in zip(work.commits, results, strict=True)
                if result.verdict is Verdict.COMMITTED
            ]
        elif isinstance(work, LogWork | DeleteWork) and answer:
            changes.append((work.tenant_id, work.run_id, 0))
    return newest(changes)


class Writing(Protocol):
    """Accepts writes, and makes concurrent ones durable together."""

    async def do(self, work: Work) -> Any:
        """Do a write, and return its answer when it is durable."""
        ...


class Reading(Protocol):
    """Runs reads."""

    async def run(
        self, read: Callable[Concatenate[Link, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read in one snapshot, and return its result."""
        ...

    async def ask(
        self, read: Callable[Concatenate[Link, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a read that is one statement, and so one snapshot by itself."""
        ...


class SqlStore:
    """One open store, whichever database it is in."""

    def __init__(
        self,
        *,
        writer: Writing,
        beats: Writing,
        readers: Reading,
        claim: Callable[[Claim], Awaitable[Claimed]],
        hints: HintBus,
        clock: Clock,
        runtime: Runtime,
        info: StoreInfo,
        shut: Callable[[], Awaitable[None]],
    ) -> None:
        """Take the parts that a database's module has opened.

        Args:
            writer: for what changes runs.
            beats: for heartbeats and presence; may be the same.
            readers: for all reads.
            claim: what `Store.claim` does.
            hints: the subscribers.
            clock: reads the store's time within a transaction.
            runtime: for closing.
            info: what `Store.describe` answers.
            shut: finishes running work and releases everything; called once.
        """
        self._writer = writer
        self._beats = beats
        self._readers = readers
        self._claim = claim
        self._hints = hints
        self._clock = clock
        self._about = About(info.store_id, clock)
        self._runtime = runtime
        self._info = info
        self._shut = shut
        self._closing: asyncio.Task[None] | None = None
        self._pid = os.getpid()

    def _check(self) -> None:
        if self._closing is not None:
            raise StoreUnavailable("this store was closed")
        if os.getpid() != self._pid:
            raise StoreUnavailable(
                f"this store belongs to process {self._pid}; a fork can't use its connections:"
                " open stores after forking"
            )

    async def _read(
        self,
        read: Callable[Concatenate[Link, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._check()
        return await self._readers.run(read, *args, **kwargs)

    async def _ask(
        self,
        read: Callable[Concatenate[Link, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        self._check()
        return await self._readers.ask(read, *args, **kwargs)

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self._check()
        results: Sequence[CommitResult] = await self._writer.do(CommitWork(tuple(commits)))
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        self._check()
        answers: Sequence[bool] = await _written(self._beats, RenewWork(tuple(renewals)))
        return answers

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        self._check()
        answers: Sequence[JournalAck] = await self._writer.do(RecordWork(tuple(writes)))
        return answers

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        self._check()
        await _written(self._beats, PresenceWork(tuple(presences), ttl_ms))

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        """Append to a run's log. After StoreUnavailable the entries may have been appended all the same."""
        self._check()
        await _written(self._writer, LogWork(tenant_id, run_id, tuple(entries)))

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        self._check()
        try:
            return bool(await self._writer.do(DeleteWork(tenant_id, run_id, version)))
        except OutcomeUnknown as error:
            if await self.get_run(tenant_id, run_id) is None:
                return True  # The answer was lost, but a read shows that the run is gone.
            raise StoreUnavailable(error.message) from error

    async def remove_logs(self, which: LogsOfExecution | OldLogs) -> int:
        self._check()
        return int(await _written(self._writer, which))

    async def swap_keys(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        work = SwapWork(tenant_id, pipeline_id, tuple(swaps))
        if work.only_looks:
            return await self._ask(reservations.read, work)
        self._check()
        stands: Sequence[Reservation] = await _written(self._writer, work)
        return stands

    async def claim(self, claim: Claim) -> Claimed:
        self._check()
        return await self._claim(claim)

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        return await self._ask(reads.get_run, tenant_id, run_id)

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        return await self._read(reads.load, tenant_id, run_id, since, self._clock)

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool = False
    ) -> Sequence[StoredPayload]:
        read = self._read if INPUT_KEY in keys else self._ask
        return await read(reads.read_payloads, tenant_id, run_id, keys, texts=texts)

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        return await self._ask(reads.read_plan, tenant_id, run_id, revision)

    async def read_base(self, tenant_id: str, run_id: str, *, version: int) -> Checkpoint | None:
        return await self._ask(reads.read_base, tenant_id, run_id, version)

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        return await self._read(reads.read_events, tenant_id, run_id, after, limit)

    async def page(self, query: Query[R]) -> Page[R]:
        self._check()
        run = self._readers.ask if type(query) in _ONE_STATEMENT else self._readers.run
        return await run(_PAGES[type(query)], query, self._about)

    async def read_questions(
        self, tenant_id: str, run_id: str, question_ids: Sequence[str]
    ) -> Sequence[Question]:
        return await self._ask(search.read_questions, tenant_id, run_id, question_ids)

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._hints.subscribe(hint)

    async def describe(self) -> StoreInfo:
        self._check()
        return self._info

    async def close(self) -> None:
        if os.getpid() != self._pid:
            return
        if self._closing is None:
            # A separate task, because its callers may be cancelled and the lock must outlive the
            # thread.
            self._closing = self._runtime.spawn(self._end(), name="close the store")
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        await self._shut()


async def _written(writer: Writing, work: Work) -> Any:
    """Do a write that is no commit. It may be repeated without harm, so an unknown outcome is an
    ordinary error.

    Raises:
        StoreUnavailable: no answer came.
    """
    try:
        return await writer.do(work)
    except OutcomeUnknown as error:
        raise StoreUnavailable(error.message) from error
