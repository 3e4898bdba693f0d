"""Merges a group of commits into rows: each row once per table, as the last commit leaves it.

A run may have several commits in one group. Only the last version of each row is written, but all
events, messages and commits are. The result is lists of plain tuples (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from stepwell.core.port import Commit, Lease
from stepwell.core.records.model import Execution, Outcome, Plan, Task
from stepwell.core.records.states import ExecutionStatus, QuestionStatus, TaskStatus
from stepwell_drivers.sql.bodies import (
    body_of,
    events_json,
    input_params,
    run_state,
    shown_spec,
    uuid_drawn,
    uuid_of,
)
from stepwell_drivers.sql.columns import Values, bytes_of, to_json
from stepwell_drivers.sql.entries import journal_writes
from stepwell_drivers.sql.rows import LEASE, Rows
from stepwell_drivers.sql.schema import UNPLANNED

RunKey = tuple[str, str]
RowKey = tuple[int, str]
"""A run's number, and the name of one of its rows."""
K = TypeVar("K", bound=Values)
T = TypeVar("T")

CHANGED_MAX = 256
"""A commit that changes more rows than this that no event names doesn't list them."""
TASKS_PER_COMMIT = 2**16
"""Task numbers for each commit: three times the most tasks that a plan which replaces another can change."""

_LEASABLE = frozenset({ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME})
_NOT_READY: Values = (None,) * 7
_NO_LEASE: Values = (None,) * len(LEASE)
_LEASE_TAKEN: Values = ("", *_NO_LEASE[1:])
"""The columns of an execution that lost its lease within the group and is LEASED again."""


class Changed(Struct, omit_defaults=True):
    """The rows that a commit changed and that its events don't name."""

    all: bool = False
    """True if there are too many to name."""
    plan: int = 0
    """The plan's revision, which includes all tasks that it defines."""
    tasks: set[str] = set()
    executions: set[str] = set()
    questions: set[str] = set()


class InTurns(Protocol):
    """Iterates over rows; if that takes long, it lets others run in between."""

    def __call__(self, rows: Sequence[T], /) -> Iterable[T]: ...


def at_once(rows: Sequence[T]) -> Iterable[T]:
    """Go through rows without a pause."""
    return rows


class Batch:
    """Collects the rows of accepted commits. Tasks of a plan, which may be many, are iterated by `in_turns`."""

    def __init__(self, now_us: int, in_turns: InTurns = at_once) -> None:
        self.now_us = now_us
        self._in_turns = in_turns
        self._births: dict[int, Values] = {}
        self._specs: list[Values] = []
        self._runs: dict[int, Values] = {}
        self._plans: dict[tuple[int, int], Values] = {}
        self._task_specs: dict[RowKey, Values] = {}
        self._tasks: dict[RowKey, Values | None] = {}
        self._executions: dict[RowKey, Values] = {}
        self._outcomes: dict[RowKey, Values] = {}
        self._timers: dict[RowKey, Values | None] = {}
        self._questions: dict[RowKey, Values] = {}
        self._messages: list[Values] = []
        self._requests: list[Values] = []
        self._checkpoints: list[Values] = []
        self._sessions: dict[tuple[int, str, str], Values] = {}
        self._commits: list[Values] = []
        self._journal_writes: list[Values] = []

    def add(self, commit: Commit, run_key: int) -> None:
        """Add an accepted commit of the run that has, or will have, this number."""
        self._add_run(commit, run_key)
        planned = frozenset[str]()
        if commit.plan is not None:
            planned = self._add_plan(commit, commit.plan, run_key)
        for task in self._in_turns(commit.tasks):
            self._add_task(commit, run_key, task, planned)
        leases = {lease.execution_id: lease for lease in commit.leases}
        for execution in commit.executions:
            self._add_execution(commit, run_key, execution, leases.get(execution.execution_id))
        for outcome in commit.outcomes:
            self._add_outcome(run_key, outcome)
        self._add_rest(commit, run_key)
        events = commit.events
        self._commits.append(
            (
                run_key,
                commit.tenant_id,
                commit.version,
                commit.commit_id,
                self.now_us,
                events[-1].number if events else commit.run.last_event,
                events_json(events),
                _changed(commit),
            )
        )

    def rows(self) -> Rows:
        """Return the collected rows."""
        tasks, dropped_tasks = _put_and_dropped(self._tasks)
        timers, dropped_timers = _put_and_dropped(self._timers)
        return Rows(
            runs=list(self._births.values()),
            run_specs=self._specs,
            moved_runs=list(self._runs.values()),
            plans=list(self._plans.values()),
            task_specs=list(self._task_specs.values()),
            tasks=tasks,
            dropped_tasks=dropped_tasks,
            executions=list(self._executions.values()),
            outcomes=list(self._outcomes.values()),
            timers=timers,
            dropped_timers=dropped_timers,
            questions=list(self._questions.values()),
            messages=self._messages,
            requests=self._requests,
            sessions=list(self._sessions.values()),
            checkpoints=self._checkpoints,
            commits=self._commits,
            journal_writes=self._journal_writes,
        )

    def _add_run(self, commit: Commit, run_key: int) -> None:
        run = commit.run
        moving = (
            commit.version,
            commit.commit_id,
            run.last_event,
            str(run.status),
            str(run.phase),
            str(run.blocked_on),
            run.ended_us,
            run_state(run),
        )
        spec = run.spec
        if commit.version == 1 or commit.changes_spec:
            self._specs.append(
                (
                    *(run_key, spec.priority, to_json(spec), input_params(commit.input)),
                    *bytes_of(commit.input),
                )
            )
        if commit.version > 1:
            birth = self._births.get(run_key)
            if birth is None:
                self._runs[run_key] = (run_key, *moving)
            else:
                self._births[run_key] = birth[: -len(moving)] + moving
            return
        tenant_id, run_id = commit.tenant_id, commit.run_id
        uuid = uuid_of(run_id) or uuid_drawn(tenant_id, run_id, commit.commit_id)
        self._births[run_key] = (
            *(run_key, tenant_id, run_id, spec.pipeline_id, spec.queue, spec.executor_id),
            *(spec.parent_run_id, uuid, *moving),
        )

    def _add_plan(self, commit: Commit, plan: Plan, run_key: int) -> frozenset[str]:
        """Add a plan and its task definitions; return the ids of these tasks."""
        self._plans[run_key, plan.revision] = (
            *(run_key, plan.revision, commit.version, len(plan.tasks), plan.created_us),
            *(plan.trigger.value, to_json(plan)),
        )
        places = {spec.task_id: (at, spec) for at, spec in enumerate(plan.tasks)}
        planned: list[str] = []
        for at, task in enumerate(self._in_turns(commit.tasks)):
            if task.revision == plan.revision and task.task_id in places:
                position, spec = places[task.task_id]
                # One number for each index in each commit, so no two tasks of a run share one.
                number = commit.version * TASKS_PER_COMMIT + at
                self._task_specs[run_key, task.task_id] = (
                    *(run_key, task.task_id, plan.revision, position, commit.version, number),
                    shown_spec(spec),
                )
                planned.append(task.task_id)
        return frozenset(planned)

    def _add_task(self, commit: Commit, run_key: int, task: Task, planned: frozenset[str]) -> None:
        key = (run_key, task.task_id)
        if task.task_id in planned and _is_new(task):
            # Only a task that an earlier plan also defined may have a row.
            if task.revision > 1:
                self._tasks[key] = None
            else:
                self._tasks.pop(key, None)
            return
        self._tasks[key] = (
            run_key,
            task.task_id,
            task.revision,
            str(task.status),
            commit.version,
            body_of(task),
        )

    def _add_execution(
        self, commit: Commit, run_key: int, execution: Execution, lease: Lease | None
    ) -> None:
        name, status = execution.execution_id, execution.status
        key = (run_key, name)
        tenant_id: str | None = commit.tenant_id
        waits, leased = _NOT_READY, _NO_LEASE
        if status is ExecutionStatus.READY:
            waits = (
                execution.queue,
                str(execution.kind),
                execution.role,
                execution.type,
                execution.pin,
                execution.priority,
                self.now_us + execution.delay_ms * 1_000,
            )
        elif status in _LEASABLE:
            leased = self._lease(key, lease)
        else:
            tenant_id = None
        row: Values = (
            run_key,
            name,
            execution.task_id,
            str(status),
            commit.version,
            body_of(execution),
            tenant_id,
        )
        self._executions[key] = row + waits + leased
        session = execution.session
        if session.backend or session.session_id:
            place = (run_key, session.backend, session.session_id)
            self._sessions[place] = (*place, execution.task_id, name)

    def _lease(self, key: RowKey, lease: Lease | None) -> Values:
        """Return the columns of a lease; without a new one, keep the row's own lease."""
        if lease is None:
            before = self._executions.get(key)
            if before is None:
                return _NO_LEASE
            return before[-len(LEASE) :] if before[3] in _LEASABLE else _LEASE_TAKEN
        limit_us = self.now_us + lease.limit_ms * 1_000 if lease.limit_ms else 0
        deadline_us = self.now_us + lease.lease_ms * 1_000
        if limit_us:
            deadline_us = min(deadline_us, limit_us)
        return (lease.token, lease.worker_id, lease.instance_id, deadline_us, limit_us)

    def _add_outcome(self, run_key: int, outcome: Outcome) -> None:
        key = (run_key, outcome.execution_id)
        # Only an execution's first outcome is written.
        if key not in self._outcomes:
            media_type, data = bytes_of(outcome.result)
            self._outcomes[key] = (
                run_key,
                outcome.execution_id,
                media_type,
                data,
                outcome.prompt or None,
                outcome.response or None,
                outcome.receipt or None,
            )

    def _add_rest(self, commit: Commit, run_key: int) -> None:
        for timer in commit.timers:
            due_us = self.now_us + timer.delay_ms * 1_000
            row = (run_key, timer.name, commit.version, due_us) if timer.delay_ms >= 0 else None
            self._timers[run_key, timer.name] = row
        for question in commit.questions:
            is_open = question.status is QuestionStatus.OPEN
            self._questions[run_key, question.question_id] = (
                *(run_key, question.question_id, question.status.value),
                *(commit.tenant_id if is_open else None, body_of(question)),
            )
        self._messages += [
            (run_key, message.task_id, message.role, to_json(message))
            for message in commit.messages
        ]
        if commit.checkpoint is not None:
            one = commit.checkpoint
            self._checkpoints.append(
                (
                    *(run_key, one.version, one.iteration, one.created_us),
                    *(to_json(one.state), one.base or None),
                )
            )
        if commit.request is not None:
            self._requests.append((run_key, commit.version, to_json(commit.request)))
        if commit.forgotten or commit.entries:
            self._journal_writes += journal_writes(run_key, commit)


def unplanned(task: Values, plan: Plan | None, at: int) -> Values:
    """Return the definition of a task whose plan is not in the group: from the stored plan, if
    there is one.

    Args:
        task: its row.
        plan: the plan of its revision.
        at: its place among the group's tasks of this kind.
    """
    run_key, task_id, revision, _, version, _ = task
    number = version * TASKS_PER_COMMIT + TASKS_PER_COMMIT // 2 + at
    tasks = () if plan is None else plan.tasks
    position, spec = next(
        ((at, shown_spec(spec)) for at, spec in enumerate(tasks) if spec.task_id == task_id),
        (UNPLANNED, "{}"),
    )
    return (run_key, task_id, revision, position, version, number, spec)


def _is_new(task: Task) -> bool:
    """Return whether a task is unchanged since its plan defined it."""
    return task.status is TaskStatus.PENDING and task == Task(
        task_id=task.task_id, revision=task.revision
    )


def _put_and_dropped(rows: dict[K, Values | None]) -> tuple[list[Values], list[Values]]:
    dropped: list[Values] = [key for key, row in rows.items() if row is None]
    return [row for row in rows.values() if row is not None], dropped


def _changed(commit: Commit) -> str | None:
    """Return the rows that a commit changes and no event names, for reading a delta; None if there are none."""
    plan = 0 if commit.plan is None else commit.plan.revision
    tasks = {one.task_id for one in commit.tasks if not plan or one.revision != plan}
    executions = {one.execution_id for one in commit.executions}
    questions = {one.question_id for one in commit.questions}
    for event in commit.events:
        if event.plan_revision == plan:
            plan = 0
        for task in event.tasks:
            tasks.discard(task.task_id)
        for execution in event.executions:
            executions.discard(execution.execution_id)
        for question in event.questions:
            questions.discard(question.question_id)
    if not (plan or tasks or executions or questions):
        return None
    if len(tasks) + len(executions) + len(questions) > CHANGED_MAX:
        return to_json(Changed(all=True))
    return to_json(Changed(plan=plan, tasks=tasks, executions=executions, questions=questions))
