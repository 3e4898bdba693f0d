"""The few lines in which the databases differ, and nothing else that differs anywhere.

Which database it is, the connection says; so the functions above take a connection and no more.
"""

from __future__ import annotations

import sqlite3
from typing import cast

from sqlalchemy import ColumnElement, Connection, Table, exists, func, literal, select
from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import Dialect

from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.schema import runs

ROWS_AT_ONCE_MAX = 256
"""Rows in one statement: more of them save nothing and make statements large."""
PARAMETERS_MAX = 32_000
"""Values in one statement: SQLite takes 32,766, Postgres 32,767."""


def insert(dialect: Dialect, table: Table) -> SqliteInsert | PostgresqlInsert:
    """Return the database's own INSERT, which knows ON CONFLICT."""
    return postgresql_insert(table) if dialect.name == "postgresql" else sqlite_insert(table)


def has_label(key: str, value: str) -> ColumnElement[bool]:
    """Match runs with this label (SQLite: Postgres' is `labels @> …`)."""
    label = func.json_each(runs.c.labels).table_valued("key", "value")
    matching = select(literal(1)).select_from(label)
    return exists(matching.where(label.c.key == key, label.c.value == value))


def execute(connection: Connection, sql: str, values: Values) -> tuple[list[Values], int]:
    """Run a compiled statement within the connection's transaction; return rows and rows changed.

    SQLite's goes straight to the driver: SQLAlchemy's care for each statement costs several times
    what SQLite does, and Python's sqlite3 counts nothing for a statement that begins with WITH.
    """
    driver = connection.connection.driver_connection
    if isinstance(driver, sqlite3.Connection):
        before = driver.total_changes
        found = driver.execute(sql, values).fetchall()
        return found, driver.total_changes - before
    result = connection.exec_driver_sql(sql, values)
    rows = cast("list[Values]", result.all()) if result.returns_rows else []
    return rows, result.rowcount
