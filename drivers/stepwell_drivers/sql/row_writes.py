"""Writes the rows of a group: one statement for each list, as many as possible at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, case, exists, literal_column, select

from stepwell.core.records.model import Plan
from stepwell_drivers.sql import rows as forms
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.batch import unplanned
from stepwell_drivers.sql.bodies import plan_of, uuid_drawn
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.rows import Rows
from stepwell_drivers.sql.statements import Delete, Insert, Pick, Update, together
from stepwell_drivers.sql.trouble import Raced

_UUID_AT = forms.RUN_NEW.index("uuid")
_COMMIT_AT = forms.RUN_NEW.index("commit_id")
_TASK_KEY = ("run_key", "task_id")
_DEFINED = (*_TASK_KEY, "revision")
_BROUGHT = ("session_backend", "session_id", "progress_media_type", "progress")
"""The columns that heartbeats of a lease fill."""


class _PutTasks(Insert):
    """INSERT or UPDATE of tasks that `task_specs` has with their revision; the others are left out."""

    def condition(self, given: Any) -> ColumnElement[bool]:
        specs = schema.task_specs.c
        same = [specs[name] == given[name] for name in _DEFINED]
        return exists(select(specs.run_key).where(*same))


class _PutExecutions(Insert):
    """INSERT or UPDATE of executions, of which those that are still leased keep their lease."""

    def taken(self, excluded: Any) -> dict[str, Any]:
        here = schema.executions.c
        goes_on = and_(
            excluded.token.is_(None),
            excluded.status.in_([literal_column("'LEASED'"), literal_column("'UNKNOWN_OUTCOME'")]),
        )
        kept = (*forms.LEASE, *_BROUGHT)
        return {name: excluded[name] for name in self._replaced if name not in kept} | {
            name: case((goes_on, here[name]), else_=excluded[name]) for name in kept
        }


_insert_runs = Insert(schema.runs, forms.RUN_NEW, key=("tenant_id", "run_id"))
_insert_specs = Insert(schema.run_specs, forms.RUN_SPEC)
_pick_runs = Pick(schema.runs, ("tenant_id", "run_id"), ("tenant_id", "run_id"))
_move_runs = Update(schema.runs, ("run_key",), forms.RUN_MOVING)
_put_plans = Insert(schema.plans, forms.PLAN, key=forms.PLAN[:2], replaced=forms.PLAN[2:])
_put_task_specs = Insert(
    schema.task_specs,
    forms.TASK_SPEC,
    key=_TASK_KEY,
    replaced=[name for name in forms.TASK_SPEC[2:] if name != "number"],
)
_put_tasks = _PutTasks(schema.tasks, forms.TASK, key=_TASK_KEY, replaced=forms.TASK[2:])
_drop_tasks = Delete(schema.tasks, _TASK_KEY)
_pick_task_specs = Pick(schema.task_specs, _DEFINED, _DEFINED)
_pick_plans = Pick(schema.plans, forms.PLAN[:2], (*forms.PLAN[:2], "plan"))
_put_executions = _PutExecutions(
    schema.executions,
    forms.EXECUTION,
    key=forms.EXECUTION[:2],
    replaced=(*forms.EXECUTION[2:], *_BROUGHT, "held_until_us"),
)
_put_outcomes = Insert(schema.outcomes, forms.OUTCOME, key=forms.OUTCOME[:2])
_put_timers = Insert(
    schema.timers,
    forms.TIMER,
    key=forms.TIMER[:2],
    replaced=(*forms.TIMER[2:], "held_until_us"),
)
_drop_timers = Delete(schema.timers, forms.TIMER[:2])
_put_inputs = Insert(schema.inputs, forms.INPUT, key=forms.INPUT[:2], replaced=forms.INPUT[2:])
_insert_messages = Insert(schema.messages, forms.MESSAGE)
_insert_requests = Insert(schema.requests, forms.REQUEST)
_put_sessions = Insert(
    schema.sessions, forms.SESSION, key=forms.SESSION[:3], replaced=forms.SESSION[3:]
)
_insert_checkpoints = Insert(schema.checkpoints, forms.CHECKPOINT)
_insert_commits = Insert(schema.commits, forms.COMMIT)


def write(connection: Link, rows: Rows) -> None:
    """Write everything.

    Raises:
        Raced: a run of the same id was created since this group read.
    """
    # Alone and first: of two groups that create the same run, the second fails here.
    insert_runs(connection, rows.runs)
    # What is written to another table by the same statement isn't seen by the tasks.
    _put_task_specs.run(connection, rows.task_specs)
    counts = together(
        connection,
        [
            (_put_tasks, rows.tasks),
            (_insert_specs, rows.run_specs),
            (_move_runs, rows.moved_runs),
            (_put_plans, rows.plans),
            (_drop_tasks, rows.dropped_tasks),
            (_put_executions, rows.executions),
            (_put_outcomes, rows.outcomes),
            (_put_timers, rows.timers),
            (_drop_timers, rows.dropped_timers),
            (_put_inputs, rows.inputs),
            (_insert_messages, rows.messages),
            (_insert_requests, rows.requests),
            (_put_sessions, rows.sessions),
            (_insert_checkpoints, rows.checkpoints),
            (_insert_commits, rows.commits),
        ],
    )
    if counts[0] < len(rows.tasks):
        write_unplanned(connection, rows.tasks)


def insert_runs(connection: Link, rows: Sequence[Values]) -> None:
    """Insert the runs that begin.

    Raises:
        Raced: such a run is there by now.
    """
    count = _insert_runs.run(connection, rows)
    if count == len(rows):
        return
    # Either such a run is there by now, or one with another id has a UUID that begins alike.
    there = {tuple(row) for row in _pick_runs.run(connection, [row[1:3] for row in rows])}
    again = [
        (*row[:_UUID_AT], uuid_drawn(*row[1:3], row[_COMMIT_AT]), *row[_UUID_AT + 1 :])
        for row in rows
        if row[1:3] not in there
    ]
    if count + _insert_runs.run(connection, again) < len(rows):
        raise Raced


def write_unplanned(connection: Link, tasks: Sequence[Values]) -> None:
    """Write the definitions of tasks that came without their plan, and then the tasks."""
    there = {tuple(row) for row in _pick_task_specs.run(connection, [row[:3] for row in tasks])}
    missing = [row for row in tasks if row[:3] not in there]
    revisions = list(dict.fromkeys((row[0], row[2]) for row in missing))
    plans: dict[Values, Plan] = {
        (row[0], row[1]): plan_of(row[2]) for row in _pick_plans.run(connection, revisions)
    }
    specs = [unplanned(row, plans.get((row[0], row[2])), at) for at, row in enumerate(missing)]
    _put_task_specs.run(connection, specs)
    _put_tasks.run(connection, missing)
