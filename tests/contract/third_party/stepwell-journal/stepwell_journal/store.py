"""The `Store` port over the journal and the state in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from stepwell.core.port import (
    INPUT_KEY,
    Claim,
    Claimed,
    Commit,
    CommitResult,
    EventPage,
    Hint,
    JournalAck,
    JournalWrite,
    KeySwap,
    Loaded,
    LogsOfExecution,
    OldLogs,
    OpenExecution,
    Page,
    Presence,
    Query,
    Renewal,
    Reservation,
    Runtime,
    StoredPayload,
    StoreInfo,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from stepwell.core.records.model import Execution, LogEntry, Plan, Question, Run
from stepwell.core.records.states import OPEN, Durability, QuestionStatus, Verdict
from stepwell_drivers.clock import StoreClock
from stepwell_drivers.hints import HintBus
from stepwell_journal.journal import Journal
from stepwell_journal.pages import page_of
from stepwell_journal.state import (
    Committed,
    Deleted,
    Entry,
    Item,
    Renewed,
    Rows,
    State,
    Swapped,
    encoded,
)

R = TypeVar("R")
T = TypeVar("T")


class JournalStore:
    """One open journal. Reads come from memory; writes go to the disk first, one at a time."""

    def __init__(self, journal: Journal, state: State, runtime: Runtime) -> None:
        self._journal = journal
        self._state = state
        self._runtime = runtime
        self._writing = asyncio.Lock()
        self._closed = False
        self._hints = HintBus()
        self._clock = StoreClock(runtime, at_least_us=state.now_us)

    # --- how a write is done ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self._alone(lambda: self._commit(commits))

    async def _commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        while len(results) < len(commits):
            group = _group(commits[len(results) :])
            now_us = self._clock.now_us()
            verdicts = [self._state.verdict(commit, now_us) for commit in group]
            new = [it for it, verdict in zip(group, verdicts, strict=True) if verdict is None]
            if new:
                try:
                    await self._write(Committed(now_us, tuple(new)))
                except StoreUnavailable as error:
                    if not results:
                        raise
                    raise OutcomeUnknown("some of these commits were applied") from error
                self._hints.publish({(it.tenant_id, it.run_id): it.version for it in new})
            results += (
                CommitResult(verdict=verdict or Verdict.COMMITTED, now_us=now_us)
                for verdict in verdicts
            )
        return results

    async def _alone(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do some work that writes while no other does, and to its end whoever stops waiting."""

        async def in_turn() -> T:
            async with self._writing:
                self._require_open()
                return await work()

        self._require_open()
        return await asyncio.shield(self._runtime.spawn(in_turn(), name="journal"))

    async def _write(self, entry: Entry) -> None:
        """Bring an entry to the disk, then to the memory that all reads come from."""
        await asyncio.to_thread(self._journal.append, encoded(entry))
        self._state.apply(entry)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("this store was closed")
        if self._journal.broken:
            raise StoreUnavailable("the journal failed to write; restart to read what is there")

    # --- the other writes ---

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        return await self._alone(lambda: self._renew(renewals))

    async def _renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        held = [
            self._state.holds(it.tenant_id, it.run_id, it.execution_id, it.token) for it in renewals
        ]
        good = tuple(it for it, is_held in zip(renewals, held, strict=True) if is_held)
        if good:
            await self._write(Renewed(self._clock.now_us(), good))
        return held

    async def swap_keys(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        return await self._alone(lambda: self._swap(tenant_id, pipeline_id, swaps))

    async def _swap(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> Sequence[Reservation]:
        stands = self._state.swapped(tenant_id, pipeline_id, swaps)
        # Of several swaps of one key the last one counts.
        last = {swap.key: one for swap, one in zip(swaps, stands, strict=True)}
        if any(swap.before != swap.after for swap in swaps):
            await self._write(Swapped(self._clock.now_us(), tenant_id, pipeline_id, last))
        return stands

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        return await self._alone(lambda: self._delete(tenant_id, run_id, version))

    async def _delete(self, tenant_id: str, run_id: str, version: int) -> bool:
        run = (tenant_id, run_id)
        rows = self._state.runs.get(run)
        if rows is None or len(rows.commit_ids) != version or run in self._state.parents():
            return False
        await self._write(Deleted(self._clock.now_us(), tenant_id, run_id))
        self._hints.publish({(tenant_id, run_id): 0})
        return True

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        # Left out: it is said every few seconds, and a file that only grows is no place for it.
        self._require_open()

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        self._require_open()
        raise StoreRefused("a journal of commits keeps none of calls")

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        self._require_open()
        raise StoreRefused("a journal keeps no logs; let your workers log where they run")

    async def remove_logs(self, which: LogsOfExecution | OldLogs) -> int:
        self._require_open()
        return 0

    # --- claiming ---

    async def claim(self, claim: Claim) -> Claimed:
        self._require_open()
        return self._state.claim(claim, self._clock.now_us())

    # --- reading ---

    def _rows(self, tenant_id: str, run_id: str) -> Rows | None:
        self._require_open()
        return self._state.runs.get((tenant_id, run_id))

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        rows = self._rows(tenant_id, run_id)
        return rows.run if rows is not None else None

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        # All of the rows, whatever `since` says: the port leaves that to the store.
        rows = self._rows(tenant_id, run_id)
        if rows is None:
            return None
        return Loaded(
            run=rows.run,
            plans=tuple(rows.plans[revision] for revision in sorted(rows.plans)),
            tasks=tuple(rows.ordered_tasks()),
            executions=tuple(
                _opened(it, self._state.leases.get((tenant_id, run_id, it.execution_id)))
                for it in rows.executions.values()
                if it.status in OPEN
            ),
            questions=tuple(
                it for it in rows.questions.values() if it.status is QuestionStatus.OPEN
            ),
            requests=tuple(rows.requests),
            checkpoint=replace(rows.checkpoints[-1], base=b"") if rows.checkpoints else None,
            commit_id=rows.commit_ids[-1],
            now_us=self._clock.now_us(),
        )

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool = False
    ) -> Sequence[StoredPayload]:
        rows = self._rows(tenant_id, run_id)
        stored = {
            name: StoredPayload(
                key=name,
                payload=outcome.result,
                prompt=outcome.prompt if texts else "",
                response=outcome.response if texts else "",
                receipt=outcome.receipt if texts else "",
            )
            for name, outcome in (rows.outcomes if rows is not None else {}).items()
            if texts or outcome.result is not None
        }
        if rows is not None and rows.input is not None:
            stored[INPUT_KEY] = StoredPayload(key=INPUT_KEY, payload=rows.input)
        return [stored[key] for key in keys if key in stored]

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        rows = self._rows(tenant_id, run_id)
        return rows.plans.get(revision) if rows is not None else None

    async def read_base(self, tenant_id: str, run_id: str, *, version: int) -> Checkpoint | None:
        rows = self._rows(tenant_id, run_id)
        kept = rows.checkpoints if rows is not None else []
        return next((it for it in reversed(kept) if it.base and it.version <= version), None)

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        rows = self._rows(tenant_id, run_id)
        if rows is None:
            return None
        # Numbers have no gaps: the event after number n stands at place n.
        latest = len(rows.events)
        start = end = min(max(after, 0), latest)
        while end < latest:
            stop = end
            while stop < latest and rows.events[stop].version == rows.events[end].version:
                stop += 1
            if end > start and stop - start > limit:
                break
            end = stop
        return EventPage(
            events=tuple(rows.events[start:end]),
            latest=latest,
            ended=rows.run.ended and end == latest,
        )

    async def page(self, query: Query[R]) -> Page[R]:
        self._require_open()
        return page_of(self._state, query, self._clock.now_us(), self._journal.store_id)

    async def read_questions(
        self, tenant_id: str, run_id: str, question_ids: Sequence[str]
    ) -> Sequence[Question]:
        rows = self._rows(tenant_id, run_id)
        kept = rows.questions if rows is not None else {}
        return [kept[name] for name in question_ids if name in kept]

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        return self._hints.subscribe(hint)

    async def describe(self) -> StoreInfo:
        self._require_open()
        return StoreInfo(
            driver="journal",
            durability=Durability.POWER,
            detail="one append-only file, fsynced before each acknowledgement",
            schema_version="1",
            store_id=self._journal.store_id,
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._hints.clear()
        # What was begun is finished; what still waits for its turn is refused.
        async with self._writing:
            self._journal.close()


def _group(commits: Sequence[Commit]) -> Sequence[Commit]:
    """Return those up to the second of a run: that one is judged when the first is applied."""
    seen: set[tuple[str, str]] = set()
    for at, commit in enumerate(commits):
        if (commit.tenant_id, commit.run_id) in seen:
            return commits[:at]
        seen.add((commit.tenant_id, commit.run_id))
    return commits


def _opened(execution: Execution, item: Item | None) -> OpenExecution:
    if item is None or item.lease is None:
        return OpenExecution(execution=execution)
    return OpenExecution(
        execution=execution,
        token=item.lease.token,
        worker_id=item.lease.worker_id,
        instance_id=item.lease.instance_id,
        progress=item.progress,
        session=item.session,
    )
