"""Pages of each kind of row.

A cursor is an index into a list, or the number of the next row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from stepwell.core.port import (
    CheckpointQuery,
    EndedQuery,
    EndedRun,
    ExecutionQuery,
    FeedQuery,
    FoundQuestion,
    JournalQuery,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    Page,
    Presence,
    PresenceQuery,
    Query,
    QuestionQuery,
    RunQuery,
    TaskQuery,
    WorkerLease,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.model import Execution, LogEntry, Message, Run, Task
from stepwell_drivers.filters import matches
from stepwell_drivers.memory.rows import RunRows, newest_before, page_of
from stepwell_drivers.memory.state import State

R = TypeVar("R")


def page(state: State, query: Query[R]) -> Page[R]:
    """Return the rows that a query asks for."""
    return _READERS[type(query)](state, query)


def _runs(state: State, query: RunQuery) -> Page[Run]:
    tenant = state.tenants.get(query.tenant_id)
    births = tenant.births if tenant is not None else []
    index = newest_before(births, _place(query.cursor)) if query.cursor else len(births)
    runs: list[Run] = []
    while index > 0 and len(runs) < max(query.limit, 1):
        index -= 1
        if matches(births[index].run, query):
            runs.append(births[index].run)
    return Page(items=tuple(runs), cursor=str(births[index].birth) if index > 0 else "")


def _tasks(state: State, query: TaskQuery) -> Page[Task]:
    rows = _rows(state, query)
    if rows is None:
        return Page()
    names, cursor = page_of(rows.ordered_tasks(), _place(query.cursor), query.limit)
    return Page(items=tuple(rows.tasks[name].task for name in names), cursor=cursor)


def _executions(state: State, query: ExecutionQuery) -> Page[Execution]:
    rows = _rows(state, query)
    if rows is None:
        return Page()
    births = rows.births_of_task.get(query.task_id, []) if query.task_id else rows.births
    names, cursor = page_of(births, _place(query.cursor), query.limit)
    return Page(items=tuple(rows.executions[name].execution for name in names), cursor=cursor)


def _messages(state: State, query: MessageQuery) -> Page[Message]:
    rows = _rows(state, query)
    if rows is None:
        return Page()
    kept = rows.messages_of_task.get(query.task_id, []) if query.task_id else rows.messages
    messages, cursor = page_of(kept, _place(query.cursor), query.limit)
    return Page(items=tuple(messages), cursor=cursor)


def _checkpoints(state: State, query: CheckpointQuery) -> Page[Checkpoint]:
    rows = _rows(state, query)
    if rows is None:
        return Page()
    items, cursor = page_of(rows.checkpoints, _place(query.cursor), query.limit)
    return Page(items=tuple(items), cursor=cursor)


def _logs(state: State, query: LogQuery) -> Page[LogEntry]:
    rows = _rows(state, query)
    place = _place(query.cursor)
    if rows is None:
        return Page(cursor=str(place))
    return rows.log.page(query.execution_id, place, query.limit)


def _journals(state: State, query: JournalQuery) -> Page[StoredEntry]:
    rows = _rows(state, query)
    place = _place(query.cursor)
    if rows is None:
        return Page(cursor=str(place))
    return rows.journals.page(query, place)


def _questions(state: State, query: QuestionQuery) -> Page[FoundQuestion]:
    place = _place(query.cursor)
    if not query.run_id:
        tenant = state.tenants.get(query.tenant_id)
        return tenant.open_questions.page(place, query.limit) if tenant is not None else Page()
    rows = _rows(state, query)
    if rows is None:
        return Page()
    names, cursor = page_of(rows.asked, place, query.limit)
    questions = (
        FoundQuestion(run_id=rows.run_id, question=rows.questions[name].question) for name in names
    )
    return Page(items=tuple(questions), cursor=cursor)


def _ended(state: State, query: EndedQuery) -> Page[EndedRun]:
    return Page(items=tuple(state.ended(query)))


def _presences(state: State, query: PresenceQuery) -> Page[Presence]:
    return Page(items=state.presences(query.tenant_id))


def _leases(state: State, query: LeaseQuery) -> Page[WorkerLease]:
    return Page(items=tuple(state.leases(query)))


def _rows(
    state: State,
    query: TaskQuery
    | ExecutionQuery
    | MessageQuery
    | CheckpointQuery
    | LogQuery
    | JournalQuery
    | QuestionQuery,
) -> RunRows | None:
    return state.runs.get((query.tenant_id, query.run_id))


def _place(cursor: str) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 20):
        raise InvalidArgument("the page cursor is none of this store's")
    return int(cursor)


_READERS: Mapping[type[Query[Any]], Callable[[State, Any], Page[Any]]] = {
    RunQuery: _runs,
    TaskQuery: _tasks,
    ExecutionQuery: _executions,
    MessageQuery: _messages,
    CheckpointQuery: _checkpoints,
    LogQuery: _logs,
    JournalQuery: _journals,
    QuestionQuery: _questions,
    EndedQuery: _ended,
    PresenceQuery: _presences,
    LeaseQuery: _leases,
    FeedQuery: State.feed,
}
