"""The tables. What a person asks for stands in columns of its own.

A run's number (`run_rows.seq`, elsewhere `run_key`) is its key inside the store; the tenant comes first in
keys that have no run. The numbers say nothing of any order that a caller sees.
Rows that grow with a run's history are written at the end of their table and found by narrow indexes:
a commit then touches few pages. Small rows that come and go with their run's key stand in key order.
JSON is text here and JSONB on Postgres. An enum's value is its name. Units stand last in names.
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

from stepwell_drivers.sql.defaults import RandomUuid, Transaction

REVISIONS: tuple[str, ...] = ("0006",)
"""The schema's versions, oldest first: the migrations of these names lead here."""

ENDED = "status IN ('SUCCEEDED', 'FAILED', 'CANCELLED')"
"""The condition of the indexes of ended runs, in the words that a query has to use, too."""

UNPLACED = 2**31 - 1
"""The position of a task that stands in no plan."""

metadata = MetaData()

_NUMBER = BigInteger()
_SEQUENCE: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
_JSON: TypeEngine[str] = Text().with_variant(JSONB(), "postgresql")
# By code point, as SQLite and Python compare: no order rests on a server's language.
_TEXT: TypeEngine[str] = Text().with_variant(Text(collation="C"), "postgresql")
_UUID: TypeEngine[str] = Text().with_variant(UUID(as_uuid=False), "postgresql")


def _seq() -> Column[Any]:
    """A number that counts up as rows are written."""
    return Column("seq", _SEQUENCE, primary_key=True)


def _run_key() -> Column[Any]:
    """The number of the rows' run, `run_rows.seq`: a short key, which never comes again."""
    return Column("run_key", _NUMBER, nullable=False)


def _words(*names: str) -> list[Column[Any]]:
    return [Column(name, _TEXT, nullable=False, server_default="") for name in names]


def _numbers(*names: str) -> list[Column[Any]]:
    return [Column(name, _NUMBER, nullable=False, server_default="0") for name in names]


def _json(*names: str) -> list[Column[Any]]:
    return [Column(name, _JSON, nullable=False, server_default="{}") for name in names]


def _lists(*names: str) -> list[Column[Any]]:
    """JSON whose empty value is a list."""
    return [Column(name, _JSON, nullable=False, server_default="[]") for name in names]


def _bytes(name: str) -> list[Column[Any]]:
    """Bytes with their media type; both NULL: there are none."""
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


# Postgres takes any index for rows of a table that it knows nothing of yet, one that lists a tenant as soon
# as the key: so those that list may be taken only by who says this.
_LISTED: dict[str, Any] = {"postgresql_where": text("tenant_id >= ''")}


def _held(table: str) -> Index:
    """Postgres: what a claim returned is held in its row, for every replica. SQLite's one process knows."""
    where = text("held_until_us > 0")
    held = Index(f"{table}_held", "held_until_us", postgresql_where=where)
    return held.ddl_if(dialect="postgresql")


runs = Table(
    "run_rows",
    metadata,
    _seq(),
    *_words("tenant_id", "run_id", "pipeline_id", "queue", "executor_id"),
    *_words("status", "phase", "blocked_on", "pause_reason", "finish_reason", "reason"),
    *_numbers("version", "last_event", "iteration", "plan_revision"),
    *_json("stages"),
    *_numbers("stages_fixed", "allowance", "step_attempt", "step_spent"),
    *_json("counts", "usage", "budget", "failure"),
    *_words("result_id", "actor", "on_behalf_of"),
    *_numbers("blocked_since_us", "created_us", "started_us", "ended_us"),
    # Written once, at the birth.
    *_words("goal"),
    *_json("labels"),
    Column("input_params", _JSON, nullable=True),
    *_numbers("max_iterations", "max_parallel", "priority"),
    *_json("initial_budget"),
    # As it was written, to the sign of a zero: JSONB would make numbers of its own of it.
    Column("step_retry", Text().with_variant(JSON(), "postgresql"), nullable=False),
    *_numbers("step_timeout_ms", "start_delay_ms", "parent_version"),
    *_words("parent_run_id", "request_fingerprint"),
    *_json("worker_version"),
    UniqueConstraint("tenant_id", "run_id"),
    Index("runs_by_birth", "tenant_id", "seq", **_LISTED),
    Index("runs_by_status", "tenant_id", "status", "seq", **_LISTED),
    Index("runs_by_pipeline", "tenant_id", "pipeline_id", "seq", **_LISTED),
    *_json("attempts", "tally", "previous", "step_losses"),
    *_numbers("stopping", "no_progress_limit"),
    *_words("family_id", "blocked_run_id"),
    # The `id` of the view `runs`: the run's own id where that is a UUID, else one that is drawn. Its tasks'
    # and events' ids begin with its first 20 digits, so these are no other run's.
    Column("uuid", _UUID, nullable=False, server_default=RandomUuid()),
    Index("runs_by_uuid", "uuid"),
    Index("runs_by_uuid_start", text("left(uuid::text, 23)"), unique=True).ddl_if(
        dialect="postgresql"
    ),
    Index("runs_by_uuid_start", text("substr(uuid, 1, 23)"), unique=True).ddl_if(dialect="sqlite"),
    Index("runs_by_parent", "tenant_id", "parent_run_id", "seq", **_where("parent_run_id <> ''")),
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

payloads = Table(
    "payloads",
    metadata,
    _run_key(),
    *_words("key"),
    *_bytes("data"),
    PrimaryKeyConstraint("run_key", "key"),
)

plans = Table(
    "plans",
    metadata,
    *_words("tenant_id", "run_id"),
    *_numbers("revision", "version", "parent_revision", "iteration", "task_count", "created_us"),
    *_words("trigger", "reason", "fingerprint"),
    Column("specs", LargeBinary(), nullable=False),
    PrimaryKeyConstraint("tenant_id", "run_id", "revision"),
    *_lists("carried"),
)

tasks = Table(
    "task_rows",
    metadata,
    *_words("tenant_id", "run_id", "task_id"),
    *_numbers("revision"),
    Column("position", _NUMBER, nullable=False, server_default=str(UNPLACED)),
    *_words("status"),
    *_numbers("version", "attempts", "spent", "allowance"),
    *_words("result_id", "input_id"),
    *_json("failure"),
    *_numbers("started_us", "ended_us"),
    # For people, written with the plan; the loop reads the plan itself.
    *_words("type", "title", "role", "idempotency_key", "effect", "on_failure"),
    *_json("depends_on", "retry"),
    *_words("prompt"),
    PrimaryKeyConstraint("tenant_id", "run_id", "task_id"),
    Index(
        *("tasks_in_order", "tenant_id", "run_id"),
        *("revision", "position", "task_id"),
        **_LISTED,
    ),
    *_words("result_run_id", "deduplicated_from", "held_key", "key_run_id"),
    *_numbers("messages", "reconciles", "reconciles_spent"),
    *_json("previous", "losses", "reconcile_losses"),
    # The last digits of the `id` in the view `tasks`; written once.
    *_numbers("number"),
    **_CHANGING,
)

executions = Table(
    "executions",
    metadata,
    _seq(),
    *_words("tenant_id", "run_id", "execution_id", "kind", "task_id"),
    *_words("status", "queue", "type", "role", "pin", "worker_id", "backend", "session_id"),
    *_numbers("version", "iteration", "attempt", "priority", "delay_ms", "available_us"),
    *_numbers("begun", "has_result", "offered_us", "leased_us", "ended_us", "held_until_us"),
    *_json("failure", "usage"),
    # An execution is of one task for ever: so its key serves those who ask by task, too.
    UniqueConstraint("tenant_id", "run_id", "task_id", "execution_id"),
    Index("executions_in_order", "tenant_id", "run_id", "seq", **_LISTED),
    Index(
        "executions_open",
        "tenant_id",
        "run_id",
        "status",
        **_where("status IN ('READY', 'LEASED', 'UNKNOWN_OUTCOME')"),
    ),
    Index(
        "executions_ready",
        "tenant_id",
        "queue",
        "kind",
        "role",
        "type",
        "pin",
        "priority",
        "available_us",
        "seq",
        **_where("status = 'READY'"),
    ),
    Index("executions_delayed", "available_us", **_where("status = 'READY'")),
    _held("executions"),
    *_numbers("messages_after", "messages", "unknown_us"),
    **_CHANGING,
)

outcomes = Table(
    "outcomes",
    metadata,
    *_words("tenant_id", "run_id", "execution_id", "backend", "session_id", "prompt", "response"),
    *_words("receipt"),
    *_bytes("result"),
    PrimaryKeyConstraint("tenant_id", "run_id", "execution_id"),
)

leases = Table(
    "leases",
    metadata,
    *_words("tenant_id", "run_id", "execution_id", "token", "worker_id", "instance_id"),
    *_numbers("version", "armed", "deadline_us", "limit_us", "held_until_us"),
    *_words("backend", "session_id"),
    *_bytes("progress"),
    PrimaryKeyConstraint("tenant_id", "run_id", "execution_id"),
    # All that is asked for: else SQLite prefers to walk the tenant's leases by their key.
    Index(
        *("leases_of_worker", "tenant_id", "worker_id"),
        *("run_id", "execution_id", "token", "instance_id"),
    ).ddl_if(dialect="sqlite"),
    Index("leases_of_worker", "tenant_id", "worker_id", **_LISTED).ddl_if(dialect="postgresql"),
    Index(
        "leases_due",
        "deadline_us",
        "tenant_id",
        "run_id",
        "execution_id",
        **_where("armed = 1"),
    ).ddl_if(dialect="sqlite"),
    # Postgres sorts the few that are due at the same moment.
    Index("leases_due", "deadline_us", **_where("armed = 1")).ddl_if(dialect="postgresql"),
    _held("leases"),
    sqlite_with_rowid=False,
    **_CHANGING,
)

timers = Table(
    "timers",
    metadata,
    _run_key(),
    *_words("name"),
    *_numbers("version", "due_us", "held_until_us"),
    PrimaryKeyConstraint("run_key", "name"),
    Index("timers_due", "due_us", "run_key", "name"),
    _held("timers"),
    sqlite_with_rowid=False,
    **_CHANGING,
)

events = Table(
    "event_rows",
    metadata,
    *_words("tenant_id", "run_id"),
    *_numbers("number", "version"),
    *_words("type"),
    *_numbers("time_us"),
    *_words("task_id", "execution_id", "input_id", "message", "actor", "on_behalf_of"),
    *_numbers("plan_revision"),
    *_json("payload"),
    PrimaryKeyConstraint("tenant_id", "run_id", "number"),
)

commits = Table(
    "commits",
    metadata,
    _seq(),
    *_words("tenant_id", "run_id"),
    # Below zero: not a commit but the run's deletion, at that version; it goes with the tombstone.
    *_numbers("version"),
    *_words("commit_id"),
    *_numbers("committed_us"),
    # Which rows it changed; NULL: too many to name.
    Column("changed", _JSON, nullable=True),
    UniqueConstraint("tenant_id", "run_id", "version"),
    # Postgres: the transaction that wrote it. Numbers of rows are given out before their rows can be
    # seen, so the feed goes by these, below the oldest that is still open.
    Column("xid", _NUMBER, nullable=False, server_default=Transaction()),
    Index("commits_of_tenant", "tenant_id", "seq").ddl_if(dialect="sqlite"),
    Index("commits_fed", "xid", "seq").ddl_if(dialect="postgresql"),
    Index("commits_fed_of_tenant", "tenant_id", "xid", "seq", **_LISTED).ddl_if(
        dialect="postgresql"
    ),
    # A number of a deleted run's commit never comes again: a cursor may stand there.
    sqlite_autoincrement=True,
)

inputs = Table(
    "inputs",
    metadata,
    _seq(),
    *_words("tenant_id", "run_id", "input_id", "task_id", "execution_id", "kind", "status"),
    *_words("prompt", "schema"),
    *_json("choices"),
    *_numbers("version", "expires_ms"),
    *_words("on_expiry", "answered_by"),
    *_bytes("answer"),
    *_numbers("created_us", "ended_us"),
    UniqueConstraint("tenant_id", "run_id", "input_id"),
    Index("inputs_open", "tenant_id", "run_id", "status", **_where("status = 'OPEN'")),
    Index("inputs_in_order", "tenant_id", "run_id", "seq", **_LISTED),
    Index(
        *("inputs_waiting", "tenant_id", "seq"),
        sqlite_where=text("status = 'OPEN'"),
        postgresql_where=text("status = 'OPEN' AND tenant_id >= ''"),
    ),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    *_words("tenant_id", "run_id"),
    *_numbers("version", "cycle"),
    *_json("state"),
    *_numbers("created_us"),
    Column("base", LargeBinary(), nullable=True),
    PrimaryKeyConstraint("tenant_id", "run_id", "version"),
    Index("checkpoints_based", "tenant_id", "run_id", "version", **_where("base IS NOT NULL")),
)

requests = Table(
    "requests",
    metadata,
    _run_key(),
    *_numbers("committed_version"),
    *_words("request_id", "fingerprint"),
    *_numbers("version"),
    PrimaryKeyConstraint("run_key", "committed_version"),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    *_words("tenant_id", "run_id", "backend", "session_id", "task_id", "execution_id"),
    *_numbers("version"),
    PrimaryKeyConstraint("tenant_id", "run_id", "backend", "session_id"),
    sqlite_with_rowid=False,
)

messages = Table(
    "messages",
    metadata,
    _seq(),
    *_words("tenant_id", "run_id", "task_id", "execution_id", "role"),
    *_words("backend", "session_id", "content"),
    *_numbers("version"),
    Index("messages_in_order", "tenant_id", "run_id", "seq"),
    Index("messages_of_task", "tenant_id", "run_id", "task_id", "seq"),
    *_numbers("number"),
)

logs = Table(
    "logs",
    metadata,
    _seq(),
    *_words("tenant_id", "run_id", "execution_id", "level", "text"),
    *_numbers("written_us"),
    Index("logs_in_order", "tenant_id", "run_id", "seq"),
    Index("logs_of_execution", "tenant_id", "run_id", "execution_id", "seq"),
    Column("kind", _TEXT, nullable=False, server_default="LINE"),
    # By the store's clock; `written_us` is by the worker's.
    *_numbers("appended_us"),
    # The newest entries may be trimmed away, and a cursor stands where they were.
    sqlite_autoincrement=True,
)

reservations = Table(
    "reservations",
    metadata,
    *_words("tenant_id", "pipeline_id", "key", "run_id", "commit_id"),
    PrimaryKeyConstraint("tenant_id", "pipeline_id", "key"),
    Index("reservations_of_run", "tenant_id", "run_id", "pipeline_id", "key", **_LISTED),
    sqlite_with_rowid=False,
    **_CHANGING,
)

workers = Table(
    "workers",
    metadata,
    *_words("tenant_id", "worker_id", "instance_id", "replica_id"),
    *_json("queues", "tasks", "kinds"),
    *_words("version"),
    *_numbers("credits", "expires_us"),
    PrimaryKeyConstraint("tenant_id", "worker_id", "instance_id"),
    Index("workers_by_expiry", "expires_us"),
    sqlite_with_rowid=False,
)

tombstones = Table(
    "tombstones",
    metadata,
    *_words("tenant_id", "run_id"),
    *_numbers("version", "expires_us"),
    PrimaryKeyConstraint("tenant_id", "run_id"),
    Index("tombstones_by_expiry", "expires_us"),
    # Of a run whose outcomes stay for others of its family: it expires when the last of these is gone.
    *_words("family_id"),
    Index("tombstones_of_family", "tenant_id", "family_id", **_where("family_id <> ''")),
    sqlite_with_rowid=False,
)

meta = Table(
    "meta",
    metadata,
    *_words("key", "value"),
    PrimaryKeyConstraint("key"),
    sqlite_with_rowid=False,
)


def listed(table: Table) -> ColumnElement[bool]:
    """Say that an index which lists is wanted: true of every row."""
    return table.c.tenant_id >= literal_column("''")


OF_A_RUN = (
    runs,
    payloads,
    plans,
    tasks,
    executions,
    leases,
    timers,
    events,
    commits,
    inputs,
    checkpoints,
    requests,
    sessions,
    messages,
    logs,
)
"""The tables that a deleted run leaves at once; `outcomes` it leaves with the last of its family."""
