"""Creates or migrates the schema: one server at a time, however many start at once.

Alembic uses SQLAlchemy's own connection, opened for this and then dropped.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from stepwell.core.port import Runtime
from stepwell_drivers.sql.migrate import migrate
from stepwell_drivers.sql.postgres.links import Connector

MIGRATION_MS = 600_000
"""The time-out of a migration: a large table may take this long, and only other starting servers wait."""

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_IS_THERE = text("SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = :name")


async def make(connector: Connector, runtime: Runtime) -> None:
    """Migrate the schema to this program's version, completely or not at all."""
    schema = connector.url.schema

    async def connect(*_: Any, **__: Any) -> Any:
        return await connector.hosts.connect(statement_cache_size=0)

    engine = create_async_engine(
        "postgresql+asyncpg://",
        poolclass=NullPool,
        connect_args={
            "async_creator_fn": connect,
            # Unique names, because behind a pooler the server's connection may have others'
            # statements.
            "prepared_statement_name_func": lambda: f"stepwell-{runtime.new_id()}",
        },
    )
    async with engine.begin() as connection:
        await connection.run_sync(_make, schema)
    await engine.dispose()


def _make(connection: Connection, schema: str) -> None:
    for name, value in (
        ("statement_timeout", MIGRATION_MS),
        ("lock_timeout", MIGRATION_MS),
        ("search_path", schema),
    ):
        connection.execute(
            text("SELECT set_config(:name, :value, true)"), {"name": name, "value": str(value)}
        )
    connection.execute(_LOCK, {"name": f"stepwell migrate {schema}"})
    if connection.execute(_IS_THERE, {"name": schema}).first() is None:
        # The URL's rules allow only letters, digits and _ here.
        connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')
    migrate(connection)
