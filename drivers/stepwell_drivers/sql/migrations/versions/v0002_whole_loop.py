"""0002: what the whole loop needs. Frozen: later versions change it by migrations of their own.

Columns come at the end of their tables, with what a row of before means by them: that costs nothing
however many rows there are. Only SQLite's log is written again, because its rows' numbers must never
come twice from now on, and that can't be said of a table that is there.
"""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

revision = "0002"
down_revision = "0001"

_NUMBER = BigInteger()
_SEQUENCE: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
_JSON: TypeEngine[str] = Text().with_variant(JSONB(), "postgresql")
_TEXT: TypeEngine[str] = Text().with_variant(Text(collation="C"), "postgresql")


def _words(*names: str) -> list[Column[Any]]:
    return [Column(name, _TEXT, nullable=False, server_default="") for name in names]


def _numbers(*names: str) -> list[Column[Any]]:
    return [Column(name, _NUMBER, nullable=False, server_default="0") for name in names]


def _json(*names: str, empty: str = "{}") -> list[Column[Any]]:
    return [Column(name, _JSON, nullable=False, server_default=empty) for name in names]


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


_LISTED: dict[str, Any] = {"postgresql_where": text("tenant_id >= ''")}
_ENDED = _where("status IN ('SUCCEEDED', 'FAILED', 'CANCELLED')")


def upgrade() -> None:
    """Add columns, indexes and a table; in Postgres also a clock that never goes back."""
    for table, columns in _columns().items():
        for column in columns:
            op.add_column(table, column)
    _add_indexes()
    Table(
        "keyed",
        MetaData(),
        Column("seq", _SEQUENCE, primary_key=True),
        *_words("tenant_id", "pipeline_id", "key", "run_id", "execution_id"),
        Index("keyed_by_key", "tenant_id", "pipeline_id", "key", "seq"),
        Index("keyed_of_run", "tenant_id", "run_id"),
    ).create(op.get_bind())
    _change_logs()
    if op.get_bind().dialect.name == "postgresql":
        for statement in _CLOCK:
            op.execute(statement)


def _columns() -> dict[str, list[Column[Any]]]:
    return {
        "runs": [
            *_json("attempts", "tally", "previous"),
            *_numbers("stopping", "no_progress_limit"),
            *_words("family_id"),
        ],
        "plans": _json("carried", empty="[]"),
        "tasks": [
            *_words("result_run_id", "deduplicated_from"),
            *_numbers("messages", "reconciles", "reconciles_spent"),
            *_json("previous"),
        ],
        "executions": _numbers("messages_after", "messages", "unknown_us"),
        "messages": _numbers("number"),
        "tombstones": _words("family_id"),
    }


def _add_indexes() -> None:
    forks = ["tenant_id", "parent_run_id", "seq"]
    op.create_index("runs_by_parent", "runs", forks, **_where("parent_run_id <> ''"))
    family = ["tenant_id", "family_id"]
    op.create_index("runs_by_family", "runs", family, **_where("family_id <> ''"))
    op.create_index("tombstones_of_family", "tombstones", family, **_where("family_id <> ''"))
    ended = ["status", "ended_us"]
    op.create_index("runs_ended", "runs", [*ended, "tenant_id", "run_id"], **_ENDED)
    op.create_index("runs_ended_of_tenant", "runs", ["tenant_id", *ended, "run_id"], **_ENDED)
    of_pipeline = ["tenant_id", "pipeline_id", *ended, "run_id"]
    op.create_index("runs_ended_of_pipeline", "runs", of_pipeline, **_ENDED)
    op.create_index("inputs_in_order", "inputs", ["tenant_id", "run_id", "seq"], **_LISTED)
    op.create_index(
        "inputs_waiting",
        "inputs",
        ["tenant_id", "seq"],
        sqlite_where=text("status = 'OPEN'"),
        postgresql_where=text("status = 'OPEN' AND tenant_id >= ''"),
    )


_CLOCK = (
    "CREATE SEQUENCE stepwell_clock_last MINVALUE 0 START 0",
    "CREATE SEQUENCE stepwell_clock_ahead MINVALUE 0 START 0",
    """
    CREATE OR REPLACE FUNCTION stepwell_now_us() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
    DECLARE
      now_us bigint;
      ahead_us bigint;
      last_us bigint;
      keeps boolean := current_setting('transaction_read_only') = 'off';
    BEGIN
      SELECT last_value INTO ahead_us FROM stepwell_clock_ahead;
      SELECT last_value INTO last_us FROM stepwell_clock_last;
      -- After these: a session that is stopped for a while in between has not seen time go back.
      now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + ahead_us;
      IF keeps AND now_us >= last_us + 1000000 THEN
        PERFORM setval('stepwell_clock_last', now_us);
      ELSIF keeps AND now_us < last_us - 1000000 THEN
        PERFORM setval('stepwell_clock_ahead', ahead_us + last_us - now_us);
      END IF;
      RETURN greatest(now_us, last_us);
    END $$
    """,
)
"""The store's time goes on from where it was when the server's clock is set back; else all that was stamped
before would have to wait for as long. Sequences, because no transaction holds them: nobody waits for another.
A second is as much as is lost by it, and what two sessions that look at once may be apart."""
_LAST_US = text("SELECT committed_us FROM commits ORDER BY seq DESC LIMIT 1")
_COPY = text(
    "INSERT INTO logs (seq, tenant_id, run_id, execution_id, level, text, written_us, appended_us)"
    " SELECT seq, tenant_id, run_id, execution_id, level, text, written_us, :last_us"
    " FROM logs_of_before ORDER BY seq"
)


def _change_logs() -> None:
    """Add what a log entry is, and when it was appended: nobody knows that of those that are there.

    They count as appended when the store was last written: kept for a while longer, and no more.
    """
    last_us = int(op.get_bind().execute(_LAST_US).scalar() or 0)
    kind = Column("kind", _TEXT, nullable=False, server_default="LINE")
    if op.get_bind().dialect.name == "postgresql":
        op.add_column("logs", kind)
        moment = Column("appended_us", _NUMBER, nullable=False, server_default=str(last_us))
        op.add_column("logs", moment)
        op.alter_column("logs", "appended_us", server_default="0")
        return
    op.rename_table("logs", "logs_of_before")
    op.drop_index("logs_in_order")
    op.drop_index("logs_of_execution")
    Table(
        "logs",
        MetaData(),
        Column("seq", _SEQUENCE, primary_key=True),
        *_words("tenant_id", "run_id", "execution_id", "level", "text"),
        *_numbers("written_us"),
        Index("logs_in_order", "tenant_id", "run_id", "seq"),
        Index("logs_of_execution", "tenant_id", "run_id", "execution_id", "seq"),
        kind,
        *_numbers("appended_us"),
        sqlite_autoincrement=True,
    ).create(op.get_bind())
    op.get_bind().execute(_COPY, {"last_us": last_us})
    op.drop_table("logs_of_before")
