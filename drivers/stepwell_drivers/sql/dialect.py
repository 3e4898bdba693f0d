"""The few lines in which the databases differ, and nothing else that differs anywhere.

Which database it is, the connection says; so the functions above take a connection and no more.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy import ColumnElement, Connection, Table, exists, func, literal, select
from sqlalchemy.dialects.postgresql import Insert as PostgresqlInsert
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import Dialect

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


def changes_so_far(connection: Connection) -> int | None:
    """Return how many rows this connection has changed; None: the driver counts each statement's.

    Python's sqlite3 counts nothing for a statement that begins with WITH.
    """
    raw = connection.connection.driver_connection
    return raw.total_changes if isinstance(raw, sqlite3.Connection) else None
