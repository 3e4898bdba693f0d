"""The tables: columns for what people and indexes ask for, and JSON bodies for the records themselves.

A body is a record as JSON, with the names of `core/records` and without the fields that have their default.
What never changes (a run's specification, a plan, a task's definition) is a body that is written once, in a
table of its own; what moves is another. So a new field of a record needs no migration. A column repeats a field
of a body only where it is looked up, listed or compared.

A run's number (`run_key`) is its key inside the store. It never comes again: a run that is deleted and created
anew has another one. No order that a caller sees depends on these numbers, but for the order of creation.
Rows are written at the end of their table and found by narrow indexes, so a commit touches few pages; only
the small rows that come and go with their run (timers, requests, sessions) stand in key order.

Bodies are text on SQLite and JSON on Postgres: both keep numbers as they were written. An enum's value is its
name. Units stand last in names. A column that may be NULL says when it is.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB, UUID
from sqlalchemy.types import TypeEngine

from stepwell_drivers.sql.defaults import Transaction

REVISIONS: tuple[str, ...] = ("0008",)
"""The schema's versions, oldest first: the migrations of these names lead here."""

ENDED = "(status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED')"
"""The condition of the indexes of ended runs, in the words that a query has to use, too.

Not IN: SQLite would fill a table of its own with the three words, for each row and each of these indexes.
"""
OPEN = "tenant_id IS NOT NULL"
"""The condition of the index of open executions."""

UNPLANNED = 2**31 - 1
"""The position of a task that stands in no plan: behind all that do."""

metadata = MetaData()

_NUMBER = BigInteger()
_SEQUENCE: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
_JSON: TypeEngine[str] = Text().with_variant(JSON(), "postgresql")
_SHOWN: TypeEngine[str] = Text().with_variant(JSONB(), "postgresql")
# By code point, as SQLite and Python compare: no order rests on a server's language.
_TEXT: TypeEngine[str] = Text().with_variant(Text(collation="C"), "postgresql")
_UUID: TypeEngine[str] = Text().with_variant(UUID(as_uuid=False), "postgresql")


def _seq(name: str = "seq") -> Column[Any]:
    """A number that counts up as rows are written."""
    return Column(name, _SEQUENCE, primary_key=True)


def _run_key() -> Column[Any]:
    """The number of the row's run, `run_rows.run_key`."""
    return Column("run_key", _NUMBER, nullable=False)


def _texts(*names: str) -> list[Column[Any]]:
    return [Column(name, _TEXT, nullable=False, server_default="") for name in names]


def _numbers(*names: str) -> list[Column[Any]]:
    return [Column(name, _NUMBER, nullable=False, server_default="0") for name in names]


def _body(name: str) -> Column[Any]:
    """A record as JSON."""
    return Column(name, _JSON, nullable=False, server_default="{}")


def _texts_or_null(*names: str) -> list[Column[Any]]:
    return [Column(name, _TEXT, nullable=True) for name in names]


def _numbers_or_null(*names: str) -> list[Column[Any]]:
    return [Column(name, _NUMBER, nullable=True) for name in names]


def _bytes(name: str) -> list[Column[Any]]:
    """Bytes of a user with their media type. Bytes NULL: there are none. Type NULL: `application/json`."""
    return [
        Column(f"{name}_media_type", _TEXT, nullable=True),
        Column(name, LargeBinary(), nullable=True),
    ]


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


# Postgres writes a changed row beside the old one: room for that on the same page spares the indexes, and
# a queue's dead rows are to be cleared away before a claim has to walk over many of them.
_CHANGING: dict[str, Any] = {
    "postgresql_with": {
        "fillfactor": 70,
        "autovacuum_vacuum_scale_factor": 0.02,
        "autovacuum_vacuum_threshold": 1_000,
    }
}


# Postgres takes any index for rows of a table that it knows nothing of yet, one that lists a tenant or a run as
# soon as the key: so those that list may be taken only by who says this. See `listed`.
_LISTS_TENANT: dict[str, Any] = {"postgresql_where": text("tenant_id >= ''")}
_LISTS_RUN: dict[str, Any] = {"postgresql_where": text("run_key >= 0")}


def _in_order(name: str, *columns: str, where: str = "") -> tuple[Index, Index]:
    """Index rows in the order of writing, among equals. In SQLite each index ends with the row's number."""
    condition: dict[str, Any] = _where(where) if where else _LISTS_RUN
    return (
        Index(name, *columns, **(condition if where else {})).ddl_if(dialect="sqlite"),
        Index(name, *columns, "seq", **condition).ddl_if(dialect="postgresql"),
    )


def _held(table: str) -> Index:
    """Postgres: what a claim returned is held in its row, for every replica. SQLite's one process knows."""
    where = text("held_until_us > 0")
    held = Index(f"{table}_held", "held_until_us", postgresql_where=where)
    return held.ddl_if(dialect="postgresql")


runs = Table(
    "run_rows",
    metadata,
    _seq("run_key"),
    # Written once, at the birth. `family_id`: '' where the run is no fork.
    *_texts("tenant_id", "run_id", "pipeline_id", "queue", "executor_id"),
    *_texts("parent_run_id", "family_id"),
    # The `id` of the view `runs`: the run's own id where that is a UUID, else one that is drawn. Its tasks'
    # and events' ids begin with its first 20 digits, so these are no other run's.
    Column("uuid", _UUID, nullable=False),
    # Written by each commit. `commit_id` is that of `version`; `ended_us` is 0 until the run has ended.
    *_texts("status", "phase", "blocked_on", "commit_id"),
    *_numbers("version", "last_event", "ended_us"),
    # The `Run` without its `spec`.
    _body("state"),
    UniqueConstraint("tenant_id", "run_id"),
    Index("runs_by_birth", "tenant_id", "run_key", **_LISTS_TENANT),
    Index("runs_by_status", "tenant_id", "status", "run_key", **_LISTS_TENANT),
    Index("runs_by_pipeline", "tenant_id", "pipeline_id", "run_key", **_LISTS_TENANT),
    Index("runs_by_uuid", "uuid"),
    Index("runs_by_uuid_start", text("left(uuid::text, 23)"), unique=True).ddl_if(
        dialect="postgresql"
    ),
    Index("runs_by_uuid_start", text("substr(uuid, 1, 23)"), unique=True).ddl_if(dialect="sqlite"),
    Index(
        *("runs_by_parent", "tenant_id", "parent_run_id", "run_key"),
        **_where("parent_run_id <> ''"),
    ),
    Index("runs_by_family", "tenant_id", "family_id", **_where("family_id <> ''")),
    # For retention: a run that lives is in none of them.
    Index("runs_ended", "status", "ended_us", "tenant_id", "run_id", **_where(ENDED)),
    Index("runs_ended_of_tenant", "tenant_id", "status", "ended_us", "run_id", **_where(ENDED)),
    Index(
        *("runs_ended_of_pipeline", "tenant_id", "pipeline_id"),
        *("status", "ended_us", "run_id"),
        **_where(ENDED),
    ),
    # The other tables refer to a run by its number, so that of a deleted one is given to no other.
    sqlite_autoincrement=True,
    **_CHANGING,
)

run_specs = Table(
    "run_specs",
    metadata,
    # What a run was started with, written once: the `RunSpec` and its input. Each run has one.
    Column("run_key", _SEQUENCE, primary_key=True, autoincrement=False),
    # `priority` as a number besides: one that no database holds is refused before it is in a body.
    *_numbers("priority"),
    _body("spec"),
    # The input for people to read. NULL: it is large, or no JSON that both databases take.
    Column("input_params", _SHOWN, nullable=True),
    *_bytes("input"),
)

plans = Table(
    "plans",
    metadata,
    _run_key(),
    *_numbers("revision", "version", "task_count", "created_us"),
    *_texts("trigger"),
    # The `Plan`, tasks and all: they are read as one.
    _body("plan"),
    PrimaryKeyConstraint("run_key", "revision"),
)

task_specs = Table(
    "task_specs",
    metadata,
    _run_key(),
    *_texts("task_id"),
    # The plan revision that defined the task, and its place there.
    *_numbers("revision"),
    Column("position", _NUMBER, nullable=False, server_default=str(UNPLANNED)),
    # The run's version that wrote this definition; and the last digits of the `id` in the view `tasks`, which
    # a later definition of the same task keeps.
    *_numbers("version", "number"),
    # For people: the `TaskSpec` without its input. The loop reads the plan. '{}': the task stands in no plan.
    _body("spec"),
    PrimaryKeyConstraint("run_key", "task_id"),
    Index(
        *("tasks_in_order", "run_key", "revision", "position", "task_id"),
        **_LISTS_RUN,
    ),
)

tasks = Table(
    "task_rows",
    metadata,
    # The state of a task of `task_specs`. One that is as its plan brought it (PENDING, nothing done) has no row.
    _run_key(),
    *_texts("task_id"),
    *_numbers("revision"),
    *_texts("status"),
    # The run's version that wrote this.
    *_numbers("version"),
    # The `Task`.
    _body("state"),
    PrimaryKeyConstraint("run_key", "task_id"),
    **_CHANGING,
)

executions = Table(
    "executions",
    metadata,
    # One attempt at a step, with its place in the queue or its lease.
    _seq(),
    _run_key(),
    *_texts("execution_id", "task_id", "status"),
    # The run's version that wrote this: by it a claim knows whether the row has changed since.
    *_numbers("version"),
    # The `Execution`.
    _body("body"),
    # While READY, LEASED or UNKNOWN_OUTCOME; NULL once it has ended.
    *_texts_or_null("tenant_id"),
    # While READY, else NULL: the lane in which it waits, and its place there.
    *_texts_or_null("queue", "kind", "role", "type", "pin"),
    *_numbers_or_null("priority", "available_us"),
    # While LEASED or UNKNOWN_OUTCOME, else NULL: the lease. `limit_us` 0: no renewal ends there. A lease is due
    # while LEASED only. (NULL there too, where a commit said LEASED and granted no lease.)
    *_texts_or_null("token", "worker_id", "instance_id"),
    *_numbers_or_null("deadline_us", "limit_us"),
    # What the last heartbeats of the lease brought; NULL: nothing yet.
    *_texts_or_null("session_backend", "session_id"),
    *_bytes("progress"),
    # Postgres: the end of a claim's hold on it. Every other write sets 0.
    *_numbers("held_until_us"),
    UniqueConstraint("run_key", "execution_id"),
    *_in_order("executions_in_order", "run_key"),
    *_in_order("executions_of_task", "run_key", "task_id"),
    Index("executions_open", "run_key", **_where(OPEN)),
    *_in_order(
        *("executions_ready", "tenant_id", "queue"),
        *("kind", "role", "type", "pin", "priority", "available_us"),
        where="status = 'READY'",
    ),
    Index("executions_delayed", "available_us", **_where("status = 'READY'")),
    *_in_order("executions_due", "deadline_us", where="status = 'LEASED'"),
    Index("executions_of_worker", "tenant_id", "worker_id", **_where("worker_id IS NOT NULL")),
    _held("executions"),
    **_CHANGING,
)

outcomes = Table(
    "outcomes",
    metadata,
    # What an execution left behind; written once. Those of a deleted run stay while its family needs them.
    _run_key(),
    *_texts("execution_id"),
    *_bytes("result"),
    # NULL where there is none.
    *_texts_or_null("prompt", "response", "receipt"),
    PrimaryKeyConstraint("run_key", "execution_id"),
)

timers = Table(
    "timers",
    metadata,
    _run_key(),
    *_texts("name"),
    # `version` and `held_until_us` as in `executions`.
    *_numbers("version", "due_us", "held_until_us"),
    PrimaryKeyConstraint("run_key", "name"),
    Index("timers_due", "due_us", "run_key", "name"),
    _held("timers"),
    sqlite_with_rowid=False,
    **_CHANGING,
)

commits = Table(
    "commits",
    metadata,
    _seq(),
    _run_key(),
    *_texts("tenant_id"),
    # Only of a deletion, whose run is in no other table; else NULL. It goes with the tombstone.
    *_texts_or_null("deleted_run_id"),
    # Below zero: not a commit but the run's deletion, at that version.
    *_numbers("version"),
    *_texts("commit_id"),
    *_numbers("committed_us"),
    # The number of its last event; the others of the commit end there.
    *_numbers("last_event"),
    # Its events in their order, as a list: each an `Event`, with short names, without its version and number
    # (the row and the place say them). The view `events` has a row for each.
    Column("events", _JSON, nullable=False, server_default="[]"),
    # The rows that it changed besides those that its events name; NULL: none.
    Column("changed", _JSON, nullable=True),
    # Postgres: the transaction that wrote it. Numbers of rows are given out before their rows can be
    # seen, so the feed goes by these, below the oldest that is still open.
    Column("xid", _NUMBER, nullable=False, server_default=Transaction()),
    UniqueConstraint("run_key", "version"),
    Index("commits_by_event", "run_key", "last_event", **_LISTS_RUN),
    Index("commits_of_tenant", "tenant_id").ddl_if(dialect="sqlite"),
    Index("commits_fed", "xid", "seq").ddl_if(dialect="postgresql"),
    Index("commits_fed_of_tenant", "tenant_id", "xid", "seq", **_LISTS_TENANT).ddl_if(
        dialect="postgresql"
    ),
    # A number of a deleted run's commit never comes again: a cursor may stand there.
    sqlite_autoincrement=True,
)

questions = Table(
    "questions",
    metadata,
    _seq(),
    _run_key(),
    *_texts("question_id", "status"),
    # While OPEN, else NULL.
    *_texts_or_null("tenant_id"),
    # The `Question`.
    _body("body"),
    UniqueConstraint("run_key", "question_id"),
    *_in_order("questions_in_order", "run_key"),
    Index("questions_open", "run_key", **_where("status = 'OPEN'")),
    *_in_order("questions_waiting", "tenant_id", where="status = 'OPEN'"),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    _run_key(),
    *_numbers("version", "cycle"),
    # The `CheckpointState`.
    _body("state"),
    *_numbers("created_us"),
    # NULL: this one has no base.
    Column("base", LargeBinary(), nullable=True),
    PrimaryKeyConstraint("run_key", "version"),
    Index("checkpoints_based", "run_key", "version", **_where("base IS NOT NULL")),
)

requests = Table(
    "requests",
    metadata,
    _run_key(),
    *_numbers("committed_version"),
    # The `RequestRecord`.
    _body("body"),
    PrimaryKeyConstraint("run_key", "committed_version"),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    # For people: the last execution of each conversation of an agent's own.
    _run_key(),
    *_texts("backend", "session_id", "task_id", "execution_id"),
    PrimaryKeyConstraint("run_key", "backend", "session_id"),
    sqlite_with_rowid=False,
)

messages = Table(
    "messages",
    metadata,
    _seq(),
    _run_key(),
    *_texts("task_id", "role"),
    # The `Message`.
    _body("body"),
    *_in_order("messages_in_order", "run_key"),
    *_in_order("messages_of_task", "run_key", "task_id"),
)

logs = Table(
    "logs",
    metadata,
    _seq(),
    _run_key(),
    *_texts("execution_id", "kind"),
    # By the store's clock; `written_us` in the body is by the worker's.
    *_numbers("appended_us"),
    # The `LogEntry`.
    _body("body"),
    *_in_order("logs_in_order", "run_key"),
    *_in_order("logs_of_execution", "run_key", "execution_id"),
    # The newest entries may be trimmed away, and a cursor stands where they were.
    sqlite_autoincrement=True,
)

journal_entries = Table(
    "journal_entries",
    metadata,
    # Entries of journals, each written once. Those of a deleted run stay while its family needs them.
    _seq(),
    _run_key(),
    # Digests of the journal's name, and of the entry's within it: those of other names may be the same.
    *_numbers("step", "name"),
    # `at_most_once` is 1 where the call is.
    *_numbers("generation", "at_most_once", "version", "written_us"),
    *_texts("journal"),
    # NULL: a commit wrote it.
    *_texts_or_null("execution_id"),
    # The end of a sleep; else NULL.
    *_numbers_or_null("until_us"),
    # The bytes of its messages and its failure.
    *_numbers("words"),
    # The `Entry` without its value.
    _body("body"),
    *_bytes("value"),
    Index("journal_by_name", "run_key", "step", "name"),
    # The newest entries may be forgotten, and a cursor stands where they were.
    sqlite_autoincrement=True,
)

lease_sums = Table(
    "lease_sums",
    metadata,
    # The sums of the journal entries that were recorded under a lease: the execution's, if that has this token.
    _run_key(),
    *_texts("execution_id", "token"),
    *_numbers("entries", "bytes", "messages"),
    *_numbers("input_tokens", "output_tokens", "cost_micros"),
    PrimaryKeyConstraint("run_key", "execution_id"),
    sqlite_with_rowid=False,
    **_CHANGING,
)

reservations = Table(
    "reservations",
    metadata,
    # By the run's id, not its number: the run may not be there yet.
    *_texts("tenant_id", "pipeline_id", "key", "run_id", "commit_id"),
    PrimaryKeyConstraint("tenant_id", "pipeline_id", "key"),
    Index("reservations_of_run", "tenant_id", "run_id", "pipeline_id", "key", **_LISTS_TENANT),
    sqlite_with_rowid=False,
    **_CHANGING,
)

workers = Table(
    "workers",
    metadata,
    *_texts("tenant_id", "worker_id", "instance_id"),
    *_numbers("expires_us"),
    # The `Presence`.
    _body("body"),
    PrimaryKeyConstraint("tenant_id", "worker_id", "instance_id"),
    Index("workers_by_expiry", "expires_us"),
    sqlite_with_rowid=False,
)

tombstones = Table(
    "tombstones",
    metadata,
    *_texts("tenant_id", "run_id"),
    # The number that the run had: its outcomes may still be there.
    _run_key(),
    *_numbers("version", "expires_us"),
    # Of a run whose outcomes stay for others of its family: it expires when the last of these is gone.
    *_texts("family_id"),
    PrimaryKeyConstraint("tenant_id", "run_id"),
    Index("tombstones_by_expiry", "expires_us"),
    Index(
        *("tombstones_of_family", "tenant_id", "family_id", "run_key"),
        **_where("family_id <> ''"),
    ),
    sqlite_with_rowid=False,
)

meta = Table(
    "meta",
    metadata,
    *_texts("key", "value"),
    PrimaryKeyConstraint("key"),
    sqlite_with_rowid=False,
)


def listed(column: Column[Any]) -> ColumnElement[bool]:
    """Say that an index which lists the rows of a tenant, or of a run, is wanted: true of every row."""
    return column >= literal_column("0" if column.name == "run_key" else "''")


OF_A_RUN = (
    runs,
    run_specs,
    plans,
    task_specs,
    tasks,
    executions,
    timers,
    commits,
    questions,
    checkpoints,
    requests,
    sessions,
    messages,
    logs,
    lease_sums,
)
"""The tables that a deleted run leaves at once."""
OF_A_FAMILY = (outcomes, journal_entries)
"""The tables that it leaves with the last of its family."""
