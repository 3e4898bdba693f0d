"""Searches across runs: open questions, and runs that ended long ago.

Each search reads its own index and costs what it returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from heapq import merge
from itertools import islice
from typing import Any

from sqlalchemy import BindParameter, bindparam, func, literal_column, select, text, tuple_

from stepwell.core.port import EndedQuery, EndedRun, FoundQuestion, Page, QuestionQuery
from stepwell.core.records.model import Question
from stepwell.core.records.states import RunStatus
from stepwell_drivers.sql import bodies, schema
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.pages import About, cursor_of, cut, place_of
from stepwell_drivers.sql.reads import number_of_run
from stepwell_drivers.sql.statements import Pick, Query

ENDED_AT_ONCE = 200
"""The number of rows that are read at a time for each status."""

# --- questions ------------------------------------------------------------------------------

_questions = schema.questions.c
_asker = select(schema.runs.c.run_id).where(schema.runs.c.run_key == _questions.run_key)
_in_order = (
    select(_questions.seq, _asker.scalar_subquery().label("run_id"), _questions.body)
    .where(_questions.seq > bindparam("after"))
    .order_by(_questions.seq)
    .limit(bindparam("many"))
)
_questions_of_run = Query(
    _in_order.where(schema.listed(_questions.run_key), _questions.run_key == number_of_run())
)
# As a literal, because a parameter would rule out the partial index.
_open_questions = Query(
    _in_order.where(
        _questions.tenant_id == bindparam("tenant_id"),
        _questions.status == literal_column("'OPEN'"),
    )
)
_pick_questions = Pick(schema.questions, ("run_key", "question_id"), ("question_id", "body"))
_number = Query(select(number_of_run()))


def questions(connection: Link, query: QuestionQuery, _about: About) -> Page[FoundQuestion]:
    """Return questions in the order in which they were created."""
    place: dict[str, Any] = {
        "tenant_id": query.tenant_id,
        "after": place_of(query.cursor, int, 0),
        "many": max(query.limit, 1) + 1,
    }
    if query.run_id:
        rows = _questions_of_run.run(connection, **place, run_id=query.run_id)
    else:
        rows = _open_questions.run(connection, **place)
    page, more = cut(rows, query.limit)
    found = [FoundQuestion(run_id=row[1], question=bodies.question_of(row[2])) for row in page]
    return Page(items=tuple(found), cursor=cursor_of(page[-1][0]) if more else "")


def read_questions(
    connection: Link, tenant_id: str, run_id: str, question_ids: Sequence[str]
) -> list[Question]:
    """Return these questions, in their order."""
    ((run_key,),) = _number.run(connection, tenant_id=tenant_id, run_id=run_id)
    if run_key is None:
        return []
    wanted = [(run_key, name) for name in dict.fromkeys(question_ids)]
    found = {row[0]: bodies.question_of(row[1]) for row in _pick_questions.run(connection, wanted)}
    return [found[name] for name in question_ids if name in found]


# --- ended runs ------------------------------------------------------------------------------------

_runs = schema.runs.c
_ended = text(schema.ENDED)
"""Literally the condition of the partial indexes, which would otherwise not be used."""
_ORDER = ("ended_us", "tenant_id", "run_id")
_next_tenant = Query(
    select(func.min(_runs.tenant_id)).where(
        schema.listed(_runs.tenant_id), _runs.tenant_id > bindparam("after")
    )
)


@cache
def _of_status(*exact: str) -> Query:
    """Select ended runs in the order of their ends; `exact` columns must match."""
    # Columns that are equal in all rows are left out, or else a page's start would not be found by
    # index.
    order = [name for name in _ORDER if name not in exact]
    place: list[BindParameter[Any]] = [bindparam(f"after_{name}") for name in order]
    return Query(
        select(*[_runs[name] for name in (*_ORDER, "version", "status")])
        .where(
            _ended,
            *[_runs[name] == bindparam(name) for name in ("status", *exact)],
            _runs.ended_us <= bindparam("until_us"),
            tuple_(*[_runs[name] for name in order]) > tuple_(*place),
        )
        .order_by(*[_runs[name] for name in order])
        .limit(bindparam("many"))
    )


def ended(connection: Link, query: EndedQuery, about: About) -> Page[EndedRun]:
    """Return ended runs, the earliest ended first."""
    until_us = about.clock(connection) - max(query.older_ms, 0) * 1_000
    limit = max(query.limit, 1)
    lists = [
        _ended_runs(connection, status, exact, until_us, limit)
        for exact in _exact(connection, query)
        for status in dict.fromkeys(query.statuses)
    ]
    return Page(
        items=tuple(
            EndedRun(
                tenant_id=tenant_id,
                run_id=run_id,
                version=version,
                status=RunStatus(status),
                ended_us=ended_us,
            )
            for ended_us, tenant_id, run_id, version, status in islice(merge(*lists), limit)
        )
    )


def _exact(connection: Link, query: EndedQuery) -> Iterator[dict[str, str]]:
    """Yield the values that must match; a pipeline of every tenant is searched tenant by tenant."""
    pipeline = {"pipeline_id": query.pipeline_id} if query.pipeline_id else {}
    if query.tenant_id or not pipeline:
        tenant = {"tenant_id": query.tenant_id} if query.tenant_id else {}
        yield {**tenant, **pipeline}
        return
    tenant_id = ""
    while (row := _next_tenant.first(connection, after=tenant_id)) and row[0] is not None:
        tenant_id = str(row[0])
        yield {"tenant_id": tenant_id, **pipeline}


def _ended_runs(
    connection: Link, status: RunStatus, exact: dict[str, str], until_us: int, limit: int
) -> Iterator[Values]:
    many = min(limit, ENDED_AT_ONCE)
    matching = _of_status(*exact)
    given = {**exact, "status": status.value, "until_us": until_us, "many": many}
    last: Values = (-1, "", "")
    while True:
        place = {f"after_{name}": value for name, value in zip(_ORDER, last, strict=False)}
        rows = matching.run(connection, **given, **place)
        yield from rows
        if len(rows) < many:
            return
        last = rows[-1]
