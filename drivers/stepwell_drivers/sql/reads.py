"""Reads of one run: its row, what the loop needs of it, its bytes, its plans, its events.

Each function is one snapshot: the caller has begun a transaction. A delta is read by the keys that the
commits since then named, so it costs what changed, however long the run's history is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    bindparam,
    func,
    literal_column,
    select,
)

from stepwell.core.port import (
    INPUT_KEY,
    EventPage,
    Loaded,
    OpenExecution,
    StoredPayload,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import Plan, RequestRecord, Run
from stepwell_drivers.sql import run_rows, schema, step_rows
from stepwell_drivers.sql.columns import Values, payload_of, session_of
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Pick, Query
from stepwell_drivers.sql.stored import Clock

DELTA_COMMITS_MAX = 256
"""Further behind than this, a reader reads everything."""

_RUN = ("tenant_id", "run_id")
_HOLDER = (
    *("token", "worker_id", "instance_id", "backend", "session_id"),
    *("progress_media_type", "progress"),
)
# Written out, not parameters: else the partial index would not be used.
_OPEN_ONES: list[ColumnElement[str]] = [
    literal_column(status) for status in ("'READY'", "'LEASED'", "'UNKNOWN_OUTCOME'")
]
_NO_HOLDER = ("", "", "", "", "", None, None)


def of_run(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Match one run's rows."""
    if "run_key" in table.c:
        number = select(schema.runs.c.seq).where(*of_run(schema.runs)).scalar_subquery()
        return (table.c.run_key == number,)
    return (
        table.c.tenant_id == bindparam("tenant_id"),
        table.c.run_id == bindparam("run_id"),
    )


def columns_of(table: Table, names: Iterable[str]) -> Select[Any]:
    """Select these columns of one run's rows."""
    return select(*[table.c[name] for name in names]).where(*of_run(table))


_run = Query(columns_of(schema.runs, run_rows.RUN_READ))
_plans = Query(columns_of(schema.plans, run_rows.PLAN).order_by(schema.plans.c.revision))
_plan = Query(
    columns_of(schema.plans, run_rows.PLAN).where(schema.plans.c.revision == bindparam("revision"))
)
_ORDERED = (schema.tasks.c.revision, schema.tasks.c.position, schema.tasks.c.task_id)
_tasks = Query(
    columns_of(schema.tasks, run_rows.TASK_READ)
    .where(schema.listed(schema.tasks))
    .order_by(*_ORDERED)
)
_open_executions = Query(
    columns_of(schema.executions, ("seq", *step_rows.EXECUTION_READ)).where(
        schema.executions.c.status.in_(_OPEN_ONES)
    )
)
_leases = Query(columns_of(schema.leases, ("execution_id", *_HOLDER)))
_open_inputs = Query(
    columns_of(schema.inputs, ("seq", *step_rows.INPUT_READ)).where(
        schema.inputs.c.status == literal_column("'OPEN'")
    )
)
_committed = schema.requests.c.committed_version
_requests = Query(
    columns_of(schema.requests, ("request_id", "fingerprint", "version"))
    .where(_committed > bindparam("since"))
    .order_by(_committed.desc())
    .limit(REQUESTS_KEPT_MAX)
)
_named = schema.checkpoints.c.version
_newest_checkpoint = Query(
    columns_of(schema.checkpoints, step_rows.CHECKPOINT_READ).order_by(_named.desc()).limit(1)
)
_newest_base = Query(
    columns_of(schema.checkpoints, (*step_rows.CHECKPOINT_READ, "base"))
    .where(_named <= bindparam("until"), schema.checkpoints.c.base.is_not(None))
    .order_by(_named.desc())
    .limit(1)
)
_changes = Query(
    columns_of(schema.commits, ("changed",))
    .where(schema.commits.c.version > bindparam("since"))
    .order_by(schema.commits.c.version)
    .limit(DELTA_COMMITS_MAX + 1)
)
_ids = Pick(schema.commits, (*_RUN, "version"), ("version", "commit_id"))
_pick_plans = Pick(schema.plans, (*_RUN, "revision"), run_rows.PLAN)
_pick_tasks = Pick(schema.tasks, (*_RUN, "task_id"), ("position", *run_rows.TASK_READ))
_pick_executions = Pick(
    schema.executions, (*_RUN, "task_id", "execution_id"), ("seq", *step_rows.EXECUTION_READ)
)
_pick_leases = Pick(schema.leases, (*_RUN, "execution_id"), ("execution_id", *_HOLDER))
_pick_inputs = Pick(schema.inputs, (*_RUN, "input_id"), ("seq", *step_rows.INPUT_READ))
_pick_payloads = Pick(schema.payloads, (*_RUN, "key"), ("key", "data_media_type", "data"))
_pick_results = Pick(
    schema.outcomes, (*_RUN, "execution_id"), ("execution_id", "result_media_type", "result")
)
_pick_outcomes = Pick(schema.outcomes, (*_RUN, "execution_id"), step_rows.OUTCOME_READ)
_events = Query(
    columns_of(schema.events, step_rows.EVENT_READ)
    .where(schema.events.c.number > bindparam("after"))
    .order_by(schema.events.c.number)
    .limit(bindparam("many"))
)
_events_of_commit = Query(
    columns_of(schema.events, step_rows.EVENT_READ)
    .where(
        schema.events.c.number > bindparam("after"),
        schema.events.c.number <= bindparam("until"),
        schema.events.c.version == bindparam("version"),
    )
    .order_by(schema.events.c.number)
)
_next_commit = Query(
    select(func.min(schema.events.c.number)).where(
        *of_run(schema.events),
        schema.events.c.number > bindparam("after"),
        schema.events.c.version > bindparam("version"),
    )
)
_oldest = Query(select(func.min(schema.events.c.number)).where(*of_run(schema.events)))


class Changed(Struct, omit_defaults=True):
    """The keys of the rows that a commit changed, as its row names them."""

    plan: int = 0
    tasks: list[str] = []
    executions: list[tuple[str, str]] = []
    """Task and execution."""
    inputs: list[str] = []
    request: bool = False


_changed = msgspec.json.Decoder(Changed).decode


def get_run(connection: Link, tenant_id: str, run_id: str) -> Run | None:
    """Return the run, or None."""
    row = _run.first(connection, tenant_id=tenant_id, run_id=run_id)
    return run_rows.run_of(row) if row is not None else None


def load(connection: Link, tenant_id: str, run_id: str, since: int, clock: Clock) -> Loaded | None:
    """Return all that the loop needs of a run, or what changed after `since`."""
    run = get_run(connection, tenant_id, run_id)
    if run is None:
        return None
    key = {"tenant_id": tenant_id, "run_id": run_id}
    delta = _delta(connection, key, since) if 0 < since <= run.version else None
    if delta is None:
        since = 0
        plans = _plans.run(connection, **key)
        tasks = _tasks.run(connection, **key)
        executions = _by_seq(_open_executions.run(connection, **key))
        inputs = _by_seq(_open_inputs.run(connection, **key))
        holders = _leases.run(connection, **key)
    else:
        names = (tenant_id, run_id)
        plans = _pick_plans.run(connection, [(*names, each) for each in sorted(delta.plans)])
        tasks = _in_order(connection, names, delta.tasks)
        wanted = [(*names, *pair) for pair in delta.executions]
        executions = _by_seq(_pick_executions.run(connection, wanted))
        wanted = [(*names, name) for _, name in delta.executions]
        holders = _pick_leases.run(connection, wanted)
        wanted = [(*names, name) for name in delta.inputs]
        inputs = _by_seq(_pick_inputs.run(connection, wanted))
    made = _ids.run(connection, [(tenant_id, run_id, each) for each in {run.version, since} - {0}])
    id_of = {row[0]: row[1] for row in made}
    holder_of = {row[0]: row[1:] for row in holders}
    asked = delta is None or delta.has_requests
    requests = _requests.run(connection, **key, since=since) if asked else []
    named = _newest_checkpoint.first(connection, **key)
    return Loaded(
        run=run,
        plans=tuple(sorted((run_rows.plan_of(row) for row in plans), key=lambda p: p.revision)),
        tasks=tuple(run_rows.task_of(row) for row in tasks),
        executions=tuple(_as_open(row, holder_of.get(row[1], _NO_HOLDER)) for row in executions),
        inputs=tuple(step_rows.input_of(row[1:]) for row in inputs),
        requests=tuple(
            RequestRecord(request_id=name, fingerprint=fingerprint, version=version)
            for name, fingerprint, version in reversed(requests)
        ),
        checkpoint=step_rows.checkpoint_of(named) if named is not None else None,
        complete=delta is None,
        commit_id=id_of[run.version],
        since_id=id_of.get(since, ""),
        now_us=clock(connection),
    )


class _Delta(Struct):
    """The keys of the rows that changed."""

    plans: set[int]
    tasks: dict[str, None]
    executions: dict[tuple[str, str], None]
    inputs: dict[str, None]
    has_requests: bool = False


def _delta(connection: Link, key: dict[str, str], since: int) -> _Delta | None:
    """Return the keys that the commits since then named; None: too many."""
    rows = _changes.run(connection, **key, since=since)
    if len(rows) > DELTA_COMMITS_MAX:
        return None
    delta = _Delta(set(), {}, {}, {})
    for (text,) in rows:
        if text is None:
            return None
        changed = _changed(text)
        if changed.plan:
            delta.plans.add(changed.plan)
        delta.tasks.update(dict.fromkeys(changed.tasks))
        delta.executions.update(dict.fromkeys(changed.executions))
        delta.inputs.update(dict.fromkeys(changed.inputs))
        delta.has_requests = delta.has_requests or changed.request
    return delta


def _in_order(connection: Link, run: tuple[str, str], names: Iterable[str]) -> list[Sequence[Any]]:
    rows = _pick_tasks.run(connection, [(*run, name) for name in names])
    # Position, task id, revision: the order is that of `list_tasks`.
    rows.sort(key=lambda row: (row[2], row[0], row[1]))
    return [row[1:] for row in rows]


def _by_seq(rows: list[Values]) -> list[Values]:
    return sorted(rows, key=lambda row: row[0])


def _as_open(row: Values, holder: Sequence[Any]) -> OpenExecution:
    token, worker_id, instance_id, backend, session_id, media_type, data = holder
    return OpenExecution(
        execution=step_rows.execution_of(row[1:]),
        token=token,
        worker_id=worker_id,
        instance_id=instance_id,
        progress=payload_of(media_type, data),
        session=session_of(backend, session_id),
    )


def read_payloads(
    connection: Link, tenant_id: str, run_id: str, keys: Sequence[str], *, texts: bool
) -> list[StoredPayload]:
    """Return what is stored under these keys, in their order."""
    wanted = [(tenant_id, run_id, key) for key in dict.fromkeys(keys)]
    results = _pick_outcomes if texts else _pick_results
    rows = results.run(connection, [key for key in wanted if key[2] != INPUT_KEY])
    rows += _pick_payloads.run(connection, [key for key in wanted if key[2] == INPUT_KEY])
    stored = {row[0]: step_rows.stored_of(row) for row in rows}
    there = [stored[key] for key in keys if key in stored]
    return there if texts else [one for one in there if one.payload is not None]


def read_plan(connection: Link, tenant_id: str, run_id: str, revision: int) -> Plan | None:
    """Return one plan revision."""
    row = _plan.first(connection, tenant_id=tenant_id, run_id=run_id, revision=revision)
    return run_rows.plan_of(row) if row is not None else None


def read_base(connection: Link, tenant_id: str, run_id: str, version: int) -> Checkpoint | None:
    """Return the last checkpoint up to a version that has a base."""
    row = _newest_base.first(connection, tenant_id=tenant_id, run_id=run_id, until=version)
    return step_rows.checkpoint_of(row) if row is not None else None


def read_events(
    connection: Link, tenant_id: str, run_id: str, after: int, limit: int
) -> EventPage | None:
    """Return whole commits' events after a number."""
    run = get_run(connection, tenant_id, run_id)
    if run is None:
        return None
    key = {"tenant_id": tenant_id, "run_id": run_id}
    limit = max(limit, 1)
    rows = _events.run(connection, **key, after=after, many=limit + 1)
    if len(rows) > limit:
        rows = _whole_commits(connection, key, rows)
    oldest = _oldest.run(connection, **key)[0][0]
    events = tuple(step_rows.event_of(row) for row in rows)
    reached = events[-1].number if events else after
    return EventPage(
        events=events,
        oldest=1 if oldest is None else oldest,
        latest=run.last_event,
        ended=run.ended and reached >= run.last_event,
    )


def _whole_commits(connection: Link, key: dict[str, str], rows: list[Values]) -> list[Values]:
    """Leave the last commit away, if it may be cut; a commit that stands alone is read whole."""
    first, last = rows[0][1], rows[-1][1]
    whole = [row for row in rows if row[1] != last]
    if whole:
        return whole
    after = rows[0][0] - 1
    following = _next_commit.run(connection, **key, after=after, version=first)[0][0]
    until = 2**63 - 1 if following is None else following - 1
    return _events_of_commit.run(connection, **key, after=after, until=until, version=first)
