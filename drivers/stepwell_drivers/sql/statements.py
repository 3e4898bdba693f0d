"""Statements over many rows, written by SQLAlchemy, compiled once and kept as text.

In SQLite a statement runs for one row after another. In Postgres it takes one array for each
column, so that any number of rows needs one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    BindParameter,
    ClauseElement,
    ColumnElement,
    FromClause,
    Table,
    bindparam,
    column,
    delete,
    func,
    select,
    update,
)
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB, UUID
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import BigInteger, LargeBinary, Text, TypeEngine

from stepwell_drivers.sql import dialect as differences
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link, is_postgres


class _Statement:
    """A statement over rows of given columns, with its text for each database."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._width = len(names)
        self._numeric = [isinstance(table.c[name].type, BigInteger) for name in names]
        self._texts: dict[str, tuple[str, _Order]] = {}

    def build(self, dialect: Dialect) -> Any:
        """Return the statement: over arrays in Postgres, over one row in SQLite."""
        raise NotImplementedError

    def text(self, connection: Link) -> tuple[str, _Order]:
        """Return the text, and the order of a row's values in its parameters."""
        dialect = connection.dialect
        known = self._texts.get(dialect.name)
        if known is None:
            form = compiled(self.build(dialect), dialect)
            places = [int(name.removeprefix("c")) for name in form.positiontup or ()]
            is_in_order = places == list(range(self._width))
            assert is_in_order or not is_postgres(dialect), form.positiontup
            known = (form.string, None if is_in_order else itemgetter(*places))
            self._texts[dialect.name] = known
        return known

    def fetch(self, connection: Link, rows: Sequence[Values]) -> list[Values]:
        """Run the statement over all rows; return the rows that it returns."""
        if not rows:
            return []
        sql, order = self.text(connection)
        if is_postgres(connection.dialect):
            return differences.execute(connection, sql, self.arrays(rows))
        given = rows if order is None else map(order, rows)
        return differences.fetch_each(connection, sql, given)

    def arrays(self, rows: Sequence[Values]) -> list[Any]:
        """Return the rows' columns for Postgres, each as one array; an array of numbers as text.

        asyncpg checks each number of an array twice before encoding it, which took a third of its
        time here.
        """
        return [
            _array_text(column) if numeric else list(column)
            for numeric, column in zip(self._numeric, zip(*rows, strict=True), strict=True)
        ]


_Order = Callable[[Values], Values] | None


def _array_text(numbers: Values) -> str:
    return "{" + ",".join("NULL" if one is None else str(one) for one in numbers) + "}"


def _array_of(name: str, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return the parameter of a column's values, of a plain type without collation."""
    if isinstance(kind, BigInteger):
        return cast_to(bindparam(name, type_=Text()), ARRAY(BigInteger()))
    if isinstance(kind, LargeBinary):
        return bindparam(name, type_=ARRAY(LargeBinary()))
    own = kind.dialect_impl(_POSTGRES)
    if isinstance(own, JSONB):
        # As texts, because asyncpg can encode those without asking the server for the type.
        return cast_to(bindparam(name, type_=ARRAY(Text())), ARRAY(JSONB()))
    if isinstance(own, UUID):
        return cast_to(bindparam(name, type_=ARRAY(Text())), ARRAY(UUID()))
    return bindparam(name, type_=ARRAY(JSON() if isinstance(own, JSON) else Text()))


_POSTGRES: Dialect = PGDialect_asyncpg()


def _given(types: dict[str, TypeEngine[Any]]) -> FromClause:
    """Return the parameters as a table of rows, so that Postgres looks each row up."""
    columns = [column(name, kind) for name, kind in types.items()]
    given = [_array_of(f"c{at}", kind) for at, kind in enumerate(types.values())]
    return func.unnest(*given).table_valued(*columns).render_derived(name="given")


def _types(table: Table, names: Iterable[str]) -> dict[str, TypeEngine[Any]]:
    return {name: table.c[name].type for name in names}


def parameters(names: Iterable[str]) -> dict[str, BindParameter[Any]]:
    """Return the parameters for one row's values."""
    return {name: bindparam(f"c{at}") for at, name in enumerate(names)}


def _is_one_of(dialect: Dialect, table: Table, key: Sequence[str]) -> list[ColumnElement[bool]]:
    given = _given(_types(table, key)).c if is_postgres(dialect) else parameters(key)
    return [table.c[name] == given[name] for name in key]


class _Write(_Statement):
    """A statement that changes rows."""

    def run(self, connection: Link, rows: Sequence[Values]) -> None:
        """Write the rows, each key once."""
        if is_postgres(connection.dialect):
            self.fetch(connection, rows)
        else:
            self.count(connection, rows)

    def count(self, connection: Link, rows: Sequence[Values]) -> int:
        """Write the rows, each key once, in SQLite; return how many were changed."""
        if not rows:
            return 0
        sql, order = self.text(connection)
        given = rows if order is None else map(order, rows)
        return differences.execute_each(connection, sql, given)


class Insert(_Write):
    """INSERT of many rows; with a key, a stored row of the same key takes over the columns
    `replaced`.

    Without `replaced`, a row that conflicts with another in any unique index is left out.
    """

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
        super().__init__(table, columns)

    def build(self, dialect: Dialect) -> Any:
        statement = self.plain(dialect)
        if not self._key:
            return statement
        if not self._replaced:
            return statement.on_conflict_do_nothing()
        taken = self.taken(statement.excluded)
        return statement.on_conflict_do_update(index_elements=self._key, set_=taken)

    def taken(self, excluded: Any) -> dict[str, Any]:
        """Return the columns that a stored row takes over from the new row, which is named `excluded`."""
        return {name: excluded[name] for name in self._replaced}

    def plain(self, dialect: Dialect) -> Any:
        """Return the statement without its handling of conflicts."""
        statement: Any = differences.insert(dialect, self._table)
        if is_postgres(dialect):
            given = _given(_types(self._table, self._columns)).c
            return statement.from_select(self._columns, select(*given))
        return statement.values(parameters(self._columns))


class InsertOrLock(Insert):
    """INSERT of many rows; a stored row of the same key stays unchanged. Either row is locked.

    In Postgres only this statement returns the stored row in spite of concurrent writes: DO NOTHING
    returns no row, and doesn't see rows that are newer than the statement.
    """

    def read(self, connection: Link, rows: Sequence[Values]) -> list[Values]:
        """Write the rows, each key once; return the rows stored under their keys."""
        return self.fetch(connection, rows)

    def build(self, dialect: Dialect) -> Any:
        same = {self._columns[-1]: self._table.c[self._columns[-1]]}
        statement = self.plain(dialect)
        statement = statement.on_conflict_do_update(index_elements=self._key, set_=same)
        return statement.returning(*[self._table.c[name] for name in self._columns])


class Update(_Write):
    """UPDATE of many rows by their keys: each row has the key and the changing columns."""

    def __init__(self, table: Table, key: Sequence[str], moving: Sequence[str]) -> None:
        self._table, self._key, self._moving = table, key, moving
        super().__init__(table, (*key, *moving))

    def build(self, dialect: Dialect) -> Any:
        names = (*self._key, *self._moving)
        if is_postgres(dialect):
            given: Any = _given(_types(self._table, names)).c
        else:
            given = parameters(names)
        statement = update(self._table).values({name: given[name] for name in self._moving})
        return statement.where(*[self._table.c[name] == given[name] for name in self._key])


class Delete(_Write):
    """DELETE of many rows by their keys."""

    def __init__(self, table: Table, key: Sequence[str]) -> None:
        self._table, self._key = table, key
        super().__init__(table, key)

    def build(self, dialect: Dialect) -> Any:
        return delete(self._table).where(*_is_one_of(dialect, self._table, self._key))


class Pick(_Statement):
    """SELECT of many rows by their keys, in no order.

    With `lock` the rows are locked in the order of their keys, in Postgres.
    """

    def __init__(
        self,
        table: Table,
        key: Sequence[str],
        columns: Sequence[str],
        *,
        lock: dict[str, Any] | None = None,
    ) -> None:
        self._table, self._key, self._columns, self._lock = table, key, columns, lock
        super().__init__(table, key)

    def run(self, connection: Link, keys: Sequence[Values]) -> list[Values]:
        """Return the rows that exist."""
        return self.fetch(connection, keys)

    def build(self, dialect: Dialect) -> Any:
        columns = [self._table.c[name] for name in self._columns]
        found = select(*columns).where(*_is_one_of(dialect, self._table, self._key))
        if self._lock is None or not is_postgres(dialect):
            return found
        ordered = found.order_by(*[self._table.c[name] for name in self._key])
        return ordered.with_for_update(of=self._table, **self._lock)


class Query:
    """One fixed statement with named parameters."""

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._texts: dict[str, tuple[str, list[str], dict[str, Any]]] = {}

    def run(self, connection: Link, **parameters: Any) -> list[Values]:
        """Return the query's rows."""
        known = self._texts.get(connection.dialect.name)
        if known is None:
            form = compiled(self._statement, connection.dialect)
            names = form.positiontup or []
            known = (form.string, list(names), dict(form.params))
            self._texts[connection.dialect.name] = known
        sql, names, preset = known
        given = {**preset, **parameters} if preset else parameters
        return differences.execute(connection, sql, tuple(given[name] for name in names))

    def first(self, connection: Link, **parameters: Any) -> Values | None:
        """Return the query's first row, or None."""
        found = self.run(connection, **parameters)
        return found[0] if found else None


def compiled(statement: ClauseElement, dialect: Dialect) -> SQLCompiler:
    """Return the statement's text for a database, with lists expanded."""
    form = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(form, SQLCompiler)
    return form
