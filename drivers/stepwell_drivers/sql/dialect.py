"""The few differences between the databases in how a statement is run.

A connection knows its database, so the shared functions take a connection and nothing else. SQLite
is called directly. Postgres' driver is asynchronous, so a function over it runs in a greenlet
(SQLAlchemy's), which is suspended at each statement. Nothing else of SQLAlchemy's execution is
used, because it costs several times what the database does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast

from sqlalchemy import (
    ColumnElement,
    Table,
    bindparam,
    exists,
    func,
    literal_column,
    select,
)
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import Dialect
from sqlalchemy.util.concurrency import await_

from stepwell_drivers.sql.columns import Values, to_json
from stepwell_drivers.sql.schema import run_specs, runs


class Pooled(Protocol):
    """A holder of the driver's own connection."""

    @property
    def driver_connection(self) -> Any: ...


class Link(Protocol):
    """The argument of every SQL function: a connection within a transaction (or a snapshot)."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def connection(self) -> Pooled: ...


Clock = Callable[[Link], int]
"""Returns the store's time in microseconds."""


def is_postgres(dialect: Dialect) -> bool:
    """Return whether the database is Postgres; otherwise it is SQLite."""
    return dialect.name == "postgresql"


def insert(dialect: Dialect, table: Table) -> SqliteInsert | PostgresqlInsert:
    """Return the database's own INSERT, which has ON CONFLICT."""
    return postgresql_insert(table) if is_postgres(dialect) else sqlite_insert(table)


def has_label(dialect: Dialect, at: int) -> ColumnElement[bool]:
    """Match runs with a label; `at` is its place among several, for `label_parameters`."""
    specs = run_specs.c
    if is_postgres(dialect):
        labels = cast_to(specs.spec.op("->")(literal_column("'labels'")), JSONB())
        matching = [labels.op("@>")(bindparam(f"label{at}", type_=JSONB()))]
    else:
        label = func.json_each(specs.spec, literal_column("'$.labels'")).table_valued(
            "key", "value"
        )
        matching = [label.c.key == bindparam(f"key{at}"), label.c.value == bindparam(f"value{at}")]
    return exists(select(specs.run_key).where(specs.run_key == runs.c.run_key, *matching))


def label_parameters(at: int, key: str, value: str) -> dict[str, str]:
    """Return the parameters of `has_label`, for either database."""
    return {f"key{at}": key, f"value{at}": value, f"label{at}": to_json({key: value})}


def execute(connection: Link, sql: str, values: Sequence[Any]) -> list[Values]:
    """Run a compiled statement within the connection's transaction; return its rows."""
    driver = connection.connection.driver_connection
    if is_postgres(connection.dialect):
        return cast("list[Values]", await_(driver.fetch(sql, *values)))
    return cast("list[Values]", driver.execute(sql, values).fetchall())


def fetch_each(connection: Link, sql: str, rows: Iterable[Values]) -> list[Values]:
    """Run a compiled statement in SQLite for each row of values; return all rows that it returned."""
    driver = connection.connection.driver_connection
    found: list[Values] = []
    for row in rows:
        found += driver.execute(sql, row).fetchall()
    return found


def execute_each(connection: Link, sql: str, rows: Iterable[Values]) -> int:
    """Run a compiled INSERT, UPDATE or DELETE in SQLite for each row of values; return the number of rows changed."""
    driver = connection.connection.driver_connection
    return cast("int", driver.executemany(sql, rows).rowcount)


def table_names(connection: Link) -> set[str]:
    """Return the names of the tables in the file, or in the connection's schema."""
    sql = (
        "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
        if is_postgres(connection.dialect)
        else "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return {row[0] for row in execute(connection, sql, ())}
