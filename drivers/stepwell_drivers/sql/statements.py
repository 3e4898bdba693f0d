"""Statements over many rows at once, written by SQLAlchemy, compiled once and kept as text.

One statement with 64 rows costs a fraction of 64 statements; and SQLite runs it outside Python's lock
as a whole, so that the event loop goes on meanwhile (row by row, each row would queue for the lock
behind it). Counts above 16 are cut to multiples of 16: few different texts, each prepared once.

Postgres is given one array for each column instead, so one text serves any number of rows; and several
writes go in one statement (`together`), because there each statement is a journey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
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
    literal_column,
    select,
    tuple_,
    update,
    values,
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
from stepwell_drivers.sql.schema import runs

_STEP = 16
_RUN = ("tenant_id", "run_id")


class _Compiled:
    """A statement's text by database and number of rows."""

    def __init__(self, width: int, build: Callable[[Dialect, int], Any]) -> None:
        room = min(differences.PARAMETERS_MAX // width, differences.ROWS_AT_ONCE_MAX)
        self._most = room - room % _STEP
        self._width = width
        self._build = build
        self._forms: dict[tuple[str, int], tuple[str, _Order]] = {}

    def run(self, connection: Link, rows: Sequence[Values]) -> tuple[list[Values], int]:
        """Run it over all rows, in pieces of few different lengths.

        Returns what the database answered, and how many rows it changed.
        """
        if not rows:
            return [], 0
        if is_postgres(connection.dialect):
            sql, _ = self._form(connection, 0)
            return differences.execute(connection, sql, arrays(rows))
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

    def _form(self, connection: Link, size: int) -> tuple[str, _Order]:
        key = (connection.dialect.name, size)
        if key not in self._forms:
            self._forms[key] = self._repeated(connection, size) or self._whole(connection, size)
        return self._forms[key]

    def _whole(self, connection: Link, size: int) -> tuple[str, _Order]:
        form = compiled(self._build(connection.dialect, size), connection.dialect)
        names = list(form.positiontup or ())
        if not size:
            assert names == [f"c{at}" for at in range(self._width)], names
            return form.string, None
        return form.string, _order(names[: self._width])

    def _repeated(self, connection: Link, size: int) -> tuple[str, _Order] | None:
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


def arrays(rows: Sequence[Values]) -> list[Any]:
    """Return the rows' columns, each as one array; numbers as the text of one.

    asyncpg looks at each number of an array twice before it encodes it: a third of its time here.
    """
    return [
        "{" + ",".join(map(str, column)) + "}" if type(column[0]) is int else list(column)
        for column in zip(*rows, strict=True)
    ]


def _array_of(name: str, kind: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return the parameter that a column's values are given in: plain types, no collation."""
    if isinstance(kind, BigInteger):
        return cast_to(bindparam(name, type_=Text()), ARRAY(BigInteger()))
    if isinstance(kind, LargeBinary):
        return bindparam(name, type_=ARRAY(LargeBinary()))
    own = kind.dialect_impl(_POSTGRES)
    if isinstance(own, JSONB):
        # As texts: asyncpg knows those by itself, and asks nobody how to write each.
        return cast_to(bindparam(name, type_=ARRAY(Text())), ARRAY(JSONB()))
    if isinstance(own, UUID):
        return cast_to(bindparam(name, type_=ARRAY(Text())), ARRAY(UUID()))
    return bindparam(name, type_=ARRAY(JSON() if isinstance(own, JSON) else Text()))


_POSTGRES: Dialect = PGDialect_asyncpg()


def _given(
    dialect: Dialect, table: Table, names: Sequence[str], size: int, prefix: str = ""
) -> FromClause:
    """Return rows of parameters as a table, so that the database looks each of them up."""
    return _given_as(dialect, {name: table.c[name].type for name in names}, size, prefix)


def _given_as(
    dialect: Dialect, types: dict[str, TypeEngine[Any]], size: int, prefix: str = ""
) -> FromClause:
    names = list(types)
    columns = [column(name, kind) for name, kind in types.items()]
    if is_postgres(dialect):
        given = [_array_of(f"{prefix}c{at}", types[name]) for at, name in enumerate(names)]
        return func.unnest(*given).table_valued(*columns).render_derived(name=f"{prefix}given")
    rows = [tuple(_parameter(f"r{row}_{at}") for at in range(len(names))) for row in range(size)]
    return values(*columns, name="given").data(rows).cte("given")


def _is_one_of(
    dialect: Dialect, table: Table, key: Sequence[str], size: int, prefix: str = ""
) -> list[ColumnElement[bool]]:
    if "run_id" in key and "run_key" in table.c:
        return _is_one_of_runs(dialect, table, key, size)
    given = _given(dialect, table, key, size, prefix)
    if is_postgres(dialect):
        return [table.c[name] == given.c[name] for name in key]
    # SQLite uses no index for rows of untyped values: it can't know how they compare.
    typed = select(*[cast_to(given.c[name], table.c[name].type) for name in key])
    return [tuple_(*[table.c[name] for name in key]).in_(typed)]


def _is_one_of_runs(
    dialect: Dialect, table: Table, key: Sequence[str], size: int
) -> list[ColumnElement[bool]]:
    """Match rows of runs that are given by tenant and id, in a table that has their numbers."""
    types = {name: (runs if name in _RUN else table).c[name].type for name in key}
    given = _given_as(dialect, types, size)
    named = [runs.c[name] == given.c[name] for name in _RUN]
    others = [name for name in key if name not in _RUN]
    if is_postgres(dialect):
        same = [table.c[name] == given.c[name] for name in others]
        return [*named, table.c.run_key == runs.c.seq, *same]
    number = select(runs.c.seq).where(*named).scalar_subquery()
    typed = select(number, *[cast_to(given.c[name], types[name]) for name in others])
    return [tuple_(table.c.run_key, *[table.c[name] for name in others]).in_(typed)]


class _Write:
    """A statement that changes rows and answers with how many."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.compiled = _Compiled(len(columns), self.build)

    def run(self, connection: Link, rows: Sequence[Values]) -> int:
        """Write the rows, each key once; return how many were changed."""
        return together(connection, [(self, rows)])[0]

    def build(self, dialect: Dialect, size: int, prefix: str = "") -> Any:
        """Return the statement for so many rows."""
        raise NotImplementedError


class Insert(_Write):
    """INSERT of many rows. With a key: a row of the same key takes `replaced`.

    With nothing to replace, a row that conflicts with another by any unique index is left out.
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
        super().__init__(columns)

    def build(self, dialect: Dialect, size: int, prefix: str = "") -> Any:
        statement = self._plain(dialect, size, prefix)
        if not self._key:
            return statement
        if not self._replaced:
            return statement.on_conflict_do_nothing()
        taken = {name: statement.excluded[name] for name in self._replaced}
        return statement.on_conflict_do_update(index_elements=self._key, set_=taken)

    def _plain(self, dialect: Dialect, size: int, prefix: str) -> Any:
        statement: Any = differences.insert(dialect, self._table)
        if is_postgres(dialect):
            given = _given(dialect, self._table, self._columns, size, prefix)
            return statement.from_select(self._columns, select(*given.c))
        return statement.values(
            [
                {name: bindparam(f"r{row}_{at}") for at, name in enumerate(self._columns)}
                for row in range(size)
            ]
        )


class InsertOrLock(Insert):
    """INSERT of many rows; a row of the same key stays as it is. Either is locked.

    In Postgres no other statement answers, whatever others write meanwhile, with the row that stands: one
    that does nothing on a conflict returns nothing, and doesn't see a row that is younger than itself.
    """

    def read(self, connection: Link, rows: Sequence[Values]) -> list[Values]:
        """Write the rows, each key once; return what stands under their keys."""
        return self.compiled.run(connection, rows)[0]

    def build(self, dialect: Dialect, size: int, prefix: str = "") -> Any:
        same = {self._columns[-1]: self._table.c[self._columns[-1]]}
        statement = self._plain(dialect, size, prefix)
        statement = statement.on_conflict_do_update(index_elements=self._key, set_=same)
        return statement.returning(*[self._table.c[name] for name in self._columns])


class Update(_Write):
    """UPDATE of many rows by their keys: rows of key and moving columns."""

    def __init__(self, table: Table, key: Sequence[str], moving: Sequence[str]) -> None:
        self._table, self._key, self._moving = table, key, moving
        super().__init__((*key, *moving))

    def build(self, dialect: Dialect, size: int, prefix: str = "") -> Any:
        names = (*self._key, *self._moving)
        source = _given(dialect, self._table, names, size, prefix)
        statement = update(self._table).values({name: source.c[name] for name in self._moving})
        return statement.where(*[self._table.c[name] == source.c[name] for name in self._key])


class Delete(_Write):
    """DELETE of many rows by their keys."""

    def __init__(self, table: Table, key: Sequence[str]) -> None:
        self._table, self._key = table, key
        super().__init__(key)

    def build(self, dialect: Dialect, size: int, prefix: str = "") -> Any:
        return delete(self._table).where(*_is_one_of(dialect, self._table, self._key, size, prefix))


class Pick:
    """SELECT of many rows by their keys, in no order.

    A table whose rows have the number of their run may be asked by tenant and id of the run, too.

    `lock`: where several write at once (Postgres), the rows are locked, in the order of their keys.
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
        self.compiled = _Compiled(len(key), self.build)

    def run(self, connection: Link, keys: Sequence[Values]) -> list[Values]:
        """Return the rows that are there."""
        return self.compiled.run(connection, keys)[0]

    def build(self, dialect: Dialect, size: int) -> ClauseElement:
        """Return the statement for so many rows."""
        columns = [self._table.c[name] for name in self._columns]
        found = select(*columns).where(*_is_one_of(dialect, self._table, self._key, size))
        if self._lock is None or not is_postgres(dialect):
            return found
        ordered = found.order_by(*[self._table.c[name] for name in self._key])
        return ordered.with_for_update(of=self._table, **self._lock)


# --- several at once -----------------------------------------------------------------------------

_texts: dict[tuple[_Write, ...], str] = {}


def together(connection: Link, writes: Sequence[tuple[_Write, Sequence[Values]]]) -> list[int]:
    """Write all of it, and return how many rows each statement changed.

    None of them sees what another one does, and no two may change the same row: then one statement
    does all of it in Postgres, in one journey. SQLite does one after another.
    """
    if not is_postgres(connection.dialect):
        return [write.compiled.run(connection, rows)[1] for write, rows in writes]
    asked = [(at, write, rows) for at, (write, rows) in enumerate(writes) if rows]
    counts = [0] * len(writes)
    if not asked:
        return counts
    parts = tuple(write for _, write, _ in asked)
    if parts not in _texts:
        _texts[parts] = _one_of(parts, connection.dialect)
    values = [array for _, _, rows in asked for array in arrays(rows)]
    (found,), _ = differences.execute(connection, _texts[parts], values)
    for (at, _, _), count in zip(asked, found, strict=True):
        counts[at] = count
    return counts


def _one_of(parts: Sequence[_Write], dialect: Dialect) -> str:
    """Return one statement that does all of them, and counts."""
    counts: list[Any] = []
    for at, write in enumerate(parts):
        statement = write.build(dialect, 0, f"w{at}_")
        # A name of its own: two of them may have the same columns.
        done = statement.returning(literal_column("1").label("one")).cte(f"w{at}")
        counts.append(select(func.count()).select_from(done).scalar_subquery().label(f"n{at}"))
    form = compiled(select(*counts), dialect)
    names = [
        (int(name[1 : name.index("_")]), int(name[name.index("_c") + 2 :]))
        for name in form.positiontup or ()
    ]
    # Numbered in the order in which the arrays are given.
    assert names == sorted(names), names
    return form.string


class Query:
    """One fixed statement with named parameters."""

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement
        self._texts: dict[str, tuple[str, list[str], dict[str, Any]]] = {}

    def run(self, connection: Link, **parameters: Any) -> list[Values]:
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

    def first(self, connection: Link, **parameters: Any) -> Values | None:
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
