"""0006: the first schema that is kept. Frozen: later versions change it by migrations of their own.

The tables are written out again, not imported: what `schema.py` becomes must not change the past. Why each
is as it is stands there.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Executable,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB, UUID
from sqlalchemy.engine.mock import MockConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from stepwell_drivers.sql.migrations import besides_0006

revision = "0006"
down_revision = None
only_adds = False

_ENDED = "status IN ('SUCCEEDED', 'FAILED', 'CANCELLED')"

metadata = MetaData()

_NUMBER = BigInteger()
_SEQUENCE: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
_JSON: TypeEngine[str] = Text().with_variant(JSONB(), "postgresql")
_TEXT: TypeEngine[str] = Text().with_variant(Text(collation="C"), "postgresql")
_UUID: TypeEngine[str] = Text().with_variant(UUID(as_uuid=False), "postgresql")


def _seq() -> Column[Any]:
    return Column("seq", _SEQUENCE, primary_key=True)


def _run_key() -> Column[Any]:
    return Column("run_key", _NUMBER, nullable=False)


def _words(*names: str) -> list[Column[Any]]:
    return [Column(name, _TEXT, nullable=False, server_default="") for name in names]


def _numbers(*names: str) -> list[Column[Any]]:
    return [Column(name, _NUMBER, nullable=False, server_default="0") for name in names]


def _json(*names: str) -> list[Column[Any]]:
    return [Column(name, _JSON, nullable=False, server_default="{}") for name in names]


def _lists(*names: str) -> list[Column[Any]]:
    return [Column(name, _JSON, nullable=False, server_default="[]") for name in names]


def _bytes(name: str) -> list[Column[Any]]:
    return [
        Column(f"{name}_media_type", _TEXT, nullable=True),
        Column(name, LargeBinary(), nullable=True),
    ]


class _Transaction(FunctionElement[int]):
    inherit_cache = True


@compiles(_Transaction)
def _no_transaction(*_: object, **__: object) -> str:
    return "0"


@compiles(_Transaction, "postgresql")
def _this_transaction(*_: object, **__: object) -> str:
    return "(pg_current_xact_id()::text::bigint)"


class _RandomUuid(FunctionElement[str]):
    inherit_cache = True


@compiles(_RandomUuid)
def _drawn(*_: object, **__: object) -> str:
    first, *rest = [f"lower(hex(randomblob({size})))" for size in (4, 2, 2, 2, 6)]
    version = f"'4' || substr({rest[1]}, 2)"
    variant = f"substr('89ab', 1 + (random() & 3), 1) || substr({rest[2]}, 2)"
    return "(" + " || '-' || ".join((first, rest[0], version, variant, rest[3])) + ")"


@compiles(_RandomUuid, "postgresql")
def _drawn_by_postgres(*_: object, **__: object) -> str:
    return "gen_random_uuid()"


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


_CHANGING: dict[str, Any] = {
    "postgresql_with": {
        "fillfactor": 70,
        "autovacuum_vacuum_scale_factor": 0.02,
        "autovacuum_vacuum_threshold": 1_000,
    }
}


_LISTED: dict[str, Any] = {"postgresql_where": text("tenant_id >= ''")}


def _held(table: str) -> Index:
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
    *_words("goal"),
    *_json("labels"),
    Column("input_params", _JSON, nullable=True),
    *_numbers("max_iterations", "max_parallel", "priority"),
    *_json("initial_budget"),
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
    Column("uuid", _UUID, nullable=False, server_default=_RandomUuid()),
    Index("runs_by_uuid", "uuid"),
    Index("runs_by_uuid_start", text("left(uuid::text, 23)"), unique=True).ddl_if(
        dialect="postgresql"
    ),
    Index("runs_by_uuid_start", text("substr(uuid, 1, 23)"), unique=True).ddl_if(dialect="sqlite"),
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
    Column("position", _NUMBER, nullable=False, server_default="2147483647"),
    *_words("status"),
    *_numbers("version", "attempts", "spent", "allowance"),
    *_words("result_id", "input_id"),
    *_json("failure"),
    *_numbers("started_us", "ended_us"),
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
    *_numbers("version"),
    *_words("commit_id"),
    *_numbers("committed_us"),
    Column("changed", _JSON, nullable=True),
    UniqueConstraint("tenant_id", "run_id", "version"),
    Column("xid", _NUMBER, nullable=False, server_default=_Transaction()),
    Index("commits_of_tenant", "tenant_id", "seq").ddl_if(dialect="sqlite"),
    Index("commits_fed", "xid", "seq").ddl_if(dialect="postgresql"),
    Index("commits_fed_of_tenant", "tenant_id", "xid", "seq", **_LISTED).ddl_if(
        dialect="postgresql"
    ),
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
    *_numbers("appended_us"),
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
    *_words("family_id"),
    sqlite_with_rowid=False,
)

meta = Table(
    "meta",
    metadata,
    *_words("key", "value"),
    PrimaryKeyConstraint("key"),
    sqlite_with_rowid=False,
)


def upgrade() -> None:
    """Make the tables and the views; in Postgres, whose clock is the store's, the function that tells it."""
    dialect = op.get_context().dialect
    # Statement by statement, because a script has no connection.
    metadata.create_all(MockConnection(dialect, _execute), checkfirst=False)
    _add_indexes()
    if dialect.name == "postgresql":
        for statement in besides_0006.CLOCK:
            op.execute(statement)
    for view in besides_0006.views(dialect.name):
        op.execute(view)


def _execute(statement: Executable, *_: object, **__: object) -> None:
    op.execute(statement)


def _add_indexes() -> None:
    """Add the indexes whose order counts: of two that cost the same Postgres takes the newer one."""
    forks = ["tenant_id", "parent_run_id", "seq"]
    op.create_index("runs_by_parent", "run_rows", forks, **_where("parent_run_id <> ''"))
    family = ["tenant_id", "family_id"]
    op.create_index("runs_by_family", "run_rows", family, **_where("family_id <> ''"))
    op.create_index("tombstones_of_family", "tombstones", family, **_where("family_id <> ''"))
    ended = ["status", "ended_us"]
    op.create_index("runs_ended", "run_rows", [*ended, "tenant_id", "run_id"], **_where(_ENDED))
    op.create_index(
        "runs_ended_of_tenant", "run_rows", ["tenant_id", *ended, "run_id"], **_where(_ENDED)
    )
    of_pipeline = ["tenant_id", "pipeline_id", *ended, "run_id"]
    op.create_index("runs_ended_of_pipeline", "run_rows", of_pipeline, **_where(_ENDED))
    op.create_index("inputs_in_order", "inputs", ["tenant_id", "run_id", "seq"], **_LISTED)
    op.create_index(
        "inputs_waiting",
        "inputs",
        ["tenant_id", "seq"],
        sqlite_where=text("status = 'OPEN'"),
        postgresql_where=text("status = 'OPEN' AND tenant_id >= ''"),
    )
