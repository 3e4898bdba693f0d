"""Reads of a program, in a form that two stores must agree on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from stepwell.core.port import (
    INPUT_KEY,
    EndedQuery,
    ExecutionQuery,
    FeedEntry,
    FeedQuery,
    InputQuery,
    LeaseQuery,
    LogQuery,
    LogsOfExecution,
    MessageQuery,
    OldLogs,
    PresenceQuery,
    RunQuery,
    Store,
    TaskQuery,
)
from stepwell.core.records.model import LogEntry
from stepwell.core.records.states import BlockedKind, LogKind, RunStatus
from tests.contract.differential.compare import Differs, walk
from tests.contract.differential.known import Key
from tests.contract.differential.making import ENDS, pick
from tests.contract.differential.names import (
    EXECUTIONS,
    EXECUTORS,
    INPUTS,
    LABELS,
    NONSENSE,
    PIPELINES,
    QUEUES,
    RUNS,
    TASKS,
    WORKERS,
)

T = TypeVar("T")
Page = tuple[Sequence[T], str]
TURNS_MAX = 10_000


async def tasks(store: Store, key: Key, limit: int) -> object:
    """List a run's tasks."""

    async def page_at(cursor: str) -> Page[object]:
        page = await store.page(
            TaskQuery(tenant_id=key[0], run_id=key[1], cursor=cursor, limit=limit)
        )
        return page.items, page.cursor

    return await walk(page_at, limit)


async def executions(store: Store, key: Key, limit: int, only: int = 0) -> object:
    """List a run's executions, or those of one task."""

    async def page_at(cursor: str) -> Page[object]:
        page = await store.page(
            ExecutionQuery(
                tenant_id=key[0],
                run_id=key[1],
                task_id=pick(("", *TASKS), only),
                cursor=cursor,
                limit=limit,
            )
        )
        return page.items, page.cursor

    return await walk(page_at, limit)


async def messages(store: Store, key: Key, limit: int, only: int = 0) -> object:
    """Read a run's conversation, or that of one task."""

    async def page_at(cursor: str) -> Page[object]:
        page = await store.page(
            MessageQuery(
                tenant_id=key[0],
                run_id=key[1],
                task_id=pick(("", *TASKS), only),
                cursor=cursor,
                limit=limit,
            )
        )
        return page.items, page.cursor

    return await walk(page_at, limit)


class LogReader:
    """Reads one run's log, or that of one execution, on from where it was before."""

    def __init__(self, key: Key, only: int = 0) -> None:
        self._key = key
        self._execution_id = EXECUTIONS[only - 1].execution_id if only else ""
        self._cursor = ""

    async def read(self, store: Store, limit: int) -> list[LogEntry]:
        """Read to the end, which an empty page is."""
        rows: list[LogEntry] = []
        for _ in range(TURNS_MAX):
            page = await store.page(
                LogQuery(
                    tenant_id=self._key[0],
                    run_id=self._key[1],
                    execution_id=self._execution_id,
                    cursor=self._cursor,
                    limit=limit,
                )
            )
            if len(page.items) > limit:
                raise Differs(f"{len(page.items)} lines where at most {limit} were asked for")
            self._cursor = page.cursor
            if not page.items:
                return rows
            rows += page.items
        raise Differs("a log without an end")


async def _all_tasks(store: Store, key: Key, limit: int, _: int) -> object:
    return await tasks(store, key, limit)


async def _lines(store: Store, key: Key, limit: int, only: int) -> object:
    return await LogReader(key, only).read(store, limit)


LISTS: tuple[Callable[[Store, Key, int, int], Awaitable[object]], ...] = (
    _all_tasks,
    executions,
    messages,
    _lines,
)


def query_of(tenant_id: str, by: int, value: int, limit: int) -> RunQuery:
    """Return one of the filters that a list of runs may have."""
    queries = (
        RunQuery(tenant_id=tenant_id, limit=limit),
        RunQuery(
            tenant_id=tenant_id,
            limit=limit,
            statuses=(pick(list(RunStatus), value), pick(list(RunStatus), value + 2)),
        ),
        RunQuery(tenant_id=tenant_id, limit=limit, pipeline_id=pick(PIPELINES, value)),
        RunQuery(tenant_id=tenant_id, limit=limit, queue=pick(QUEUES, value)),
        RunQuery(tenant_id=tenant_id, limit=limit, executor_id=pick(EXECUTORS, value)),
        RunQuery(tenant_id=tenant_id, limit=limit, labels=pick(LABELS, value)),
        RunQuery(tenant_id=tenant_id, limit=limit, blocked_on=(pick(list(BlockedKind), value),)),
        RunQuery(tenant_id=tenant_id, limit=limit, parent_run_id=pick(RUNS, value)),
    )
    return pick(queries, by)


async def runs(store: Store, query: RunQuery) -> object:
    """List runs."""

    async def page_at(cursor: str) -> Page[object]:
        asked = RunQuery(
            **{name: getattr(query, name) for name in query.__struct_fields__ if name != "cursor"},
            cursor=cursor,
        )
        page = await store.page(asked)
        return page.items, page.cursor

    return await walk(page_at, query.limit)


def ended_query_of(tenant_id: str, statuses: int, pipeline: int, limit: int) -> EndedQuery:
    """Return a question for ended runs of a tenant."""
    return EndedQuery(
        tenant_id=tenant_id,
        statuses=ENDS if statuses >= len(ENDS) else (ENDS[statuses],),
        pipeline_id=pick(PIPELINES, pipeline),
        limit=limit,
    )


async def inputs(store: Store, tenant_id: str, run_id: str, limit: int) -> object:
    """List input requests, in an order of ours: they are as old as their writers say."""

    async def page_at(cursor: str) -> Page[tuple[str, str, object]]:
        query = InputQuery(tenant_id=tenant_id, run_id=run_id, cursor=cursor, limit=limit)
        page = await store.page(query)
        return [(one.run_id, one.request.input_id, one.request) for one in page.items], page.cursor

    return sorted(await walk(page_at, limit), key=lambda one: one[:2])


async def trimmed(store: Store, key: Key, execution_id: str, kind: LogKind) -> int:
    """Remove an execution's lines of one kind; return how many there were."""
    tenant_id, run_id = key
    return await store.remove_logs(
        LogsOfExecution(tenant_id=tenant_id, run_id=run_id, execution_id=execution_id, kind=kind)
    )


async def end_of_feed(store: Store) -> str:
    """Return the cursor that stands at the end of the feed."""
    return (await store.page(FeedQuery(cursor="now"))).cursor


async def purged(store: Store, older_ms: int, limit: int) -> int:
    """Remove old lines until there are no more; return how many there were."""
    removed = 0
    for _ in range(TURNS_MAX):
        many = await store.remove_logs(OldLogs(older_ms=older_ms, limit=limit))
        removed += many
        if many < limit:
            return removed
    raise Differs("a purge without an end")


async def fetched(store: Store, key: Key, plans: int) -> object:
    """Read what is kept by key: bytes, outcomes, plans; and some keys that nothing is kept under."""
    names = [named.execution_id for named in EXECUTIONS]
    return (
        list(await store.read_payloads(*key, [*names, "nobody's", INPUT_KEY])),
        list(await store.read_payloads(*key, [*reversed(names), INPUT_KEY], texts=True)),
        [await store.read_plan(*key, revision) for revision in range(plans + 2)],
        list(await store.read_inputs(*key, [*reversed(INPUTS), "nobody's"])),
    )


async def presences(store: Store, tenant_id: str) -> object:
    """List the workers that are connected."""
    rows = (await store.page(PresenceQuery(tenant_id=tenant_id))).items
    return sorted(rows, key=lambda one: (one.worker_id, one.instance_id))


async def leases(store: Store, tenant_id: str, worker: int) -> object:
    """List the leases of a worker."""
    rows = (
        await store.page(LeaseQuery(tenant_id=tenant_id, worker_id=pick(WORKERS, worker)))
    ).items
    return sorted(rows, key=lambda one: (one.run_id, one.execution_id))


async def nonsense(store: Store, key: Key, what: int) -> object:
    """Ask with a cursor that no store made."""
    asked: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.page(TaskQuery(tenant_id=key[0], run_id=key[1], cursor=NONSENSE)),
        lambda: store.page(ExecutionQuery(tenant_id=key[0], run_id=key[1], cursor=NONSENSE)),
        lambda: store.page(MessageQuery(tenant_id=key[0], run_id=key[1], cursor=NONSENSE)),
        lambda: store.page(LogQuery(tenant_id=key[0], run_id=key[1], cursor=NONSENSE)),
        lambda: store.page(RunQuery(tenant_id=key[0], cursor=NONSENSE)),
        lambda: store.page(FeedQuery(cursor=NONSENSE)),
        lambda: store.page(InputQuery(tenant_id=key[0], cursor=NONSENSE)),
        lambda: store.page(InputQuery(tenant_id=key[0], run_id=key[1], cursor=NONSENSE)),
    )
    return await pick(asked, what)()


class FeedReader:
    """Reads one feed on and on, and keeps what it was told of one program's tenants."""

    def __init__(self, tenant_id: str, cursor: str, mine: tuple[str, ...]) -> None:
        self._tenant_id = tenant_id
        self._cursor = cursor
        self._mine = mine
        self.entries: list[FeedEntry] = []

    async def read(self, store: Store, limit: int) -> bool:
        """Read a page; returns whether there was anything in it."""
        page = await store.page(
            FeedQuery(tenant_id=self._tenant_id, cursor=self._cursor, limit=limit)
        )
        if len(page.items) > limit:
            raise Differs(f"{len(page.items)} entries where at most {limit} were asked for")
        self._cursor = page.cursor
        self.entries += [entry for entry in page.items if entry.tenant_id in self._mine]
        return bool(page.items)

    def of(self, keys: set[Key]) -> list[FeedEntry]:
        """Return what it was told of these runs, in an order that no store has to keep."""
        rows = [one for one in self.entries if (one.tenant_id, one.run_id) in keys]
        return sorted(rows, key=lambda one: (one.tenant_id, one.run_id))
