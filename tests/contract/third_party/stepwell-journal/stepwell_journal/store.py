"""The `Store` port over the journal and the state in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NoReturn, TypeVar

from stepwell.core.port import (
    INPUT_KEY,
    Claimed,
    ClaimRequest,
    Commit,
    CommitResult,
    EndedQuery,
    EndedRun,
    EventPage,
    ExecutionPage,
    FeedPage,
    FoundInput,
    FoundResult,
    Hint,
    InputPage,
    InputQuery,
    Loaded,
    LogPage,
    MessagePage,
    OpenExecution,
    Presence,
    Renewal,
    RunPage,
    RunQuery,
    Runtime,
    StoredPayload,
    StoreInfo,
    TaskPage,
    WorkerLease,
)
from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
)
from stepwell.core.records.model import Execution, InputRequest, LogEntry, Outcome, Plan, Run
from stepwell.core.records.states import OPEN, Durability, InputStatus, LogKind, Verdict
from stepwell_journal.journal import Journal
from stepwell_journal.state import Committed, Deleted, Entry, Item, Renewed, Rows, State, encoded

T = TypeVar("T")


class JournalStore:
    """One open journal. Reads come from memory; writes go to the disk first, one at a time."""

    def __init__(self, journal: Journal, state: State, runtime: Runtime) -> None:
        self._journal = journal
        self._state = state
        self._runtime = runtime
        self._writing = asyncio.Lock()
        self._closed = False
        self._hints: list[Hint] = []
        # The wall clock once, then the monotonic one; never below what is in the file.
        self._opened_us = max(runtime.now_us(), state.now_us)
        self._started = runtime.monotonic()

    # --- how a write is done ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self._alone(lambda: self._commit(commits))

    async def _commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results: list[CommitResult] = []
        while len(results) < len(commits):
            group = _group(commits[len(results) :])
            now_us = self._now_us()
            verdicts = [self._state.verdict(commit, now_us) for commit in group]
            new = [it for it, verdict in zip(group, verdicts, strict=True) if verdict is None]
            if new:
                try:
                    await self._write(Committed(now_us, tuple(new)))
                except StoreUnavailable as error:
                    if not results:
                        raise
                    raise OutcomeUnknown("some of these commits were applied") from error
                self._notify((it.tenant_id, it.run_id, it.version) for it in new)
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

    def _now_us(self) -> int:
        return self._opened_us + round((self._runtime.monotonic() - self._started) * 1_000_000)

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
            await self._write(Renewed(self._now_us(), good))
        return held

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        return await self._alone(lambda: self._delete(tenant_id, run_id, version))

    async def _delete(self, tenant_id: str, run_id: str, version: int) -> bool:
        rows = self._state.runs.get((tenant_id, run_id))
        if rows is None or len(rows.commit_ids) != version:
            return False
        await self._write(Deleted(self._now_us(), tenant_id, run_id))
        self._notify([(tenant_id, run_id, 0)])
        return True

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        # Left out: it is said every few seconds, and a file that only grows is no place for it.
        self._require_open()

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        self._refuse_logs()

    async def trim_logs(
        self, tenant_id: str, run_id: str, *, execution_id: str, kind: LogKind
    ) -> None:
        self._require_open()

    async def purge_logs(self, *, older_ms: int, limit: int) -> int:
        self._require_open()
        return 0

    def _refuse_logs(self) -> NoReturn:
        self._require_open()
        raise StoreRefused("a journal keeps no logs; let your workers log where they run")

    # --- claiming ---

    async def claim(self, request: ClaimRequest) -> Claimed:
        self._require_open()
        return self._state.claim(request, self._now_us())

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
            inputs=tuple(it for it in rows.inputs.values() if it.status is InputStatus.OPEN),
            requests=tuple(rows.requests),
            commit_id=rows.commit_ids[-1],
            now_us=self._now_us(),
        )

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> Sequence[StoredPayload]:
        rows = self._rows(tenant_id, run_id)
        outcomes = self._state.outcomes((tenant_id, run_id))
        payloads = {name: outcome.result for name, outcome in outcomes.items()}
        payloads[INPUT_KEY] = rows.input if rows is not None else None
        found = [(key, payloads.get(key)) for key in keys]
        return [StoredPayload(key=key, payload=it) for key, it in found if it is not None]

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        self._require_open()
        outcomes = self._state.outcomes((tenant_id, run_id))
        return [outcomes[name] for name in execution_ids if name in outcomes]

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        rows = self._rows(tenant_id, run_id)
        return rows.plans.get(revision) if rows is not None else None

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

    async def list_runs(self, query: RunQuery) -> RunPage:
        self._require_open()
        below = _place(query.cursor) if query.cursor else None
        found = [
            rows
            for (tenant_id, _), rows in self._state.runs.items()
            if tenant_id == query.tenant_id
            and (below is None or rows.birth < below)
            and _matches(rows.run, query)
        ]
        found.sort(key=lambda rows: -rows.birth)
        page = found[: max(query.limit, 1)]
        # Births, not places: runs come and go between two pages.
        cursor = str(page[-1].birth) if len(page) < len(found) else ""
        return RunPage(runs=tuple(rows.run for rows in page), cursor=cursor)

    async def list_inputs(self, query: InputQuery) -> InputPage:
        self._require_open()
        after = _place(query.cursor) if query.cursor else 0
        found = [
            (rows.asked[input_id], run_id, request)
            for (tenant_id, run_id), rows in self._state.runs.items()
            if tenant_id == query.tenant_id and query.run_id in {"", run_id}
            for input_id, request in rows.inputs.items()
            if rows.asked[input_id] > after and (query.run_id or request.status is InputStatus.OPEN)
        ]
        found.sort(key=lambda it: it[0])
        page = found[: max(query.limit, 1)]
        return InputPage(
            inputs=tuple(FoundInput(run_id=run_id, request=it) for _, run_id, it in page),
            cursor=str(page[-1][0]) if len(page) < len(found) else "",
        )

    async def read_inputs(
        self, tenant_id: str, run_id: str, input_ids: Sequence[str]
    ) -> Sequence[InputRequest]:
        rows = self._rows(tenant_id, run_id)
        kept = rows.inputs if rows is not None else {}
        return [kept[name] for name in input_ids if name in kept]

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        self._require_open()
        kept = self._state.keyed
        found = [(key, kept.get((tenant_id, pipeline_id, key))) for key in keys]
        return [
            FoundResult(key=key, run_id=places[-1][0], execution_id=places[-1][1])
            for key, places in found
            if places
        ]

    async def list_ended(self, query: EndedQuery) -> Sequence[EndedRun]:
        self._require_open()
        until_us = self._now_us() - query.older_ms * 1_000
        found = [
            EndedRun(
                tenant_id=tenant_id,
                run_id=run_id,
                version=len(rows.commit_ids),
                status=rows.run.status,
                ended_us=rows.run.ended_us,
            )
            for (tenant_id, run_id), rows in self._state.runs.items()
            if query.tenant_id in {"", tenant_id}
            and query.pipeline_id in {"", rows.run.spec.pipeline_id}
            and rows.run.ended
            and rows.run.status in query.statuses
            and rows.run.ended_us <= until_us
        ]
        found.sort(key=lambda it: it.ended_us)
        return found[: max(query.limit, 1)]

    async def list_tasks(
        self, tenant_id: str, run_id: str, *, cursor: str = "", limit: int = 100
    ) -> TaskPage:
        rows = self._rows(tenant_id, run_id)
        tasks, after = _page(rows.ordered_tasks() if rows is not None else [], cursor, limit)
        return TaskPage(tasks=tasks, cursor=after)

    async def list_executions(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> ExecutionPage:
        rows = self._rows(tenant_id, run_id)
        kept = rows.executions.values() if rows is not None else ()
        wanted = [it for it in kept if task_id in {"", it.task_id}]
        executions, after = _page(wanted, cursor, limit)
        return ExecutionPage(executions=executions, cursor=after)

    async def read_messages(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> MessagePage:
        rows = self._rows(tenant_id, run_id)
        kept = rows.messages if rows is not None else ()
        wanted = [it for it in kept if task_id in {"", it.task_id}]
        messages, after = _page(wanted, cursor, limit)
        return MessagePage(messages=messages, cursor=after)

    async def read_logs(
        self,
        tenant_id: str,
        run_id: str,
        *,
        execution_id: str = "",
        cursor: str = "",
        limit: int = 100,
    ) -> LogPage:
        self._refuse_logs()

    async def list_presence(self, tenant_id: str) -> Sequence[Presence]:
        self._require_open()
        return []

    async def list_leases(self, tenant_id: str, worker_id: str) -> Sequence[WorkerLease]:
        self._require_open()
        return [
            WorkerLease(
                run_id=run_id,
                execution_id=execution_id,
                token=item.lease.token,
                instance_id=item.lease.instance_id,
            )
            for (tenant, run_id, execution_id), item in self._state.leases.items()
            if item.lease is not None and (tenant, item.lease.worker_id) == (tenant_id, worker_id)
        ]

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> FeedPage:
        self._require_open()
        all_of_it, store_id = self._state.feed, self._journal.store_id
        at = len(all_of_it) if cursor == "now" else 0
        if cursor not in {"", "now"}:
            whose, _, place = cursor.rpartition(".")
            at = _place(place)
            if whose != store_id or at > len(all_of_it):
                raise InvalidArgument("the feed cursor is none of this store's")
        entries = []
        while at < len(all_of_it) and len(entries) < max(limit, 1):
            entry = all_of_it[at]
            if entry is not None and tenant_id in {"", entry.tenant_id}:
                entries.append(entry)
            at += 1
        return FeedPage(entries=tuple(entries), cursor=f"{store_id}.{at}")

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        self._hints.append(hint)

        def stop() -> None:
            if hint in self._hints:
                self._hints.remove(hint)

        return stop

    def _notify(self, changes: Iterable[tuple[str, str, int]]) -> None:
        """Call the hints in the event loop's next turn, never inside the call that caused them."""
        loop = asyncio.get_running_loop()
        for change in changes:
            for hint in self._hints:
                loop.call_soon(self._call, hint, change)

    def _call(self, hint: Hint, change: tuple[str, str, int]) -> None:
        if hint in self._hints:
            hint(*change)

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


def _page(items: Sequence[T], cursor: str, limit: int) -> tuple[tuple[T, ...], str]:
    """Return a page, and the cursor of the next: a place, for lists that only grow at their end."""
    start = _place(cursor) if cursor else 0
    end = start + max(limit, 1)
    return tuple(items[start:end]), str(end) if end < len(items) else ""


def _place(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20):
        raise InvalidArgument("the cursor is none of this store's")
    return int(cursor)


def _matches(run: Run, query: RunQuery) -> bool:
    spec = run.spec
    return (
        (not query.statuses or run.status in query.statuses)
        and query.pipeline_id in {"", spec.pipeline_id}
        and query.queue in {"", spec.queue}
        and query.executor_id in {"", spec.executor_id}
        and query.parent_run_id in {"", spec.parent_run_id}
        and (not query.blocked_on or run.blocked_on in query.blocked_on)
        and all(spec.labels.get(key) == value for key, value in query.labels.items())
    )
