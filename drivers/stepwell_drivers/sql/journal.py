"""Pages of journals."""

from __future__ import annotations

from sqlalchemy import ColumnElement, bindparam, func, literal_column, or_, select

from stepwell.core.port import JournalQuery, Page
from stepwell.core.records.journal import StoredEntry
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.columns import Values, payload_of
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.entries import entry_of, step_of
from stepwell_drivers.sql.pages import About, cursor_of, place_of
from stepwell_drivers.sql.reads import number_of
from stepwell_drivers.sql.statements import Pick, Query

_entries = schema.journal_entries.c
_SHOWN = (
    *(_entries.seq, _entries.journal, _entries.generation, _entries.execution_id),
    *(_entries.version, _entries.written_us, _entries.until_us),
    *(_entries.words, func.length(_entries.value).label("size")),
)
_FILTERS: dict[str, ColumnElement[bool]] = {
    "journal": (_entries.step == bindparam("step")) & (_entries.journal == bindparam("journal")),
    "generation": or_(
        _entries.generation == bindparam("generation"),
        (_entries.at_most_once == literal_column("1"))
        & (_entries.generation < bindparam("generation")),
    ),
    "execution_id": _entries.execution_id == bindparam("execution_id"),
    "version": _entries.version <= bindparam("version"),
}
_CONTENT = ("seq", "body", "value_media_type")
_pick_content = Pick(schema.journal_entries, ("seq",), (*_CONTENT, "value"))
_pick_names = Pick(schema.journal_entries, ("seq",), _CONTENT)
_queries: dict[tuple[str, ...], Query] = {}


def _query_for(filters: tuple[str, ...]) -> Query:
    """Return the query for a combination of filters, which is then kept."""
    query = _queries.get(filters)
    if query is None:
        statement = select(*_SHOWN).where(
            _entries.run_key == bindparam("run_key"),
            _entries.seq > bindparam("after"),
            *[_FILTERS[name] for name in filters],
        )
        # Ordered by an expression, because by index on the number a database would read the entries
        # of all runs.
        order = _entries.seq + literal_column("0")
        query = _queries[filters] = Query(statement.order_by(order).limit(bindparam("many")))
    return query


def page(connection: Link, query: JournalQuery, _about: About) -> Page[StoredEntry]:
    """Return entries in the order in which they were written; the last page has a cursor, too."""
    place = place_of(query.cursor, int, 0)
    run_key = number_of(connection, query.tenant_id, query.run_id)
    if run_key is None:
        return Page(cursor=cursor_of(place))
    filters = tuple(name for name in _FILTERS if getattr(query, name))
    given = {name: getattr(query, name) for name in filters}
    if "journal" in given:
        given["step"] = step_of(query.journal)
    rows = _query_for(filters).run(
        connection, run_key=run_key, after=place, many=max(query.limit, 1), **given
    )
    rows = _up_to(rows, query.bytes_limit, names_only=query.names_only)
    # The contents of only those entries that fit are read.
    pick = _pick_names if query.names_only else _pick_content
    contents = {row[0]: row[1:] for row in pick.run(connection, [(row[0],) for row in rows])}
    return Page(
        items=tuple(_stored_of(row, *contents[row[0]]) for row in rows),
        cursor=cursor_of(rows[-1][0] if rows else place),
    )


def _up_to(rows: list[Values], room: int, *, names_only: bool) -> list[Values]:
    """Return the first rows whose entries fit into `room`, at least one."""
    for at, row in enumerate(rows):
        *_, words, size = row
        room -= words + (0 if names_only else size or 0)
        if room < 0 and at:
            return rows[:at]
    return rows


def _stored_of(
    row: Values, body: str, media_type: str | None, data: bytes | None = b""
) -> StoredEntry:
    _, journal, generation, execution_id, version, written_us, until_us, _, size = row
    return StoredEntry(
        entry=entry_of(body, payload_of(media_type, None if size is None else data)),
        journal=journal,
        generation=generation,
        execution_id=execution_id or "",
        version=version,
        written_us=written_us,
        until_us=until_us or 0,
        size=size or 0,
    )
