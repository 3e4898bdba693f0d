"""The pages of the journal: each kind of query is answered from the state in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from stepwell.core.port import (
    CheckpointQuery,
    EndedQuery,
    EndedRun,
    ExecutionQuery,
    FeedEntry,
    FeedQuery,
    FoundQuestion,
    JournalQuery,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    Page,
    PresenceQuery,
    Query,
    QuestionQuery,
    RunQuery,
    TaskQuery,
    WorkerLease,
)
from stepwell.core.records.errors import InvalidArgument, StoreRefused
from stepwell.core.records.model import Run
from stepwell.core.records.states import QuestionStatus
from stepwell_journal.state import State

T = TypeVar("T")


def page_of(state: State, query: Query[Any], now_us: int, store_id: str) -> Page[Any]:
    """Return the rows that a query asks for.

    Raises:
        StoreRefused: it asks for logs, or for journals of calls.
    """
    match query:
        case RunQuery():
            return _runs(state, query)
        case TaskQuery() | ExecutionQuery() | MessageQuery() | CheckpointQuery():
            return _rows_of_run(state, query)
        case QuestionQuery():
            return _questions(state, query)
        case EndedQuery():
            return _ended(state, query, now_us)
        case LeaseQuery():
            return _leases(state, query)
        case FeedQuery():
            return _feed(state, query, store_id)
        case PresenceQuery():
            return Page()
        case LogQuery():
            raise StoreRefused("a journal keeps no logs; let your workers log where they run")
        case JournalQuery():
            raise StoreRefused("a journal of commits keeps none of calls")
        case _:
            raise TypeError(f"no page is known for {type(query).__name__}")


def _runs(state: State, query: RunQuery) -> Page[Run]:
    below = _place(query.cursor) if query.cursor else None
    found = [
        rows
        for (tenant_id, _), rows in state.runs.items()
        if tenant_id == query.tenant_id
        and (below is None or rows.birth < below)
        and _matches(rows.run, query)
    ]
    found.sort(key=lambda rows: -rows.birth)
    page = found[: max(query.limit, 1)]
    # Births, not places: runs come and go between two pages.
    cursor = str(page[-1].birth) if len(page) < len(found) else ""
    return Page(items=tuple(rows.run for rows in page), cursor=cursor)


def _matches(run: Run, query: RunQuery) -> bool:
    spec = run.spec
    return (
        (not query.statuses or run.status in query.statuses)
        and query.pipeline_id in {"", spec.pipeline_id}
        and query.queue in {"", spec.queue}
        and query.executor_id in {"", spec.executor_id}
        and query.parent_run_id in {"", spec.parent_run_id}
        and spec.run_id.startswith(query.run_id_prefix)
        and (not query.blocked_on or run.blocked_on in query.blocked_on)
        and all(spec.labels.get(key) == value for key, value in query.labels.items())
    )


def _rows_of_run(
    state: State, query: TaskQuery | ExecutionQuery | MessageQuery | CheckpointQuery
) -> Page[Any]:
    rows = state.runs.get((query.tenant_id, query.run_id))
    if rows is None:
        return Page()
    if isinstance(query, TaskQuery):
        return _cut(rows.ordered_tasks(), query.cursor, query.limit)
    if isinstance(query, CheckpointQuery):
        kept = [replace(it, base=b"") for it in rows.checkpoints]
        return _cut(kept, query.cursor, query.limit)
    kept = rows.messages if isinstance(query, MessageQuery) else rows.executions.values()
    wanted = [it for it in kept if query.task_id in {"", it.task_id}]
    return _cut(wanted, query.cursor, query.limit)


def _cut(items: Sequence[T], cursor: str, limit: int) -> Page[T]:
    """Return a page; its cursor is a place, for lists that only grow at their end."""
    start = _place(cursor) if cursor else 0
    end = start + max(limit, 1)
    return Page(items=tuple(items[start:end]), cursor=str(end) if end < len(items) else "")


def _place(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20):
        raise InvalidArgument("the cursor is none of this store's")
    return int(cursor)


def _questions(state: State, query: QuestionQuery) -> Page[FoundQuestion]:
    after = _place(query.cursor) if query.cursor else 0
    found = [
        (rows.asked[question_id], run_id, request)
        for (tenant_id, run_id), rows in state.runs.items()
        if tenant_id == query.tenant_id and query.run_id in {"", run_id}
        for question_id, request in rows.questions.items()
        if rows.asked[question_id] > after
        and (query.run_id or request.status is QuestionStatus.OPEN)
    ]
    found.sort(key=lambda it: it[0])
    page = found[: max(query.limit, 1)]
    return Page(
        items=tuple(FoundQuestion(run_id=run_id, question=it) for _, run_id, it in page),
        cursor=str(page[-1][0]) if len(page) < len(found) else "",
    )


def _ended(state: State, query: EndedQuery, now_us: int) -> Page[EndedRun]:
    until_us = now_us - query.older_ms * 1_000
    parents = state.parents()
    found = [
        EndedRun(
            tenant_id=tenant_id,
            run_id=run_id,
            version=len(rows.commit_ids),
            status=rows.run.status,
            ended_us=rows.run.ended_us,
        )
        for (tenant_id, run_id), rows in state.runs.items()
        if query.tenant_id in {"", tenant_id}
        and query.pipeline_id in {"", rows.run.spec.pipeline_id}
        and rows.run.ended
        and (tenant_id, run_id) not in parents
        and rows.run.status in query.statuses
        and rows.run.ended_us <= until_us
    ]
    found.sort(key=lambda it: it.ended_us)
    return Page(items=tuple(found[: max(query.limit, 1)]))


def _leases(state: State, query: LeaseQuery) -> Page[WorkerLease]:
    return Page(
        items=tuple(
            WorkerLease(
                run_id=run_id,
                execution_id=execution_id,
                token=item.lease.token,
                instance_id=item.lease.instance_id,
                worker_id=item.lease.worker_id,
                progress=item.progress if query.run_id else None,
            )
            for (tenant_id, run_id, execution_id), item in state.leases.items()
            if item.lease is not None
            and tenant_id == query.tenant_id
            and query.worker_id in ("", item.lease.worker_id)
            and query.run_id in ("", run_id)
        )
    )


def _feed(state: State, query: FeedQuery, store_id: str) -> Page[FeedEntry]:
    at = len(state.feed) if query.cursor == "now" else 0
    if query.cursor not in {"", "now"}:
        whose, _, place = query.cursor.rpartition(".")
        at = _place(place)
        if whose != store_id or at > len(state.feed):
            raise InvalidArgument("the feed cursor is none of this store's")
    entries: list[FeedEntry] = []
    while at < len(state.feed) and len(entries) < max(query.limit, 1):
        entry = state.feed[at]
        if entry is not None and query.tenant_id in {"", entry.tenant_id}:
            entries.append(entry)
        at += 1
    return Page(items=tuple(entries), cursor=f"{store_id}.{at}")
