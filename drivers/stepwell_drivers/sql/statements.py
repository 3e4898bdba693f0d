"""Statements over many rows at once, written by SQLAlchemy, compiled once and kept as text.

One statement with 64 rows costs a fraction of 64 statements; and SQLite runs it outside Python's lock
as a whole, so that the event loop goes on meanwhile (row by row, each row would queue for the lock
behind it). Counts are cut into powers of two: few different texts, each prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Table,
    bindparam,
    column,
    delete,
    select,
    tuple_,
    update,
    values,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler

from stepwell_drivers.sql import dialect as differences

Values = tuple[Any, ...]


class _Compiled:
    """A statement's text by database and number of rows."""

    def __init__(self, width: int, build: Callable[[Dialect, int], Executable]) -> None:
        room = min(differences.PARAMETERS_MAX // width, differences.ROWS_AT_ONCE_MAX)
        self.most = 1 << (room.bit_length() - 1)
        self._build = build
        self._texts: dict[tuple[str, int], str] = {}

    def text(self, connection: Connection, size: int) -> str:
        """Return the statement for that many rows."""
        key = (connection.dialect.name, size)
        if key not in self._texts:
            statement = self._build(connection.dialect, size)
            self._texts[key] = compiled(statement, connection.dialect).string
        return self._texts[key]

    def cut(self, rows: Sequence[Values]) -> Iterator[Sequence[Values]]:
        """Cut into pieces whose lengths are powers of two."""
        start, left = 0, len(rows)
        while left:
            size = min(1 << (left.bit_length() - 1), self.most)
            yield rows[start : start + size]
            start, left = start + size, left - size

    def run(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Run it over all rows; return how many the database changed."""
        changed = 0
        for piece in self.cut(rows):
            sql = self.text(connection, len(piece))
            result = connection.exec_driver_sql(sql, tuple(chain.from_iterable(piece)))
            changed += result.rowcount
        return changed


def _is_one_of(table: Table, key: Sequence[str], size: int) -> ColumnElement[bool]:
    columns = [table.c[name] for name in key]
    blank = tuple(0 if isinstance(column.type, BigInteger) else "" for column in columns)
    return tuple_(*columns).in_([blank] * size)


class Insert:
    """INSERT of many rows. With a key: a row of the same key takes `replaced`, or keeps what it has."""

    def __init__(
        self,
        table: Table,
        columns: Sequence[str],
        *,
        key: Sequence[str] = (),
        replaced: Sequence[str] = (),
    ) -> None:
        self._table, self._columns = table, columns
        self._key, self._replaced = key, replaced
        self._compiled = _Compiled(len(columns), self._build)

    def run(self, connection: Connection, rows: Sequence[Values]) -> None:
        """Write rows whose values stand in the order of the columns; each key once."""
        self._compiled.run(connection, rows)

    def _build(self, dialect: Dialect, size: int) -> Executable:
        statement = differences.insert(dialect, self._table).values(
            [
                {name: bindparam(f"r{row}_{at}") for at, name in enumerate(self._columns)}
                for row in range(size)
            ]
        )
        if not self._key:
            return statement
        if not self._replaced:
            return statement.on_conflict_do_nothing(index_elements=self._key)
        given = {name: statement.excluded[name] for name in self._replaced}
        return statement.on_conflict_do_update(index_elements=self._key, set_=given)


class Update:
    """UPDATE of many rows by their keys."""

    def __init__(self, table: Table, key: Sequence[str], moving: Sequence[str]) -> None:
        self._table, self._key, self._moving = table, key, moving
        self._compiled = _Compiled(len(key) + len(moving), self._build)

    def run(self, connection: Connection, rows: Sequence[Values]) -> int:
        """Take rows of key and moving columns; return how many of them were there."""
        return self._compiled.run(connection, rows)

    def _build(self, dialect: Dialect, size: int) -> Executable:
        del dialect
        names = (*self._key, *self._moving)
        columns = [column(name, self._table.c[name].type) for name in names]
        rows = [tuple(bindparam(f"r{row}_{name}") for name in names) for row in range(size)]
        given = values(*columns, name="given").data(rows)
        source = given.cte("given")
        statement = update(self._table).values({name: source.c[name] for name in self._moving})
        return statement.where(*[self._table.c[name] == source.c[name] for name in self._key])


class Pick:
    """SELECT of many rows by their keys, in no order."""

    def __init__(self, table: Table, key: Sequence[str], columns: Sequence[str]) -> None:
        self._table, self._key, self._columns = table, key, columns
        self._compiled = _Compiled(len(key), self._build)

    def run(self, connection: Connection, keys: Sequence[Values]) -> list[Row[Any]]:
        """Return the rows that are there."""
        found: list[Row[Any]] = []
        for piece in self._compiled.cut(keys):
            sql = self._compiled.text(connection, len(piece))
            found += connection.exec_driver_sql(sql, tuple(chain.from_iterable(piece))).all()
        return found

    def _build(self, dialect: Dialect, size: int) -> Executable:
        del dialect
        columns = [self._table.c[name] for name in self._columns]
        return select(*columns).where(_is_one_of(self._table, self._key, size))


class Delete:
    """DELETE of many rows by their keys."""

    def __init__(self, table: Table, key: Sequence[str]) -> None:
        self._table, self._key = table, key
        self._compiled = _Compiled(len(key), self._build)

    def run(self, connection: Connection, keys: Sequence[Values]) -> None:
        """Remove the rows that are there."""
        self._compiled.run(connection, keys)

    def _build(self, dialect: Dialect, size: int) -> Executable:
        del dialect
        return delete(self._table).where(_is_one_of(self._table, self._key, size))


class Query:
    """One fixed statement with named parameters."""

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._texts: dict[str, tuple[str, list[str], dict[str, Any]]] = {}

    def run(self, connection: Connection, **parameters: Any) -> list[Row[Any]]:
        """Return its rows."""
        known = self._texts.get(connection.dialect.name)
        if known is None:
            form = compiled(self._statement, connection.dialect)
            names = form.positiontup or []
            known = (form.string, list(names), dict(form.params))
            self._texts[connection.dialect.name] = known
        sql, names, preset = known
        given = {**preset, **parameters} if preset else parameters
        result = connection.exec_driver_sql(sql, tuple(given[name] for name in names))
        return list(result.all()) if result.returns_rows else []

    def first(self, connection: Connection, **parameters: Any) -> Row[Any] | None:
        """Return its first row, or None."""
        found = self.run(connection, **parameters)
        return found[0] if found else None


def compiled(statement: Executable, dialect: Dialect) -> SQLCompiler:
    """Return the statement's text for a database, lists written out."""
    form = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(form, SQLCompiler)
    return form
