"""The Store port over the state in memory. No method waits for anything.

A commit is applied within the call. Hints follow in the event loop's next turn, so that a hint never
runs inside the call that caused it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    FoundResult,
    Hint,
    InputPage,
    InputQuery,
    Loaded,
    LogPage,
    MessagePage,
    Presence,
    Renewal,
    RunPage,
    RunQuery,
    StoredPayload,
    StoreInfo,
    TaskPage,
    WorkerLease,
)
from stepwell.core.records.errors import InvalidArgument, StoreUnavailable
from stepwell.core.records.model import InputRequest, LogEntry, Outcome, Plan, Run
from stepwell.core.records.states import Durability, LogKind, Verdict
from stepwell_drivers.hints import newest
from stepwell_drivers.memory.rows import newest_before, page_of
from stepwell_drivers.memory.state import State


class MemoryStore:
    """One door to a state in memory; the last that closes calls `on_last_close`."""

    def __init__(self, state: State, *, on_last_close: Callable[[], None] | None = None) -> None:
        self._kept = state
        self._on_last_close = on_last_close
        self._closed = False
        self._stops: list[Callable[[], None]] = []
        state.doors += 1

    @property
    def _state(self) -> State:
        if self._closed:
            raise StoreUnavailable("this store was closed")
        return self._kept

    # --- writing ---

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        state = self._state
        results = [state.commit(commit) for commit in commits]
        state.hints.publish(
            newest(
                (commit.tenant_id, commit.run_id, commit.version)
                for commit, result in zip(commits, results, strict=True)
                if result.verdict is Verdict.COMMITTED
            )
        )
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        state = self._state
        return [state.renew(renewal) for renewal in renewals]

    async def put_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        for presence in presences:
            self._state.put_presence(presence, ttl_ms)

    async def append_logs(self, tenant_id: str, run_id: str, entries: Sequence[LogEntry]) -> None:
        state = self._state
        if state.append_logs(tenant_id, run_id, entries):
            state.hints.publish({(tenant_id, run_id): 0})

    async def delete_run(self, tenant_id: str, run_id: str, *, version: int) -> bool:
        state = self._state
        deleted = state.delete(tenant_id, run_id, version)
        if deleted:
            state.hints.publish({(tenant_id, run_id): 0})
        return deleted

    async def trim_logs(
        self, tenant_id: str, run_id: str, *, execution_id: str, kind: LogKind
    ) -> None:
        rows = self._state.runs.get((tenant_id, run_id))
        if rows is not None:
            rows.log.trim(execution_id, kind)

    async def purge_logs(self, *, older_ms: int, limit: int) -> int:
        return self._state.purge_logs(older_ms, limit)

    async def claim(self, request: ClaimRequest) -> Claimed:
        state = self._state
        return state.agenda.claim(request, state.clock.now_us())

    # --- reading ---

    async def get_run(self, tenant_id: str, run_id: str) -> Run | None:
        rows = self._state.runs.get((tenant_id, run_id))
        return rows.run if rows is not None else None

    async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Loaded | None:
        rows = self._state.runs.get((tenant_id, run_id))
        return rows.load(since, self._state.clock.now_us()) if rows is not None else None

    async def read_payloads(
        self, tenant_id: str, run_id: str, keys: Sequence[str]
    ) -> Sequence[StoredPayload]:
        rows = self._state.runs.get((tenant_id, run_id))
        outcomes = self._state.outcomes(tenant_id, run_id)
        found: list[StoredPayload] = []
        for key in keys:
            if key == INPUT_KEY:
                payload = rows.input if rows is not None else None
            else:
                outcome = outcomes.get(key)
                payload = outcome.result if outcome is not None else None
            if payload is not None:
                found.append(StoredPayload(key=key, payload=payload))
        return found

    async def read_outcomes(
        self, tenant_id: str, run_id: str, execution_ids: Sequence[str]
    ) -> Sequence[Outcome]:
        outcomes = self._state.outcomes(tenant_id, run_id)
        return [outcomes[name] for name in execution_ids if name in outcomes]

    async def read_plan(self, tenant_id: str, run_id: str, revision: int) -> Plan | None:
        rows = self._state.runs.get((tenant_id, run_id))
        born_plan = rows.plans.get(revision) if rows is not None else None
        return born_plan[1] if born_plan is not None else None

    async def read_events(
        self, tenant_id: str, run_id: str, *, after: int, limit: int
    ) -> EventPage | None:
        rows = self._state.runs.get((tenant_id, run_id))
        return rows.read_events(after, limit) if rows is not None else None

    async def list_runs(self, query: RunQuery) -> RunPage:
        tenant = self._state.tenants.get(query.tenant_id)
        births = tenant.births if tenant is not None else []
        index = newest_before(births, _place(query.cursor)) if query.cursor else len(births)
        found: list[Run] = []
        while index > 0 and len(found) < max(query.limit, 1):
            index -= 1
            if _matches(births[index].run, query):
                found.append(births[index].run)
        return RunPage(runs=tuple(found), cursor=str(births[index].birth) if index > 0 else "")

    async def list_inputs(self, query: InputQuery) -> InputPage:
        place = _place(query.cursor)
        if query.run_id:
            rows = self._state.runs.get((query.tenant_id, query.run_id))
            return rows.list_inputs(place, query.limit) if rows is not None else InputPage()
        tenant = self._state.tenants.get(query.tenant_id)
        return tenant.open_inputs.page(place, query.limit) if tenant is not None else InputPage()

    async def read_inputs(
        self, tenant_id: str, run_id: str, input_ids: Sequence[str]
    ) -> Sequence[InputRequest]:
        rows = self._state.runs.get((tenant_id, run_id))
        if rows is None:
            return []
        return [rows.inputs[name].request for name in input_ids if name in rows.inputs]

    async def find_keyed(
        self, tenant_id: str, pipeline_id: str, keys: Sequence[str]
    ) -> Sequence[FoundResult]:
        tenant = self._state.tenants.get(tenant_id)
        if tenant is None:
            return []
        return [
            FoundResult(key=key, run_id=place[0], execution_id=place[1])
            for key in keys
            if (place := tenant.keyed.find(pipeline_id, key)) is not None
        ]

    async def list_ended(self, query: EndedQuery) -> Sequence[EndedRun]:
        return self._state.list_ended(query)

    async def list_tasks(
        self, tenant_id: str, run_id: str, *, cursor: str = "", limit: int = 100
    ) -> TaskPage:
        rows = self._state.runs.get((tenant_id, run_id))
        if rows is None:
            return TaskPage()
        names, after = page_of(rows.ordered_tasks(), _place(cursor), limit)
        return TaskPage(tasks=tuple(rows.tasks[name].task for name in names), cursor=after)

    async def list_executions(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> ExecutionPage:
        rows = self._state.runs.get((tenant_id, run_id))
        if rows is None:
            return ExecutionPage()
        births = rows.births_of_task.get(task_id, []) if task_id else rows.births
        names, after = page_of(births, _place(cursor), limit)
        found = tuple(rows.executions[name].execution for name in names)
        return ExecutionPage(executions=found, cursor=after)

    async def read_messages(
        self, tenant_id: str, run_id: str, *, task_id: str = "", cursor: str = "", limit: int = 100
    ) -> MessagePage:
        rows = self._state.runs.get((tenant_id, run_id))
        if rows is None:
            return MessagePage()
        kept = rows.messages_of_task.get(task_id, []) if task_id else rows.messages
        messages, after = page_of(kept, _place(cursor), limit)
        return MessagePage(messages=tuple(messages), cursor=after)

    async def read_logs(
        self,
        tenant_id: str,
        run_id: str,
        *,
        execution_id: str = "",
        cursor: str = "",
        limit: int = 100,
    ) -> LogPage:
        rows = self._state.runs.get((tenant_id, run_id))
        place = _place(cursor)
        if rows is None:
            return LogPage(cursor=str(place))
        return rows.log.page(execution_id, place, limit)

    async def list_presence(self, tenant_id: str) -> Sequence[Presence]:
        return self._state.presences(tenant_id)

    async def list_leases(self, tenant_id: str, worker_id: str) -> Sequence[WorkerLease]:
        return self._state.leases(tenant_id, worker_id)

    async def feed(self, *, tenant_id: str = "", cursor: str = "", limit: int = 1_000) -> FeedPage:
        return self._state.feed(tenant_id, cursor, limit)

    # --- the store itself ---

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        stop = self._kept.hints.subscribe(hint)
        self._stops.append(stop)
        return stop

    async def describe(self) -> StoreInfo:
        return StoreInfo(
            driver="memory",
            durability=Durability.VOLATILE,
            detail="in this process's memory; gone when it ends",
            store_id=self._state.store_id,
        )

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for stop in self._stops:
            stop()
        self._stops.clear()
        self._kept.doors -= 1
        if self._kept.doors == 0 and self._on_last_close is not None:
            self._on_last_close()


def _place(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20):
        raise InvalidArgument("the page cursor is none of this store's")
    return int(cursor)


def _matches(run: Run, query: RunQuery) -> bool:
    spec = run.spec
    return (
        (not query.statuses or run.status in query.statuses)
        and (not query.pipeline_id or spec.pipeline_id == query.pipeline_id)
        and (not query.queue or spec.queue == query.queue)
        and (not query.executor_id or spec.executor_id == query.executor_id)
        and (not query.parent_run_id or spec.parent_run_id == query.parent_run_id)
        and (not query.blocked_on or run.blocked_on in query.blocked_on)
        and all(spec.labels.get(key) == value for key, value in query.labels.items())
    )
