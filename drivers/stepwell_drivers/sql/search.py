"""Searches across runs: open questions, and runs that ended long ago.

Each search reads its own index and costs what it returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import bindparam, exists, literal_column, select, text

from stepwell.core.port import EndedQuery, EndedRun, FoundQuestion, Page, QuestionQuery
from stepwell.core.records.model import Question
from stepwell.core.records.states import RunStatus
from stepwell_drivers.sql import bodies, schema
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.pages import About, cursor_of, cut, place_of
from stepwell_drivers.sql.reads import number_of, number_of_run
from stepwell_drivers.sql.statements import Pick, Query

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
    run_key = number_of(connection, tenant_id, run_id)
    if run_key is None:
        return []
    wanted = [(run_key, name) for name in dict.fromkeys(question_ids)]
    found = {row[0]: bodies.question_of(row[1]) for row in _pick_questions.run(connection, wanted)}
    return [found[name] for name in question_ids if name in found]


# --- ended runs ------------------------------------------------------------------------------------

_runs = schema.runs.c
_forks = schema.runs.alias("forks")
_ended = text(schema.ENDED)
"""Literally the condition of the partial indexes, which would otherwise not be used."""
_ORDER = ("ended_us", "tenant_id", "run_id")


@cache
def _of_status(*exact: str) -> Query:
    """Select ended runs without forks in the order of their ends; `exact` columns must match."""
    return Query(
        select(_runs.ended_us, _runs.tenant_id, _runs.run_id, _runs.version, _runs.status)
        .where(
            _ended,
            *[_runs[name] == bindparam(name) for name in ("status", *exact)],
            _runs.ended_us <= bindparam("until_us"),
            ~exists().where(
                _forks.c.tenant_id == _runs.tenant_id,
                _forks.c.parent_run_id == _runs.run_id,
                _forks.c.parent_run_id != literal_column("''"),
            ),
        )
        # Columns that must match are left out, or else no index would have this order.
        .order_by(*[_runs[name] for name in _ORDER if name not in exact])
        .limit(bindparam("many"))
    )


def ended(connection: Link, query: EndedQuery, about: About) -> Page[EndedRun]:
    """Return ended runs without forks, the earliest ended first."""
    named = {"tenant_id": query.tenant_id, "pipeline_id": query.pipeline_id}
    exact = {name: value for name, value in named.items() if value}
    matching, many = _of_status(*exact), max(query.limit, 1)
    until_us = about.clock(connection) - max(query.older_ms, 0) * 1_000
    rows: list[Values] = []
    for status in dict.fromkeys(query.statuses):
        place = {"status": status.value, "until_us": until_us}
        rows += matching.run(connection, **exact, **place, many=many)
    return Page(
        items=tuple(
            EndedRun(tenant_id=of, run_id=name, version=at, status=RunStatus(end), ended_us=us)
            for us, of, name, at, end in sorted(rows, key=lambda row: row[:3])[:many]
        )
    )
