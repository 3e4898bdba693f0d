"""Merges a group of commits into rows: each row once per table, as the last commit leaves it.

A run may take several steps within one group; only its last rows are written (its events, messages
and commits all are). Each kind of row is then one statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from stepwell.core.port import INPUT_KEY, Commit, Lease
from stepwell.core.records.model import Execution, Plan, Session, Task
from stepwell.core.records.states import ExecutionStatus
from stepwell_drivers.sql import run_rows, schema, step_rows
from stepwell_drivers.sql.columns import Values, bytes_of, to_json
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.statements import Delete, Insert, Pick, Update, together
from stepwell_drivers.sql.trouble import Raced

RunKey = tuple[str, str]
RowKey = tuple[str, str, str]
K = TypeVar("K", bound=Values)

CHANGED_MAX = 256
"""A commit that changes more rows than this lists none of them; a reader then reads all."""
TASKS_PER_COMMIT = 2**16
"""Numbers of tasks for each commit: three times what the largest plan, in place of another, changes."""

_RUN = ("tenant_id", "run_id")
_LEASABLE = frozenset({ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME})
_LEASE = (
    *(*_RUN, "execution_id", "token", "worker_id", "instance_id"),
    *("version", "armed", "deadline_us", "limit_us"),
)
_BLANK_LEASE = ("backend", "session_id", "progress_media_type", "progress", "held_until_us")

_BIRTH = ("seq", *_RUN, *run_rows.RUN_FIXED, *run_rows.RUN_MOVING, "input_params")
_insert_runs = Insert(schema.runs, _BIRTH, key=_RUN)
_insert_uuid_runs = Insert(schema.runs, (*_BIRTH, "uuid"), key=_RUN)
_pick_runs = Pick(schema.runs, _RUN, _RUN)
_update_runs = Update(schema.runs, _RUN, run_rows.RUN_MOVING)
_insert_payloads = Insert(schema.payloads, ("run_key", "key", "data_media_type", "data"))
_put_plans = Insert(
    schema.plans,
    run_rows.PLAN,
    key=(*_RUN, "revision"),
    replaced=run_rows.PLAN[3:],
)
_put_tasks = Insert(
    schema.tasks,
    (*run_rows.TASK_KEY, *run_rows.TASK_MOVING, *run_rows.TASK_FIXED, "number"),
    key=(*_RUN, "task_id"),
    replaced=("revision", *run_rows.TASK_MOVING, *run_rows.TASK_FIXED),
)
_move_tasks = Update(schema.tasks, run_rows.TASK_KEY, run_rows.TASK_MOVING)
_place_tasks = Update(schema.tasks, run_rows.TASK_KEY, run_rows.TASK_FIXED)
_pick_tasks = Pick(schema.tasks, run_rows.TASK_KEY, run_rows.TASK_KEY)
_pick_plans = Pick(schema.plans, (*_RUN, "revision"), run_rows.PLAN)
_put_executions = Insert(
    schema.executions,
    step_rows.EXECUTION,
    key=(*_RUN, "task_id", "execution_id"),
    replaced=step_rows.EXECUTION_MOVING,
)
_put_outcomes = Insert(schema.outcomes, step_rows.OUTCOME, key=(*_RUN, "execution_id"))
_put_leases = Insert(
    schema.leases,
    (*_LEASE, *_BLANK_LEASE),
    key=_LEASE[:3],
    replaced=(*_LEASE[3:], *_BLANK_LEASE),
)
_arm_leases = Update(schema.leases, _LEASE[:3], ("armed", "version", "held_until_us"))
_drop_leases = Delete(schema.leases, _LEASE[:3])
_put_timers = Insert(
    schema.timers,
    ("run_key", "name", "version", "due_us", "held_until_us"),
    key=("run_key", "name"),
    replaced=("version", "due_us", "held_until_us"),
)
_drop_timers = Delete(schema.timers, ("run_key", "name"))
_put_inputs = Insert(
    schema.inputs,
    step_rows.INPUT,
    key=(*_RUN, "input_id"),
    replaced=step_rows.INPUT[3:],
)
_insert_events = Insert(schema.events, step_rows.EVENT)
_insert_messages = Insert(schema.messages, step_rows.MESSAGE)
_put_requests = Insert(
    schema.requests, ("run_key", "committed_version", "request_id", "fingerprint", "version")
)
_put_sessions = Insert(
    schema.sessions,
    (*_RUN, "backend", "session_id", "task_id", "execution_id", "version"),
    key=(*_RUN, "backend", "session_id"),
    replaced=("task_id", "execution_id", "version"),
)
_insert_checkpoints = Insert(schema.checkpoints, step_rows.CHECKPOINT)
_insert_commits = Insert(schema.commits, (*_RUN, "version", "commit_id", "committed_us", "changed"))


class Batch:
    """Collects the rows of accepted commits and writes them."""

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us
        self.tokens: dict[RowKey, str] = {}
        """Lease tokens as the group has left them; empty: the lease is gone."""
        self.created: dict[RunKey, Values] = {}
        """The runs that begin here."""
        self._payloads: list[Values] = []
        self._runs: dict[RunKey, Values] = {}
        self._plans: dict[tuple[str, str, int], Plan] = {}
        self._plan_rows: dict[tuple[str, str, int], Values] = {}
        self._numbers: dict[RowKey, int] = {}
        self._planned: dict[RowKey, Values] = {}
        self._moved: dict[RowKey, Values] = {}
        self._placed: dict[RowKey, Values] = {}
        self._executions: dict[RowKey, Values] = {}
        self._outcomes: dict[RowKey, Values] = {}
        self._leases: dict[RowKey, Values | None] = {}
        self._armed: dict[RowKey, tuple[int, int, int]] = {}
        self._timers: dict[tuple[int, str], Values | None] = {}
        self._inputs: dict[RowKey, Values] = {}
        self._events: list[Values] = []
        self._messages: list[Values] = []
        self._requests: list[Values] = []
        self._checkpoints: list[Values] = []
        self._sessions: dict[tuple[str, ...], Values] = {}
        self._commits: list[Values] = []

    # --- collecting ---

    def add(self, commit: Commit, run_key: int) -> None:
        """Add an accepted commit of the run that has this number, or will have it."""
        key = (commit.tenant_id, commit.run_id)
        self._add_run(key, commit, run_key)
        for at, task in enumerate(commit.tasks):
            # One for each place in each commit of a run: so no two of its tasks have the same one.
            self._numbers[*key, task.task_id] = commit.version * TASKS_PER_COMMIT + at
        self._add_plan(key, commit)
        for task in commit.tasks:
            self._add_task(key, commit, task)
        for lease in commit.leases:
            self._add_lease(key, commit.version, lease)
        for execution in commit.executions:
            self._add_execution(key, commit, execution)
        self._add_outcomes(key, commit)
        self._add_rest(key, commit, run_key)
        changed = _changed(commit)
        self._commits.append(
            (*key, commit.version, commit.commit_id, self.now_us, changed),
        )

    def _add_run(self, key: RunKey, commit: Commit, run_key: int) -> None:
        moving = (commit.version, *run_rows.run_moving(commit.run)[1:])
        if commit.version > 1:
            if key in self.created:
                created = self.created[key]
                self.created[key] = (*created[: 3 + len(run_rows.RUN_FIXED)], *moving, created[-1])
            else:
                self._runs[key] = (*key, *moving)
            return
        shown = run_rows.input_params(commit.input)
        fixed = run_rows.run_fixed(commit.run.spec)
        self.created[key] = (run_key, *key, *fixed, *moving, shown)
        if commit.input is not None:
            self._payloads.append((run_key, INPUT_KEY, *bytes_of(commit.input)))

    def _add_plan(self, key: RunKey, commit: Commit) -> None:
        plan = commit.plan
        if plan is None:
            return
        place = (*key, plan.revision)
        self._plans[place] = plan
        self._plan_rows[place] = run_rows.plan_row(key, commit.version, plan)
        fixed = _fixed_of(key, plan)
        for task in commit.tasks:
            if task.revision == plan.revision and task.task_id in fixed:
                row = (*key, task.task_id, task.revision)
                moving = run_rows.task_moving(commit.version, task)
                self._planned[*key, task.task_id] = (*row, *moving, *fixed.pop(task.task_id))
        # Tasks of the plan that the commit leaves out: nearly always none, or kept as they are.
        for task_id, values in fixed.items():
            self._placed[*key, task_id] = (*key, task_id, plan.revision, *values)

    def _add_task(self, key: RunKey, commit: Commit, task: Task) -> None:
        row_key = (*key, task.task_id)
        plan = commit.plan
        if plan is not None and task.revision == plan.revision and row_key in self._planned:
            self._moved.pop(row_key, None)
            return
        moving = run_rows.task_moving(commit.version, task)
        self._moved[row_key] = (*row_key, task.revision, *moving)

    def _add_lease(self, key: RunKey, version: int, lease: Lease) -> None:
        row_key = (*key, lease.execution_id)
        limit_us = self.now_us + lease.limit_ms * 1_000 if lease.limit_ms else 0
        deadline_us = self.now_us + lease.lease_ms * 1_000
        if limit_us:
            deadline_us = min(deadline_us, limit_us)
        self.tokens[row_key] = lease.token
        self._armed.pop(row_key, None)
        self._leases[row_key] = (
            *(*row_key, lease.token, lease.worker_id, lease.instance_id),
            *(version, 1, deadline_us, limit_us, "", "", None, None, 0),
        )

    def _add_execution(self, key: RunKey, commit: Commit, execution: Execution) -> None:
        row_key = (*key, execution.execution_id)
        version = commit.version
        self._executions[row_key] = step_rows.execution_row(key, version, execution, self.now_us)
        session = execution.session
        if session.backend or session.session_id:
            place = (*key, session.backend, session.session_id)
            self._sessions[place] = (*place, execution.task_id, execution.execution_id, version)
        if execution.status not in _LEASABLE:
            self.tokens[row_key] = ""
            self._leases[row_key] = None
            self._armed.pop(row_key, None)
            return
        armed = int(execution.status is ExecutionStatus.LEASED)
        if row_key not in self._leases:
            self._armed[row_key] = (armed, version, 0)
        elif (lease := self._leases[row_key]) is not None:
            self._leases[row_key] = (*lease[:6], version, armed, *lease[8:])

    def _add_outcomes(self, key: RunKey, commit: Commit) -> None:
        if not commit.outcomes:
            return
        sessions = {row.execution_id: row.session for row in commit.executions}
        for outcome in commit.outcomes:
            session = sessions.get(outcome.execution_id, Session())
            row = step_rows.outcome_row(key, outcome, session)
            # An outcome is written once: the first of an execution stays.
            self._outcomes.setdefault((*key, outcome.execution_id), row)

    def _add_rest(self, key: RunKey, commit: Commit, run_key: int) -> None:
        version = commit.version
        for timer in commit.timers:
            due_us = self.now_us + timer.delay_ms * 1_000
            row = (run_key, timer.name, version, due_us, 0) if timer.delay_ms >= 0 else None
            self._timers[run_key, timer.name] = row
        for request in commit.inputs:
            row = step_rows.input_row(key, version, request)
            self._inputs[*key, request.input_id] = row
        self._events += [step_rows.event_row(key, event) for event in commit.events]
        self._messages += [
            step_rows.message_row(key, version, message) for message in commit.messages
        ]
        if commit.checkpoint is not None:
            self._checkpoints.append(step_rows.checkpoint_row(key, commit.checkpoint))
        if commit.request is not None:
            record = commit.request
            self._requests.append(
                (run_key, version, record.request_id, record.fingerprint, record.version)
            )

    # --- writing it ---

    def write(self, connection: Link) -> None:
        """Write everything, one statement for each kind of row, as many as possible at once.

        Raises:
            Raced: a run of the same id was created since this group read.
        """
        # Alone and first: of two groups that create the same run, the second fails here.
        if self._insert_runs(connection) < len(self.created):
            raise Raced
        moved = list(self._moved.values())
        several: list[tuple[Any, Sequence[Values]]] = [
            (_move_tasks, moved),
            (_update_runs, list(self._runs.values())),
            (_insert_payloads, self._payloads),
            (_put_plans, list(self._plan_rows.values())),
            (_put_executions, list(self._executions.values())),
            (_put_outcomes, list(self._outcomes.values())),
            *_put_or_drop(self._leases, _put_leases, _drop_leases),
            (_arm_leases, [(*key, *values) for key, values in self._armed.items()]),
            *_put_or_drop(self._timers, _put_timers, _drop_timers),
            (_put_inputs, list(self._inputs.values())),
            (_insert_events, self._events),
            (_insert_messages, self._messages),
            (_put_requests, self._requests),
            (_insert_checkpoints, self._checkpoints),
            (_put_sessions, list(self._sessions.values())),
            (_insert_commits, self._commits),
        ]
        planned = (_put_tasks, self._numbered(self._planned.values()))
        if moved:
            # Both lists may hold the same tasks; these come first.
            _put_tasks.run(connection, planned[1])
        else:
            several.append(planned)
        counts = together(connection, several)
        if counts[0] < len(moved):
            self._write_absent(connection, moved)
        _place_tasks.run(connection, list(self._placed.values()))

    def _insert_runs(self, connection: Link) -> int:
        """Insert the runs that begin here; return how many were not there before."""
        drawn: list[Values] = []
        kept: list[Values] = []
        for row in self.created.values():
            uuid = run_rows.uuid_of(row[2])
            if uuid is None:
                drawn.append(row)
            else:
                kept.append((*row, uuid))
        count = _insert_uuid_runs.run(connection, kept)
        if count < len(kept):
            # Either such a run is there by now, or one with another id has a UUID that begins alike.
            there = {tuple(row) for row in _pick_runs.run(connection, [row[1:3] for row in kept])}
            drawn += [row[:-1] for row in kept if row[1:3] not in there]
        return count + _insert_runs.run(connection, drawn)

    def _numbered(self, rows: Iterable[Values]) -> list[Values]:
        """Return rows of tasks with their numbers, of which only a new row makes use."""
        return [(*row, self._numbers[row[:3]]) for row in rows]

    def _write_absent(self, connection: Link, rows: list[Values]) -> None:
        """Insert missing tasks whole, or change their revision."""
        keys = [row[:4] for row in rows]
        there = {tuple(row) for row in _pick_tasks.run(connection, keys)}
        missing = [row for row in rows if row[:4] not in there]
        revisions = dict.fromkeys((row[0], row[1], row[3]) for row in missing)
        plans = {
            (row[0], row[1], row[2]): run_rows.plan_of(row)
            for row in _pick_plans.run(connection, list(revisions))
        }
        fixed = {place: _fixed_of(place[:2], plan) for place, plan in plans.items()}
        whole = [
            (*row, *fixed.get((row[0], row[1], row[3]), {}).get(row[2], _UNPLANNED))
            for row in missing
        ]
        _put_tasks.run(connection, self._numbered(whole))


_UNPLANNED = run_rows.TASK_UNPLANNED


def _fixed_of(key: RunKey, plan: Plan) -> dict[str, Values]:
    """Return the plan's columns of each of its tasks."""
    return {
        spec.task_id: run_rows.task_fixed(key[1], plan.revision, position, spec)
        for position, spec in enumerate(plan.tasks)
    }


def _put_or_drop(
    rows: Mapping[K, Values | None], put: Insert, drop: Delete
) -> tuple[tuple[Delete, list[K]], tuple[Insert, list[Values]]]:
    dropped = [key for key, row in rows.items() if row is None]
    return (drop, dropped), (put, [row for row in rows.values() if row is not None])


def _changed(commit: Commit) -> str | None:
    """Return the keys of the rows that a commit changes, as JSON, for reading a delta."""
    if len(commit.tasks) + len(commit.executions) + len(commit.inputs) > CHANGED_MAX:
        return None
    changed: dict[str, Any] = {}
    if commit.plan is not None:
        changed["plan"] = commit.plan.revision
    if commit.tasks:
        changed["tasks"] = [task.task_id for task in commit.tasks]
    if commit.executions:
        changed["executions"] = [(row.task_id, row.execution_id) for row in commit.executions]
    if commit.inputs:
        changed["inputs"] = [request.input_id for request in commit.inputs]
    if commit.request is not None:
        changed["request"] = True
    return to_json(changed)
