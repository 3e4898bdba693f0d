"""Writes the rows of a group of commits: one statement for each list.

SQLite rewrites an index for every column in SET, even if its value stays. Separate statements for
runs that keep their status, and for executions that end, therefore set only what changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import and_, case, literal_column, null, select
from sqlalchemy.engine import Dialect

from stepwell.core.records.model import Plan
from stepwell_drivers.sql import rows as cols
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import unplanned
from stepwell_drivers.sql.bodies import plan_of, uuid_drawn
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link, insert
from stepwell_drivers.sql.rows import Rows
from stepwell_drivers.sql.sqlite.run_cache import Facts
from stepwell_drivers.sql.statements import Delete, Insert, Pick, Update, parameters

_UUID_AT = cols.RUN_NEW.index("uuid")
_COMMIT_AT = cols.RUN_NEW.index("commit_id")
_TASK_KEY = ("run_key", "task_id")
_DEFINED = (*_TASK_KEY, "revision")
_BROUGHT = ("session_backend", "session_id", "progress_media_type", "progress")
"""The columns of a lease's heartbeats."""
_ENDED = ("run_key", "execution_id", "status", "version", "body")
_OF_OPEN = cols.EXECUTION[cols.EXECUTION.index("tenant_id") :]
_LANE = tuple(name for name in _OF_OPEN if name not in {"tenant_id", *cols.LEASE})
_WHILE_OPEN = (*_OF_OPEN, *_BROUGHT)
"""The columns of an execution that are used only until it ends."""
_ended_of = itemgetter(*map(cols.EXECUTION.index, _ENDED))
_status_of = itemgetter(cols.EXECUTION.index("status"))
_RARE = ("result_media_type", "prompt", "response")
"""The columns of an outcome that are mostly NULL."""
_NO_RARE = (None,) * len(_RARE)
_rare_of = itemgetter(*map(cols.OUTCOME.index, _RARE))
_LISTED_AT = (cols.RUN_MOVED.index("status"), cols.RUN_MOVED.index("ended_us"))
_STAYING = tuple(name for name in cols.RUN_MOVING if name not in {"status", "ended_us"})
_staying_of = itemgetter(*map(cols.RUN_MOVED.index, ("run_key", *_STAYING)))


class _PutTasks(Insert):
    """INSERT or UPDATE of tasks that `task_specs` has with their revision; others are left out.

    The ids of the others become NULL, which a key column refuses. Selecting no row would cost
    SQLite twice as much.
    """

    def plain(self, dialect: Dialect) -> Any:
        given: dict[str, Any] = dict(parameters(cols.TASK))
        specs = schema.task_specs.c
        same = [specs[name] == given[name] for name in _DEFINED]
        defined = select(specs.task_id).where(*same).scalar_subquery()
        statement = insert(dialect, schema.tasks).prefix_with("OR IGNORE").inline()
        return statement.values(given | {"task_id": defined})


class _PutExecutions(Insert):
    """INSERT or UPDATE of executions; those that are still leased keep their lease."""

    def taken(self, excluded: Any) -> dict[str, Any]:
        here = schema.executions.c
        goes_on = and_(
            excluded.token.is_(None),
            excluded.status.in_([literal_column("'LEASED'"), literal_column("'UNKNOWN_OUTCOME'")]),
        )
        kept = (*cols.LEASE, *_BROUGHT)
        return {name: excluded[name] for name in self._replaced if name not in kept} | {
            name: case((goes_on, here[name]), else_=excluded[name]) for name in kept
        }


class _Fitting:
    """INSERT or UPDATE of rows without the columns that are NULL in all rows.

    Python's sqlite3 takes several times as long for None as for a text, because it first looks for
    an adapter.
    """

    def __init__(
        self,
        build: Callable[[Sequence[str]], Insert],
        columns: Sequence[str],
        *,
        without: Collection[str],
    ) -> None:
        kept = [name for name in columns if name not in without]
        self._insert = build(kept)
        self._kept_of = itemgetter(*map(columns.index, kept))

    def run(self, link: Link, rows: Iterable[Values]) -> None:
        """Write rows that have all columns."""
        self._insert.run(link, list(map(self._kept_of, rows)))


class _EndExecutions(Update):
    """UPDATE of executions that end: clears lane and lease."""

    def build(self, dialect: Dialect) -> Any:
        return super().build(dialect).values({name: null() for name in _WHILE_OPEN})


_insert_runs = Insert(schema.runs, cols.RUN_NEW, key=("tenant_id", "run_id"))
_put_specs = Insert(schema.run_specs, cols.RUN_SPEC, key=("run_key",), replaced=("spec",))
_pick_runs = Pick(schema.runs, ("tenant_id", "run_id"), ("tenant_id", "run_id"))
_move_runs = Update(schema.runs, ("run_key",), cols.RUN_MOVING)
_move_staying_runs = Update(schema.runs, ("run_key",), _STAYING)
_put_plans = Insert(schema.plans, cols.PLAN, key=cols.PLAN[:2], replaced=cols.PLAN[2:])
_put_task_specs = Insert(
    schema.task_specs,
    cols.TASK_SPEC,
    key=_TASK_KEY,
    replaced=[name for name in cols.TASK_SPEC[2:] if name != "number"],
)
_put_tasks = _PutTasks(schema.tasks, cols.TASK, key=_TASK_KEY, replaced=cols.TASK[2:])
_drop_tasks = Delete(schema.tasks, _TASK_KEY)
_pick_task_specs = Pick(schema.task_specs, _DEFINED, _DEFINED)
_pick_plans = Pick(schema.plans, cols.PLAN[:2], (*cols.PLAN[:2], "plan"))


def _put_executions(columns: Sequence[str]) -> Insert:
    return _PutExecutions(
        schema.executions,
        columns,
        key=cols.EXECUTION[:2],
        replaced=(*cols.EXECUTION[3:], *_BROUGHT),
    )


def _put_outcomes(columns: Sequence[str]) -> Insert:
    return Insert(schema.outcomes, columns, key=cols.OUTCOME[:2])


_put_leased = _Fitting(_put_executions, cols.EXECUTION, without=_LANE)
_put_ready = _Fitting(_put_executions, cols.EXECUTION, without=cols.LEASE)
_put_ended = _Fitting(_put_executions, cols.EXECUTION, without=_OF_OPEN)
_put_by_status = {"LEASED": _put_leased, "UNKNOWN_OUTCOME": _put_leased, "READY": _put_ready}
_end_executions = _EndExecutions(schema.executions, _ENDED[:2], _ENDED[2:])
_put_plain_outcomes = _Fitting(_put_outcomes, cols.OUTCOME, without=_RARE)
_put_other_outcomes = _put_outcomes(cols.OUTCOME)
_put_timers = Insert(schema.timers, cols.TIMER, key=cols.TIMER[:2], replaced=cols.TIMER[2:])
_drop_timers = Delete(schema.timers, cols.TIMER[:2])
_put_questions = Insert(
    schema.questions,
    cols.QUESTION,
    key=cols.QUESTION[:2],
    replaced=cols.QUESTION[2:],
)
_insert_messages = Insert(schema.messages, cols.MESSAGE)
_insert_requests = Insert(schema.requests, cols.REQUEST)
_put_sessions = Insert(
    schema.sessions,
    cols.SESSION,
    key=cols.SESSION[:3],
    replaced=cols.SESSION[3:],
)
_insert_checkpoints = Insert(schema.checkpoints, cols.CHECKPOINT)
_insert_commits = Insert(schema.commits, cols.COMMIT)


def write(link: Link, rows: Rows, before: Mapping[int, Facts]) -> None:
    """Write everything; `before` has the stored state of the runs that already existed."""
    if rows.runs:
        _write_new_runs(link, rows.runs)
    _put_specs.run(link, rows.run_specs)
    _write_moved_runs(link, rows.moved_runs, before)
    _put_plans.run(link, rows.plans)
    _put_task_specs.run(link, rows.task_specs)
    if rows.tasks and _put_tasks.count(link, rows.tasks) < len(rows.tasks):
        _write_unplanned(link, rows.tasks)
    _drop_tasks.run(link, rows.dropped_tasks)
    _write_executions(link, rows.executions, before)
    _write_outcomes(link, rows.outcomes)
    _put_timers.run(link, rows.timers)
    _drop_timers.run(link, rows.dropped_timers)
    _put_questions.run(link, rows.questions)
    _insert_messages.run(link, rows.messages)
    _insert_requests.run(link, rows.requests)
    _put_sessions.run(link, rows.sessions)
    _insert_checkpoints.run(link, rows.checkpoints)
    _insert_commits.run(link, rows.commits)


def _write_moved_runs(link: Link, rows: Sequence[Values], before: Mapping[int, Facts]) -> None:
    status_at, ended_at = _LISTED_AT
    staying: list[Values] = []
    turned: list[Values] = []
    for row in rows:
        if (row[status_at], row[ended_at]) == before[row[0]].listed:
            staying.append(_staying_of(row))
        else:
            turned.append(row)
    _move_staying_runs.run(link, staying)
    _move_runs.run(link, turned)


def _write_executions(link: Link, rows: Sequence[Values], before: Mapping[int, Facts]) -> None:
    ended: list[Values] = []
    others: list[Values] = []
    for row in rows:
        run_key, name = row[0], row[1]
        is_open = _status_of(row) in _put_by_status
        if not is_open and run_key in before and before[run_key].tokens.get(name):
            ended.append(_ended_of(row))
        else:
            others.append(row)
    _end_executions.run(link, ended)
    # Rows of a run are inserted in the order of creation, which thus stays the order of their
    # numbers.
    for status, some in groupby(others, _status_of):
        _put_by_status.get(status, _put_ended).run(link, some)


def _write_outcomes(link: Link, rows: Sequence[Values]) -> None:
    plain: list[Values] = []
    others: list[Values] = []
    for row in rows:
        (plain if _rare_of(row) == _NO_RARE else others).append(row)
    _put_plain_outcomes.run(link, plain)
    _put_other_outcomes.run(link, others)


def _write_new_runs(link: Link, rows: Sequence[Values]) -> None:
    if _insert_runs.count(link, rows) == len(rows):
        return
    # A run with another id may have a UUID that begins alike.
    there = {tuple(row) for row in _pick_runs.run(link, [row[1:3] for row in rows])}
    again = [
        (*row[:_UUID_AT], uuid_drawn(*row[1:3], row[_COMMIT_AT]), *row[_UUID_AT + 1 :])
        for row in rows
        if row[1:3] not in there
    ]
    _insert_runs.run(link, again)


def _write_unplanned(link: Link, tasks: Sequence[Values]) -> None:
    """Write the definitions of tasks whose plans are not in the group, and then the tasks."""
    there = {tuple(row) for row in _pick_task_specs.run(link, [row[:3] for row in tasks])}
    missing = [row for row in tasks if row[:3] not in there]
    revisions = list(dict.fromkeys((row[0], row[2]) for row in missing))
    plans: dict[Values, Plan] = {
        (row[0], row[1]): plan_of(row[2]) for row in _pick_plans.run(link, revisions)
    }
    specs = [unplanned(row, plans.get((row[0], row[2])), at) for at, row in enumerate(missing)]
    _put_task_specs.run(link, specs)
    _put_tasks.run(link, missing)
