"""Statements over many rows at once, written by SQLAlchemy, compiled once and kept as text.

One statement with 64 rows costs a fraction of 64 statements; and SQLite runs it outside Python's lock
as a whole, so that the event loop goes on meanwhile (row by row, each row would queue for the lock
behind it). Counts above 16 are cut to multiples of 16: few different texts, each prepared once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    CTE,
    BindParameter,
    ClauseElement,
    ColumnElement,
    Connection,
    Table,
    bindparam,
    column,
    delete,
    select,
    tuple_,
    update,
    values,
)
from sqlalchemy import cast as cast_to
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from stepwell_drivers.sql import dialect as differences
from stepwell_drivers.sql.columns import Values

_STEP = 16


class _Compiled:
    """A statement's text by database and number of rows."""

    def __init__(self, width: int, build: Callable[[Dialect, int], ClauseElement]) -> None:
        room = min(differences.PARAMETERS_MAX // width, differences.ROWS_AT_ONCE_MAX)
        self._most = room - room % _STEP
        self._width = width
        self._build = build
        self._forms: dict[tuple[str, int], tuple[str, _Order]] = {}

    def run(self, connection: Connection, rows: Sequence[Values]) -> tuple[list[Values], int]:
        """Run it over all rows, in pieces of few different lengths.

        Returns what the database answered, and how many rows it changed.
        """
        found: list[Values] = []
        changed, start, left = 0, 0, len(rows)
        while left:
            size = min(left if left <= _STEP else left - left % _STEP, self._most)
            piece: Iterable[Values] = rows[start : start + size]
            start, left = start + size, left - size
            sql, order = self._form(connection, size)
            if order is not None:
                piece = map(order, piece)
            values = tuple(chain.from_iterable(piece))
            several, count = differences.execute(connection, sql, values)
            found += several
            changed += count
        return found, changed

    def _form(self, connection: Connection, size: int) -> tuple[str, _Order]:
        key = (connection.dialect.name, size)
        if key not in self._forms:
            self._forms[key] = self._repeated(connection, size) or self._whole(connection, size)
        return self._forms[key]

    def _whole(self, connection: Connection, size: int) -> tuple[str, _Order]:
        form = compiled(self._build(connection.dialect, size), connection.dialect)
        return form.string, _order(list(form.positiontup or ())[: self._width])

    def _repeated(self, connection: Connection, size: int) -> tuple[str, _Order] | None:
        """Repeat the one row's question marks, as SQLAlchemy's own insertmanyvalues does.

        Compiling hundreds of rows takes tens of milliseconds a statement. Where two rows compiled
        are not one row repeated (numbered parameters), there is no short way.
        """
        if size <= 2:
            return None
        (one, order), (two, _) = self._form(connection, 1), self._form(connection, 2)
        row = "(" + ", ".join("?" * self._width) + ")"
        if one.count(row) != 1 or one.replace(row, f"{row}, {row}") != two:
            return None
        return one.replace(row, ", ".join([row] * size)), order


_Order = Callable[[Values], Values] | None


def _order(names: list[str]) -> _Order:
    """Return how to put a row in the statement's order, which is that of the table's columns."""
    if not all(name.startswith("r0_") for name in names):
        return None
    places = [int(name.removeprefix("r0_")) for name in names]
    return None if places == list(range(len(places))) else itemgetter(*places)


def _given(table: Table, names: Sequence[str], size: int) -> CTE:
    """Return rows of parameters as a table, so that the database looks each of them up."""
    columns = [column(name, table.c[name].type) for name in names]
    rows = [tuple(_parameter(f"r{row}_{at}") for at in range(len(names))) for row in range(size)]
    return values(*columns, name="given").data(rows).cte("given")


def _is_one_of(table: Table, key: Sequence[str], size: int) -> ColumnElement[bool]:
    given = _given(table, key, size)
    # SQLite uses no index for rows of untyped values: it can't know how they compare.
    typed = select(*[cast_to(given.c[name], table.c[name].type) for name in key])
    return tuple_(*[table.c[name] for name in key]).in_(typed)


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

    def _build(self, dialect: Dialect, size: int) -> ClauseElement:
        statement: Any = differences.insert(dialect, self._table).values(
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
        return self._compiled.run(connection, rows)[1]

    def _build(self, dialect: Dialect, size: int) -> ClauseElement:
        del dialect
        names = (*self._key, *self._moving)
        source = _given(self._table, names, size)
        statement = update(self._table).values({name: source.c[name] for name in self._moving})
        return statement.where(*[self._table.c[name] == source.c[name] for name in self._key])


class Pick:
    """SELECT of many rows by their keys, in no order."""

    def __init__(self, table: Table, key: Sequence[str], columns: Sequence[str]) -> None:
        self._table, self._key, self._columns = table, key, columns
        self._compiled = _Compiled(len(key), self._build)

    def run(self, connection: Connection, keys: Sequence[Values]) -> list[Values]:
        """Return the rows that are there."""
        return self._compiled.run(connection, keys)[0]

    def _build(self, dialect: Dialect, size: int) -> ClauseElement:
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

    def _build(self, dialect: Dialect, size: int) -> ClauseElement:
        del dialect
        return delete(self._table).where(_is_one_of(self._table, self._key, size))


class Query:
    """One fixed statement with named parameters."""

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._texts: dict[str, tuple[str, list[str], dict[str, Any]]] = {}

    def run(self, connection: Connection, **parameters: Any) -> list[Values]:
        """Return its rows."""
        known = self._texts.get(connection.dialect.name)
        if known is None:
            form = compiled(self._statement, connection.dialect)
            names = form.positiontup or []
            known = (form.string, list(names), dict(form.params))
            self._texts[connection.dialect.name] = known
        sql, names, preset = known
        given = {**preset, **parameters} if preset else parameters
        return differences.execute(connection, sql, tuple(given[name] for name in names))[0]

    def first(self, connection: Connection, **parameters: Any) -> Values | None:
        """Return its first row, or None."""
        found = self.run(connection, **parameters)
        return found[0] if found else None


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(name)


def compiled(statement: ClauseElement, dialect: Dialect) -> SQLCompiler:
    """Return the statement's text for a database, lists written out."""
    form = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(form, SQLCompiler)
    return form
