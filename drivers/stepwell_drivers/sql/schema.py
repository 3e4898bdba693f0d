"""The tables: columns for lookups and indexes, and JSON bodies for the records.

A body is a record as JSON, with the names of `core/records` and without fields that have their
default. Unchanging parts (a run's specification, a plan, a task's definition) are bodies in
separate tables, written once. A new field of a record therefore needs no migration. A column
repeats a field of a body only if it is looked up, listed or compared.

A run's number (`run_key`) is its key inside the store. Numbers are never reused: a run that is
deleted and created again gets a new one. Of the orders that a caller sees, only that of creation
depends on them. Rows are written at the end of their table and found by narrow indexes, so a commit
touches few pages; only the small rows that come and go with their run (timers, requests, sessions)
stand in key order.

Bodies are text on SQLite and JSON on Postgres: both keep numbers as they were written. An enum's
value is its name. Names end with their units. A comment says when a column is NULL.
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

REVISIONS: tuple[str, ...] = ("0008", "0009", "0010")
"""The schema's versions, oldest first; migrations of these names lead to each."""

ENDED = "(status = 'SUCCEEDED' OR status = 'FAILED' OR status = 'CANCELLED')"
"""The condition of the indexes of ended runs, which queries must repeat literally.

It avoids IN, for which SQLite would build a temporary table of the three words for each row and
index.
"""
OPEN = "tenant_id IS NOT NULL"
"""The condition of the index of open executions."""

UNPLANNED = 2**31 - 1
"""The position of a task that is in no plan: after all others."""

metadata = MetaData()

_NUMBER = BigInteger()
_SEQUENCE: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
_JSON: TypeEngine[str] = Text().with_variant(JSON(), "postgresql")
_SHOWN: TypeEngine[str] = Text().with_variant(JSONB(), "postgresql")
# By code point, as SQLite and Python compare, so that no order depends on a server's language.
_TEXT: TypeEngine[str] = Text().with_variant(Text(collation="C"), "postgresql")
_UUID: TypeEngine[str] = Text().with_variant(UUID(as_uuid=False), "postgresql")


def _seq(name: str = "seq") -> Column[Any]:
    """A number that rises as rows are written."""
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
    """A user's bytes with their media type. Bytes NULL: there are none. Type NULL: `application/json`."""
    return [
        Column(f"{name}_media_type", _TEXT, nullable=True),
        Column(name, LargeBinary(), nullable=True),
    ]


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


# Postgres writes a changed row beside the old one: free space on the same page spares updates of
# the indexes, and dead rows of a queue must be vacuumed before a claim has to walk over many of
# them.
_CHANGING: dict[str, Any] = {
    "postgresql_with": {
        "fillfactor": 70,
        "autovacuum_vacuum_scale_factor": 0.02,
        "autovacuum_vacuum_threshold": 1_000,
    }
}


# While Postgres has no statistics of a table, it may use an index that lists a tenant or a run as
# readily as the key. Therefore listing indexes need this condition, which a query states by
# `listed`.
_LISTS_TENANT: dict[str, Any] = {"postgresql_where": text("tenant_id >= ''")}
_LISTS_RUN: dict[str, Any] = {"postgresql_where": text("run_key >= 0")}


def _in_order(name: str, *columns: str, where: str = "") -> tuple[Index, Index]:
    """Index rows with equal keys in the order of writing. SQLite's indexes end with the row's number anyway."""
    condition: dict[str, Any] = _where(where) if where else _LISTS_RUN
    return (
        Index(name, *columns, **(condition if where else {})).ddl_if(dialect="sqlite"),
        Index(name, *columns, "seq", **condition).ddl_if(dialect="postgresql"),
    )


def _held(table: str) -> Index:
    """Postgres: a claim's hold is stored in its row, for every replica. SQLite's single process
    keeps holds in memory.
    """
    where = text("held_until_us > 0")
    held = Index(f"{table}_held", "held_until_us", postgresql_where=where)
    return held.ddl_if(dialect="postgresql")


runs = Table(
    "run_rows",
    metadata,
    _seq("run_key"),
    # EntryAck once, at creation. `parent_run_id` is '' if the run is no fork.
    *_texts("tenant_id", "run_id", "pipeline_id", "queue", "executor_id", "parent_run_id"),
    # The `id` in the view `runs`: the run's own id if that is a UUID, otherwise a derived one. The
    # ids of its tasks and events begin with its first 20 digits, which no other run has.
    Column("uuid", _UUID, nullable=False),
    # EntryAck by each commit. `commit_id` is that of `version`; `ended_us` is 0 until the run has ended.
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
    # For retention; holds ended runs only.
    Index("runs_ended", "status", "ended_us", "tenant_id", "run_id", **_where(ENDED)),
    Index("runs_ended_of_tenant", "tenant_id", "status", "ended_us", "run_id", **_where(ENDED)),
    Index(
        *("runs_ended_of_pipeline", "tenant_id", "pipeline_id"),
        *("status", "ended_us", "run_id"),
        **_where(ENDED),
    ),
    # Other tables refer to runs by number, so a deleted run's number is never reused.
    sqlite_autoincrement=True,
    **_CHANGING,
)

run_specs = Table(
    "run_specs",
    metadata,
    # The input and the `RunSpec` of a run, written once. Each run has one row.
    Column("run_key", _SEQUENCE, primary_key=True, autoincrement=False),
    # `priority` also as a number, so that a value which no database holds is refused.
    *_numbers("priority"),
    _body("spec"),
    # The input for people to read. NULL: it is large, or not JSON that both databases accept.
    Column("input_params", _SHOWN, nullable=True),
    *_bytes("input"),
)

plans = Table(
    "plans",
    metadata,
    _run_key(),
    *_numbers("revision", "version", "task_count", "created_us"),
    *_texts("trigger"),
    # The `Plan` with all its tasks, which are read together.
    _body("plan"),
    PrimaryKeyConstraint("run_key", "revision"),
)

task_specs = Table(
    "task_specs",
    metadata,
    _run_key(),
    *_texts("task_id"),
    # The revision that defined the task, and the task's position in that plan.
    *_numbers("revision"),
    Column("position", _NUMBER, nullable=False, server_default=str(UNPLANNED)),
    # The run's version that wrote this definition; and the last digits of the `id` in the view
    # `tasks`, which a later definition of the same task keeps.
    *_numbers("version", "number"),
    # For people: the `TaskSpec` without its input; the loop reads the plan. '{}': the task is in no
    # plan.
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
    # The state of a task of `task_specs`. A task that is unchanged since its plan (PENDING) has no
    # row.
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
    # The run's version that wrote this, by which a claim detects a changed row.
    *_numbers("version"),
    # The `Execution`.
    _body("body"),
    # While READY, LEASED or UNKNOWN_OUTCOME; NULL once it has ended.
    *_texts_or_null("tenant_id"),
    # While READY, else NULL: the lane in which it waits, and its place in the lane.
    *_texts_or_null("queue", "kind", "role", "type", "pin"),
    *_numbers_or_null("priority", "available_us"),
    # While LEASED or UNKNOWN_OUTCOME, else NULL: the lease. `limit_us` 0: renewals have no limit. A
    # lease expires only while LEASED. (Also NULL if a commit set LEASED without granting a lease.)
    *_texts_or_null("token", "worker_id", "instance_id"),
    *_numbers_or_null("deadline_us", "limit_us"),
    # Data of the lease's last heartbeats; NULL: none yet.
    *_texts_or_null("session_backend", "session_id"),
    *_bytes("progress"),
    # Postgres: the end of a claim's hold. Every other write sets 0.
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
    # The results of an execution, written once.
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
    # The run of a deletion, which is in no other table; else NULL. Removed with the tombstone.
    *_texts_or_null("deleted_run_id"),
    # Below zero: the run's deletion, at that version, instead of a commit.
    *_numbers("version"),
    *_texts("commit_id"),
    *_numbers("committed_us"),
    # The number of the commit's last event.
    *_numbers("last_event"),
    # Its events in order, as a list: each an `Event` with short names, without its version and
    # number, which the row and the index give. The view `events` has a row for each.
    Column("events", _JSON, nullable=False, server_default="[]"),
    # The rows that it changed and that its events don't name; NULL: none.
    Column("changed", _JSON, nullable=True),
    # Postgres: the transaction that wrote it. A row gets its number before it becomes visible, so
    # the feed is ordered by transactions, below the oldest one that is still open.
    Column("xid", _NUMBER, nullable=False, server_default=Transaction()),
    UniqueConstraint("run_key", "version"),
    Index("commits_by_event", "run_key", "last_event", **_LISTS_RUN),
    Index("commits_of_tenant", "tenant_id").ddl_if(dialect="sqlite"),
    Index("commits_fed", "xid", "seq").ddl_if(dialect="postgresql"),
    Index("commits_fed_of_tenant", "tenant_id", "xid", "seq", **_LISTS_TENANT).ddl_if(
        dialect="postgresql"
    ),
    # The number of a deleted run's commit is never reused, because a cursor may point there.
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
    # For people: the last execution of each conversation with an agent.
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
    # The newest entries may be trimmed, and a cursor may point there.
    sqlite_autoincrement=True,
)

journal_entries = Table(
    "journal_entries",
    metadata,
    # Journal entries, each written once.
    _seq(),
    _run_key(),
    # Digests of the journal's name and of the entry's name; different names may have the same
    # digests.
    *_numbers("step", "name"),
    # `at_most_once` is 1 for an entry of an AT_MOST_ONCE call.
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
    # The newest entries may be forgotten, and a cursor may point there.
    sqlite_autoincrement=True,
)

lease_sums = Table(
    "lease_sums",
    metadata,
    # The sums of what a lease recorded in journals; they belong to the execution's lease if that
    # has this token.
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
    # By the run's id instead of its number, because the run may not exist yet.
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
    # The number that the run had: the feed has its deletion under it.
    _run_key(),
    *_numbers("version", "expires_us"),
    PrimaryKeyConstraint("tenant_id", "run_id"),
    Index("tombstones_by_expiry", "expires_us"),
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
    """Return a condition that is true of every row and allows the indexes that list a tenant's or a run's rows."""
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
    outcomes,
    journal_entries,
)
"""The tables whose rows of a run are removed at its deletion."""
