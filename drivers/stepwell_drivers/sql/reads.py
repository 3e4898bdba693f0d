"""Reads of one run: its row, what the loop needs, payloads, plans, events.

Each function reads one snapshot, in the caller's transaction. A delta is read by the keys that
later commits list, so it costs what changed, however long the run's history is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Table,
    bindparam,
    literal_column,
    select,
    text,
)

from stepwell.core.port import (
    INPUT_KEY,
    EventPage,
    Loaded,
    OpenExecution,
    StoredPayload,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.events import SHORT, Event
from stepwell.core.records.journal import Totals
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import Execution, Plan, Question, Run, Session, Task
from stepwell.core.records.states import ENDED, RunStatus
from stepwell_drivers.sql import bodies, schema
from stepwell_drivers.sql.batch import Changed
from stepwell_drivers.sql.columns import Values, payload_of
from stepwell_drivers.sql.dialect import Clock, Link
from stepwell_drivers.sql.entries import SUMS, totals_of
from stepwell_drivers.sql.statements import Pick, Query

DELTA_COMMITS_MAX = 256
"""A reader that is further behind than this reads everything."""

_runs = schema.runs.c
_named_run = (
    _runs.tenant_id == bindparam("tenant_id"),
    _runs.run_id == bindparam("run_id"),
)


def number_of_run() -> ScalarSelect[Any]:
    """Return a subquery for the number of the run with the given tenant and id."""
    return select(_runs.run_key).where(*_named_run).scalar_subquery()


def spec_of_run() -> ColumnElement[str]:
    """Return the specification of a run of `run_rows`, looked up for each returned row."""
    specs = schema.run_specs.c
    spec = select(specs.spec).where(specs.run_key == _runs.run_key)
    return spec.scalar_subquery().label("spec")


def of_named_run(table: Table, names: Iterable[str]) -> Select[Any]:
    """Select columns of the rows of the run with the given tenant and id."""
    return select(*[table.c[name] for name in names]).where(table.c.run_key == number_of_run())


def _of_run(table: Table, names: Iterable[str]) -> Select[Any]:
    """Select columns of the rows of the run with the given number."""
    return select(*[table.c[name] for name in names]).where(table.c.run_key == bindparam("run_key"))


def tasks_with_specs() -> Select[Any]:
    """Select tasks: id, revision, position, and the state of tasks that have one."""
    specs, states = schema.task_specs, schema.tasks
    same = (specs.c.run_key == states.c.run_key) & (specs.c.task_id == states.c.task_id)
    columns = [specs.c.task_id, specs.c.revision, specs.c.position, states.c.state]
    return select(*columns).select_from(specs.outerjoin(states, same))


TASK_ORDER = (
    schema.task_specs.c.revision,
    schema.task_specs.c.position,
    schema.task_specs.c.task_id,
)
"""The order of a run's tasks: by the plan that defined them, then by place in that plan."""

_OPEN_EXECUTION = (
    *("seq", "body", "token", "worker_id", "instance_id"),
    *("session_backend", "session_id", "progress_media_type", "progress"),
)
CHECKPOINT = ("version", "cycle", "created_us", "state")

_run = Query(select(_runs.run_key, _runs.commit_id, spec_of_run(), _runs.state).where(*_named_run))
_head = Query(select(_runs.run_key, _runs.last_event, _runs.status).where(*_named_run))
_plans = Query(_of_run(schema.plans, ("plan",)))
_plan = Query(
    of_named_run(schema.plans, ("plan",)).where(schema.plans.c.revision == bindparam("revision"))
)
_tasks = Query(
    tasks_with_specs()
    .where(
        schema.listed(schema.task_specs.c.run_key),
        schema.task_specs.c.run_key == bindparam("run_key"),
    )
    .order_by(*TASK_ORDER)
)
_executions, _sums = schema.executions.c, schema.lease_sums.c
_of_lease = (
    (_sums.run_key == _executions.run_key)
    & (_sums.execution_id == _executions.execution_id)
    & (_sums.token == _executions.token)
)
"""Joins an execution's lease with its sums."""
_open_executions = Query(
    select(*[_executions[name] for name in _OPEN_EXECUTION], *[_sums[name] for name in SUMS])
    .join_from(schema.executions, schema.lease_sums, _of_lease, isouter=True)
    .where(_executions.run_key == bindparam("run_key"), text(schema.OPEN))
)
_open_sums = Query(
    select(_sums.execution_id, *[_sums[name] for name in SUMS])
    .join_from(schema.lease_sums, schema.executions, _of_lease)
    .where(_executions.run_key == bindparam("run_key"), text(schema.OPEN))
)
_open_questions = Query(
    _of_run(schema.questions, ("seq", "body")).where(
        schema.questions.c.status == literal_column("'OPEN'")
    )
)
_committed = schema.requests.c.committed_version
_requests = Query(
    _of_run(schema.requests, ("body",))
    .where(_committed > bindparam("since"))
    .order_by(_committed.desc())
    .limit(REQUESTS_KEPT_MAX)
)
_version = schema.checkpoints.c.version
_newest_checkpoint = Query(
    _of_run(schema.checkpoints, CHECKPOINT).order_by(_version.desc()).limit(1)
)
_newest_base = Query(
    of_named_run(schema.checkpoints, (*CHECKPOINT, "base"))
    .where(_version <= bindparam("until"), schema.checkpoints.c.base.is_not(None))
    .order_by(_version.desc())
    .limit(1)
)
_commits = schema.commits.c
_changes = Query(
    select(_commits.changed, _commits.events)
    .where(_commits.run_key == bindparam("run_key"), _commits.version > bindparam("since"))
    .order_by(_commits.version)
    .limit(DELTA_COMMITS_MAX + 1)
)
_commit_id = Query(
    _of_run(schema.commits, ("commit_id",)).where(_commits.version == bindparam("version"))
)
_NAMED_TASK = ("run_key", "task_id")
_pick_plans = Pick(schema.plans, ("run_key", "revision"), ("plan",))
_pick_specs = Pick(schema.task_specs, _NAMED_TASK, ("task_id", "revision", "position"))
_pick_planned = Pick(
    schema.task_specs, ("run_key", "revision"), ("task_id", "revision", "position")
)
_pick_states = Pick(schema.tasks, _NAMED_TASK, ("task_id", "state"))
_pick_executions = Pick(
    schema.executions, ("run_key", "execution_id"), ("execution_id", *_OPEN_EXECUTION)
)
_NO_SUMS: Values = (None,) * len(SUMS)
_pick_questions = Pick(schema.questions, ("run_key", "question_id"), ("seq", "body"))
_input = Query(of_named_run(schema.run_specs, ("input_media_type", "input")))
_RESULT = ("execution_id", "result_media_type", "result")
_pick_results = Pick(schema.outcomes, ("run_key", "execution_id"), _RESULT)
_pick_outcomes = Pick(
    schema.outcomes,
    ("run_key", "execution_id"),
    (*_RESULT, "prompt", "response", "receipt"),
)
_of_events = select(_commits.version, _commits.last_event, _commits.events).where(
    schema.listed(_commits.run_key),
    _commits.run_key == bindparam("run_key"),
    _commits.last_event > bindparam("after"),
)
_whole = Query(
    _of_events.where(_commits.last_event <= bindparam("until")).order_by(
        _commits.last_event, _commits.seq
    )
)
_next = Query(_of_events.order_by(_commits.last_event, _commits.seq).limit(1))

_changed = msgspec.json.Decoder(Changed).decode


class _TaskName(Struct, rename=SHORT):
    task_id: str


class _ExecutionName(Struct, rename=SHORT):
    execution_id: str


class _QuestionName(Struct):
    question_id: str


class _Names(Struct, rename=SHORT):
    """The rows that an event names."""

    plan_revision: int = 0
    tasks: list[_TaskName] = []
    executions: list[_ExecutionName] = []
    questions: list[_QuestionName] = []


_names = msgspec.json.Decoder(list[_Names]).decode


def get_run(connection: Link, tenant_id: str, run_id: str) -> Run | None:
    """Return the run, or None."""
    row = _run.first(connection, tenant_id=tenant_id, run_id=run_id)
    return bodies.run_of(*row[2:]) if row is not None else None


def load(connection: Link, tenant_id: str, run_id: str, since: int, clock: Clock) -> Loaded | None:
    """Return everything that the loop needs of a run, or only what changed after `since`."""
    row = _run.first(connection, tenant_id=tenant_id, run_id=run_id)
    if row is None:
        return None
    run_key, commit_id = row[:2]
    run = bodies.loaded_run(*row[2:])
    delta = _delta(connection, run_key, since) if 0 < since <= run.version else None
    if delta is None:
        since = 0
        plans = _plans.run(connection, run_key=run_key)
        tasks = _tasks.run(connection, run_key=run_key)
        executions = _open_executions.run(connection, run_key=run_key)
        questions = _open_questions.run(connection, run_key=run_key)
    else:
        plans = _pick_plans.run(connection, [(run_key, each) for each in delta.plans])
        tasks = _changed_tasks(connection, run_key, delta)
        executions = _changed_executions(connection, run_key, delta)
        questions = _pick_questions.run(connection, [(run_key, name) for name in delta.questions])
    requests = _requests.run(connection, run_key=run_key, since=since)
    checkpoint = _newest_checkpoint.first(connection, run_key=run_key)
    before = _commit_id.first(connection, run_key=run_key, version=since) if since else None
    return Loaded(
        run=run,
        plans=tuple(sorted((bodies.plan_of(row[0]) for row in plans), key=lambda p: p.revision)),
        tasks=tuple(_loaded_tasks(tasks)),
        executions=tuple(_loaded_executions(_by_seq(executions))),
        questions=tuple(bodies.records_of(Question, [row[1] for row in _by_seq(questions)])),
        requests=tuple(bodies.request_of(row[0]) for row in reversed(requests)),
        checkpoint=bodies.checkpoint_of(checkpoint) if checkpoint is not None else None,
        complete=delta is None,
        commit_id=commit_id,
        since_id=before[0] if before is not None else "",
        now_us=clock(connection),
    )


class _Delta(Struct):
    """The keys of the rows that changed."""

    plans: set[int]
    tasks: set[str]
    executions: set[str]
    questions: set[str]


def _delta(connection: Link, run_key: int, since: int) -> _Delta | None:
    """Return the keys that later commits list, or None if they are too many."""
    rows = _changes.run(connection, run_key=run_key, since=since)
    if len(rows) > DELTA_COMMITS_MAX:
        return None
    delta = _Delta(set(), set(), set(), set())
    for besides, events in rows:
        for event in _names(events):
            delta.plans.add(event.plan_revision)
            delta.tasks.update(one.task_id for one in event.tasks)
            delta.executions.update(one.execution_id for one in event.executions)
            delta.questions.update(one.question_id for one in event.questions)
        if besides is not None:
            changed = _changed(besides)
            if changed.all:
                return None
            delta.plans.add(changed.plan)
            delta.tasks |= changed.tasks
            delta.executions |= changed.executions
            delta.questions |= changed.questions
    # Events about no plan have revision 0.
    delta.plans.discard(0)
    return delta


def _changed_tasks(connection: Link, run_key: int, delta: _Delta) -> list[Values]:
    """Return the tasks that changed, in the order of all tasks."""
    named = [(run_key, name) for name in delta.tasks]
    planned = [(run_key, each) for each in delta.plans]
    rows = _pick_specs.run(connection, named) + _pick_planned.run(connection, planned)
    specs = {row[0]: row for row in rows}
    states: dict[str, str] = {
        row[0]: row[1] for row in _pick_states.run(connection, [(run_key, name) for name in specs])
    }
    order = sorted(specs.values(), key=lambda row: (row[1], row[2], row[0]))
    return [(*row, states.get(row[0])) for row in order]


def _changed_executions(connection: Link, run_key: int, delta: _Delta) -> list[Values]:
    """Return the changed executions, and those whose leases recorded something, which no commit lists."""
    sums: dict[str, Values] = {
        row[0]: row[1:] for row in _open_sums.run(connection, run_key=run_key)
    }
    wanted = [(run_key, name) for name in delta.executions | sums.keys()]
    rows = _pick_executions.run(connection, wanted)
    return [(*row, *sums.get(name, _NO_SUMS)) for name, *row in rows]


def task_of(row: Values) -> Task:
    """Return the task of a row of `tasks_with_specs`."""
    task_id, revision, _, state = row
    return bodies.new_task(task_id, revision) if state is None else bodies.task_of(state)


def _loaded_tasks(rows: Sequence[Values]) -> Iterator[Task]:
    moved = iter(bodies.records_of(Task, [row[3] for row in rows if row[3] is not None]))
    return (bodies.new_task(row[0], row[1]) if row[3] is None else next(moved) for row in rows)


def _by_seq(rows: list[Values]) -> list[Values]:
    return sorted(rows, key=lambda row: row[0])


def _loaded_executions(rows: Sequence[Values]) -> Iterator[OpenExecution]:
    executions = bodies.records_of(Execution, [row[1] for row in rows])
    return map(_as_open, executions, rows)


def _as_open(execution: Execution, row: Values) -> OpenExecution:
    _, _, token, worker_id, instance_id, backend, session_id, media_type, data, *sums = row
    return OpenExecution(
        execution=execution,
        token=token or "",
        worker_id=worker_id or "",
        instance_id=instance_id or "",
        progress=payload_of(media_type, data),
        session=Session(backend=backend or "", session_id=session_id or ""),
        recorded=totals_of(sums) if sums[0] is not None else Totals(),
    )


def read_payloads(
    connection: Link, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool
) -> list[StoredPayload]:
    """Return what is stored under these keys, in their order."""
    run_key = number_of(connection, tenant_id, run_id)
    if run_key is None:
        return []
    results = _pick_outcomes if texts else _pick_results
    wanted = [(run_key, key) for key in dict.fromkeys(keys) if key != INPUT_KEY]
    rows = results.run(connection, wanted)
    if INPUT_KEY in keys:
        rows += [
            (INPUT_KEY, *row) for row in _input.run(connection, tenant_id=tenant_id, run_id=run_id)
        ]
    stored = {row[0]: bodies.stored_of(row) for row in rows}
    there = [stored[key] for key in keys if key in stored]
    return [one for one in there if one.payload is not None or (texts and one.key != INPUT_KEY)]


def number_of(connection: Link, tenant_id: str, run_id: str) -> int | None:
    """Return the number of a run, or None if there is no such run."""
    row = _head.first(connection, tenant_id=tenant_id, run_id=run_id)
    return row[0] if row is not None else None


def read_plan(connection: Link, tenant_id: str, run_id: str, revision: int) -> Plan | None:
    """Return one plan revision."""
    row = _plan.first(connection, tenant_id=tenant_id, run_id=run_id, revision=revision)
    return bodies.plan_of(row[0]) if row is not None else None


def read_base(connection: Link, tenant_id: str, run_id: str, version: int) -> Checkpoint | None:
    """Return the last checkpoint up to a version that has a base."""
    row = _newest_base.first(connection, tenant_id=tenant_id, run_id=run_id, until=version)
    return bodies.checkpoint_of(row) if row is not None else None


def read_events(
    connection: Link, tenant_id: str, run_id: str, after: int, limit: int
) -> EventPage | None:
    """Return whole commits' events after a number."""
    head = _head.first(connection, tenant_id=tenant_id, run_id=run_id)
    if head is None:
        return None
    run_key, latest, status = head
    until = max(after, 0) + max(limit, 1)
    rows = _whole.run(connection, run_key=run_key, after=after, until=until)
    if not rows:
        # The next commit has more events than the limit, and is read whole.
        rows = _next.run(connection, run_key=run_key, after=after)
    events: list[Event] = [
        event for row in rows for event in bodies.events_of(*row) if event.number > after
    ]
    reached = events[-1].number if events else after
    return EventPage(
        events=tuple(events),
        latest=latest,
        ended=RunStatus(status) in ENDED and reached >= latest,
    )
