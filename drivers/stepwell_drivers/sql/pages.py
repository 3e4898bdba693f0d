"""Lists by page.

Each page starts at the cursor, by index, and costs what it returns. A cursor is the place of the
previous page's last row, as JSON: opaque to the caller, checked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    BindParameter,
    Table,
    bindparam,
    func,
    literal_column,
    select,
    text,
    tuple_,
)
from sqlalchemy.engine import Dialect

from stepwell.core.port import (
    CheckpointQuery,
    ExecutionQuery,
    FeedEntry,
    FeedQuery,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    Page,
    Presence,
    PresenceQuery,
    RunQuery,
    TaskQuery,
    WorkerLease,
)
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import InvalidArgument, PageTokenInvalid
from stepwell.core.records.model import Execution, LogEntry, Message, Run, Task
from stepwell_drivers.sql import bodies, schema
from stepwell_drivers.sql.columns import Values, payload_of
from stepwell_drivers.sql.dialect import Clock, Link, has_label, is_postgres, label_parameters
from stepwell_drivers.sql.reads import (
    CHECKPOINT,
    TASK_ORDER,
    number_of_run,
    of_named_run,
    spec_of_run,
    task_of,
    tasks_with_specs,
)
from stepwell_drivers.sql.statements import Query

T = TypeVar("T")


def cursor_of(place: object) -> str:
    """Return the cursor of a place."""
    return msgspec.json.encode(place).decode()


def place_of(cursor: str, kind: type[T], start: T) -> T:
    """Return the place that a cursor stands for; "" is the start.

    Raises:
        PageTokenInvalid: the cursor is not from one of our pages.
    """
    if not cursor:
        return start
    try:
        return msgspec.json.decode(cursor, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise PageTokenInvalid("the page cursor is none of this store's") from None


# --- the rows of one run -------------------------------------------------------------------------

_after = tuple_(bindparam("revision"), bindparam("position"), bindparam("task_id"))
_tasks = Query(
    tasks_with_specs()
    .where(
        schema.listed(schema.task_specs.c.run_key),
        schema.task_specs.c.run_key == number_of_run(),
        tuple_(*TASK_ORDER) > _after,
    )
    .order_by(*TASK_ORDER)
    .limit(bindparam("many"))
)


def _after_seq(table: Table, only: str = "") -> Query:
    """Select bodies of one run in the order in which they were written; `only` is a column that must match."""
    statement = of_named_run(table, ("seq", "body")).where(
        schema.listed(table.c.run_key), table.c.seq > bindparam("after")
    )
    if only:
        statement = statement.where(table.c[only] == bindparam("only"))
    return Query(statement.order_by(table.c.seq).limit(bindparam("many")))


_executions = _after_seq(schema.executions)
_executions_of = _after_seq(schema.executions, "task_id")
_messages = _after_seq(schema.messages)
_messages_of = _after_seq(schema.messages, "task_id")
_logs = _after_seq(schema.logs)
_logs_of = _after_seq(schema.logs, "execution_id")


_checkpoints = Query(
    of_named_run(schema.checkpoints, CHECKPOINT)
    .where(schema.checkpoints.c.version > bindparam("after"))
    .order_by(schema.checkpoints.c.version)
    .limit(bindparam("many"))
)


class About(NamedTuple):
    """Facts about the store that some pages need."""

    store_id: str
    clock: Clock


def tasks(connection: Link, query: TaskQuery, _about: About) -> Page[Task]:
    """Return tasks, ordered by revision and then by place in the plan."""
    revision, position, task_id = place_of(query.cursor, tuple[int, int, str], (-1, -1, ""))
    rows = _tasks.run(
        connection,
        tenant_id=query.tenant_id,
        run_id=query.run_id,
        revision=revision,
        position=position,
        task_id=task_id,
        many=max(query.limit, 1) + 1,
    )
    page, more = cut(rows, query.limit)
    last = page[-1] if more else None
    return Page(
        items=tuple(task_of(row) for row in page),
        cursor="" if last is None else cursor_of((last[1], last[2], last[0])),
    )


def _seq_page(
    connection: Link,
    queries: tuple[Query, Query],
    query: ExecutionQuery | MessageQuery | CheckpointQuery | LogQuery,
    only: str,
) -> tuple[Sequence[Values], bool]:
    key = {
        "tenant_id": query.tenant_id,
        "run_id": query.run_id,
        "after": place_of(query.cursor, int, 0),
        "many": max(query.limit, 1) + 1,
    }
    if only:
        rows = queries[1].run(connection, **key, only=only)
    else:
        rows = queries[0].run(connection, **key)
    return cut(rows, query.limit)


def cut(rows: list[Values], limit: int) -> tuple[Sequence[Values], bool]:
    """Drop the extra row that only shows that there are more."""
    limit = max(limit, 1)
    return rows[:limit], len(rows) > limit


def executions(connection: Link, query: ExecutionQuery, _about: About) -> Page[Execution]:
    """Return executions in the order in which they were created."""
    rows, more = _seq_page(connection, (_executions, _executions_of), query, query.task_id)
    items = tuple(bodies.execution_of(row[1]) for row in rows)
    return Page(items=items, cursor=cursor_of(rows[-1][0]) if more else "")


def messages(connection: Link, query: MessageQuery, _about: About) -> Page[Message]:
    """Return the conversation in the order of its commits."""
    rows, more = _seq_page(connection, (_messages, _messages_of), query, query.task_id)
    items = tuple(bodies.message_of(row[1]) for row in rows)
    return Page(items=items, cursor=cursor_of(rows[-1][0]) if more else "")


def checkpoints(connection: Link, query: CheckpointQuery, _about: About) -> Page[Checkpoint]:
    """Return checkpoints in the order of their versions."""
    rows, more = _seq_page(connection, (_checkpoints, _checkpoints), query, "")
    items = tuple(bodies.checkpoint_of(row) for row in rows)
    return Page(items=items, cursor=cursor_of(items[-1].version) if more else "")


def logs(connection: Link, query: LogQuery, _about: About) -> Page[LogEntry]:
    """Return log entries; the last page has a cursor, too."""
    rows, _ = _seq_page(connection, (_logs, _logs_of), query, query.execution_id)
    place = rows[-1][0] if rows else place_of(query.cursor, int, 0)
    return Page(items=tuple(bodies.log_of(row[1]) for row in rows), cursor=cursor_of(place))


# --- over all runs -------------------------------------------------------------------------------

_workers = Query(
    select(schema.workers.c.body)
    .where(
        schema.workers.c.tenant_id == bindparam("tenant_id"),
        schema.workers.c.expires_us > bindparam("now_us"),
    )
    .order_by(schema.workers.c.worker_id, schema.workers.c.instance_id)
)


def presences(connection: Link, query: PresenceQuery, about: About) -> Page[Presence]:
    """Return the workers that are connected."""
    now_us = about.clock(connection)
    rows = _workers.run(connection, tenant_id=query.tenant_id, now_us=now_us)
    return Page(items=tuple(bodies.worker_of(row[0]) for row in rows))


_steps = schema.executions.c
_LEASE = (_steps.execution_id, _steps.token, _steps.instance_id, _steps.worker_id)
_leases = select(
    select(schema.runs.c.run_id).where(schema.runs.c.run_key == _steps.run_key).scalar_subquery(),
    *_LEASE,
).where(_steps.tenant_id == bindparam("tenant_id"))
_leases_of_tenant = Query(_leases.where(_steps.worker_id.is_not(None)))
_leases_of_worker = Query(_leases.where(_steps.worker_id == bindparam("worker_id")))
_leases_of_run = Query(
    select(*_LEASE, _steps.progress_media_type, _steps.progress).where(
        _steps.run_key == number_of_run(), text(schema.OPEN), _steps.worker_id.is_not(None)
    )
)


def leases(connection: Link, query: LeaseQuery, _about: About) -> Page[WorkerLease]:
    """Return the leases that workers hold."""
    if query.run_id:
        return Page(items=tuple(_of_run(connection, query)))
    if query.worker_id:
        rows = _leases_of_worker.run(
            connection, tenant_id=query.tenant_id, worker_id=query.worker_id
        )
    else:
        rows = _leases_of_tenant.run(connection, tenant_id=query.tenant_id)
    return Page(
        items=tuple(
            WorkerLease(
                run_id=run_id,
                execution_id=name,
                token=token,
                instance_id=instance_id,
                worker_id=worker_id,
            )
            for run_id, name, token, instance_id, worker_id in sorted(rows)
        )
    )


def _of_run(connection: Link, query: LeaseQuery) -> Iterator[WorkerLease]:
    rows = _leases_of_run.run(connection, tenant_id=query.tenant_id, run_id=query.run_id)
    for name, token, instance_id, worker_id, *progress in sorted(rows, key=lambda row: row[0]):
        if query.worker_id in ("", worker_id):
            yield WorkerLease(
                run_id=query.run_id,
                execution_id=name,
                token=token,
                instance_id=instance_id,
                worker_id=worker_id,
                progress=payload_of(*progress),
            )


def runs(connection: Link, query: RunQuery, _about: About) -> Page[Run]:
    """Return runs, newest first; the lists of several statuses are merged."""
    before, limit = place_of(query.cursor, int, 2**63 - 1), max(query.limit, 1)
    rows: list[Values] = []
    for status in dict.fromkeys(query.statuses) or ("",):
        shape, parameters = _asked(query, status)
        matching = _matching(connection.dialect, shape)
        rows += matching.run(connection, **parameters, before=before, many=limit + 1)
    rows.sort(key=lambda row: -row[0])
    page, more = cut(rows, limit)
    items = tuple(bodies.run_of(*row[1:]) for row in page)
    return Page(items=items, cursor=cursor_of(page[-1][0]) if more else "")


class _Shape(NamedTuple):
    """The filters that a list of runs has."""

    exact: tuple[str, ...]
    blocked: int
    labels: int
    prefix: bool = False


def _asked(query: RunQuery, status: str) -> tuple[_Shape, dict[str, Any]]:
    """Return a query's filters and their values."""
    exact = {
        "status": status,
        "pipeline_id": query.pipeline_id,
        "queue": query.queue,
        "executor_id": query.executor_id,
        "parent_run_id": query.parent_run_id,
    }
    parameters: dict[str, Any] = {name: value for name, value in exact.items() if value}
    given = tuple(parameters)
    blocked = dict.fromkeys(kind.value for kind in query.blocked_on)
    parameters |= {f"blocked{at}": value for at, value in enumerate(blocked)}
    for at, (key, value) in enumerate(query.labels.items()):
        parameters |= label_parameters(at, key, value)
    prefix = query.run_id_prefix
    if prefix:
        parameters |= {"prefix": prefix, "beyond": prefix[:-1] + chr(ord(prefix[-1]) + 1)}
    return _Shape(given, len(blocked), len(query.labels), bool(prefix)), {
        "tenant_id": query.tenant_id
    } | parameters


@cache
def _matching(dialect: Dialect, shape: _Shape) -> Query:
    of_runs = schema.runs.c
    # As an expression it can't use an index on the column; few ids have the same prefix.
    place = of_runs.run_key + literal_column("0") if shape.prefix else of_runs.run_key
    statement = select(of_runs.run_key, spec_of_run(), of_runs.state).where(
        of_runs.tenant_id == bindparam("tenant_id"), place < bindparam("before")
    )
    forks = "parent_run_id" in shape.exact and not shape.prefix
    if shape.prefix:
        statement = statement.where(
            of_runs.run_id >= bindparam("prefix"), of_runs.run_id < bindparam("beyond")
        )
    else:
        statement = statement.where(schema.listed(of_runs.tenant_id))
    if forks:
        statement = statement.where(of_runs.parent_run_id != literal_column("''"))
    for name in shape.exact:
        # A run also has few forks, whatever else the forks have in common.
        by_index = name == "parent_run_id" if forks else not shape.prefix
        given = of_runs[name] if by_index else of_runs[name].concat(literal_column("''"))
        statement = statement.where(given == bindparam(name))
    if shape.blocked:
        blocked: list[BindParameter[Any]] = [
            bindparam(f"blocked{at}") for at in range(shape.blocked)
        ]
        statement = statement.where(of_runs.blocked_on.in_(blocked))
    for at in range(shape.labels):
        statement = statement.where(has_label(dialect, at))
    return Query(statement.order_by(place.desc()).limit(bindparam("many")))


# --- the feed ------------------------------------------------------------------------------------

_commits = schema.commits.c
_living = select(schema.runs.c.run_id).where(schema.runs.c.run_key == _commits.run_key)
_entries = select(
    *(_commits.xid, _commits.seq, _commits.tenant_id),
    *(func.coalesce(_commits.deleted_run_id, _living.scalar_subquery()), _commits.version),
).limit(bindparam("many"))
_of_tenant = _commits.tenant_id == bindparam("tenant_id")
# SQLite has one writer, so the rows' numbers are in the order of their commits.
_numbered = _entries.where(_commits.seq > bindparam("seq")).order_by(_commits.seq)
_feed = Query(_numbered)
_feed_of_tenant = Query(_numbered.where(_of_tenant))
_feed_end = Query(select(literal_column("0", BigInteger()), func.max(_commits.seq)))
# Postgres: by transaction number, below the oldest open transaction: nothing new can appear there.
_horizon = literal_column("pg_snapshot_xmin(pg_current_snapshot())::text::bigint", BigInteger())
_settled = (
    _entries.where(
        tuple_(_commits.xid, _commits.seq) > tuple_(bindparam("xid"), bindparam("seq")),
        _commits.xid < _horizon,
    )
).order_by(_commits.xid, _commits.seq)
_settled_feed = Query(_settled)
_settled_feed_of_tenant = Query(_settled.where(_of_tenant, schema.listed(_commits.tenant_id)))
# The last existing row instead of the horizon: a crashed server forgets the numbers of transactions
# whose writes nobody waited for, and its successor assigns them again.
_settled_end = Query(
    select(_commits.xid, _commits.seq)
    .where(_commits.xid < _horizon)
    .order_by(_commits.xid.desc(), _commits.seq.desc())
    .limit(1)
)


def feed(connection: Link, query: FeedQuery, about: About) -> Page[FeedEntry]:
    """Return commits and deletions after a cursor, in the order in which they were committed."""
    settled, store_id = is_postgres(connection.dialect), about.store_id
    if query.cursor == "now":
        last = (_settled_end if settled else _feed_end).run(connection)
        xid, seq = last[0] if last else (0, 0)
        return Page(cursor=f"{store_id}.{xid}.{seq or 0}")
    xid, seq = _feed_place(store_id, query.cursor)
    place: dict[str, Any] = {"xid": xid, "seq": seq} if settled else {"seq": seq}
    many = max(query.limit, 1)
    if query.tenant_id:
        of_tenant = _settled_feed_of_tenant if settled else _feed_of_tenant
        rows = of_tenant.run(connection, **place, tenant_id=query.tenant_id, many=many)
    else:
        rows = (_settled_feed if settled else _feed).run(connection, **place, many=many)
    xid, seq = rows[-1][:2] if rows else (xid, seq)
    return Page(
        items=tuple(
            FeedEntry(tenant_id=tenant, run_id=run_id, version=abs(version), deleted=version < 0)
            for _, _, tenant, run_id, version in rows
        ),
        cursor=f"{store_id}.{xid}.{seq}",
    )


def _feed_place(store_id: str, cursor: str) -> tuple[int, int]:
    if not cursor:
        return 0, 0
    owner, *place = cursor.rsplit(".", 2)
    if owner == store_id and len(place) == 2 and all(map(_is_number, place)):
        return int(place[0]), int(place[1])
    raise InvalidArgument("the feed cursor is none of this store's")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) < 2**63
