"""The model of a run: rows, leases and deadlines by its commits alone, apart from loop and store.

Only applied commits change it. `rules.py` reads it to decide whether
the next commit is one that the invariants allow.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from msgspec import UNSET

from stepwell.core.port import Commit, Lease
from stepwell.core.records.events import Event
from stepwell.core.records.family import Letters
from stepwell.core.records.model import (
    Execution,
    Outcome,
    Plan,
    Question,
    Run,
    Task,
    TaskSpec,
)
from stepwell.core.records.states import OPEN, EventType, ExecutionStatus, QuestionStatus, StepKind


class Closing(NamedTuple):
    """The end of an execution."""

    order: int
    """The entry of the history at which it did."""
    version: int
    status: ExecutionStatus
    fenced: bool
    """The commit fenced on its own lease's token."""


class Deadline(NamedTuple):
    """When something may be returned by a claim, by the store's clock."""

    from_us: int
    limit_us: int = 0


class Applied(NamedTuple):
    """A commit that the store applied."""

    commit: Commit
    replica: str
    """The replica that sent it."""
    order: int
    now_us: int
    """The moment by the store's clock, which may have been set back since the one before."""
    at: float
    """In seconds of the simulation, which only go forward."""

    @property
    def counted_losses(self) -> frozenset[str]:
        """The executions whose loss counted by this commit."""
        return frozenset(
            event.execution_id
            for event in self.commit.events
            if event.type is EventType.LEASE_LOST
            and (
                (event.run is not UNSET and event.run.step_losses is not UNSET)
                or any(
                    task.losses is not UNSET or task.reconcile_losses is not UNSET
                    for task in event.tasks
                )
            )
        )

    @property
    def condemned(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the executions that showed poison by this commit, each with the worker instances that it lost."""
        found: list[tuple[str, tuple[str, ...]]] = []
        tasks = {task.task_id: task for task in self.commit.tasks}
        for event in self.commit.events:
            if event.type is not EventType.STEP_POISONED:
                continue
            task, losses = tasks.get(event.task_id), self.commit.run.step_losses
            if task is not None:
                is_task = event.execution_id.startswith("task:")
                losses = task.losses if is_task else task.reconcile_losses
            found.append((event.execution_id, losses.gone))
        return found

    def __str__(self) -> str:
        """Name it, for the message of a violation."""
        return f"{self.commit.run_id} v{self.commit.version} by {self.replica}:"


class RunModel:
    """One run."""

    def __init__(self, tenant_id: str, run_id: str) -> None:
        self.key = (tenant_id, run_id)
        self.applied: list[Applied] = []
        self.run: Run | None = None
        self.tasks: dict[str, Task] = {}
        self.executions: dict[str, Execution] = {}
        self._open: dict[str, Execution] = {}
        self.specs: dict[str, TaskSpec] = {}
        self.plans: dict[int, Plan] = {}
        self.questions: dict[str, Question] = {}
        self.events: list[Event] = []
        self.outcomes: dict[str, Outcome] = {}
        self.leases: dict[str, Lease] = {}
        """All leases by execution, those of closed ones included."""
        self.deadlines: dict[str, Deadline] = {}
        """Maps an execution to the moment when it may be leased, or when its lease is over."""
        self.renewed_us: dict[str, int] = {}
        """Maps an execution to the moment, by the store's clock, when its lease was granted or last renewed."""
        self.timers: dict[str, int] = {}
        self.closed: dict[str, Closing] = {}
        self.spent: Counter[tuple[str, int, int]] = Counter()
        """Failed attempts by (step, plan revision of its task, allowance)."""
        self.lost: Counter[tuple[str, int, int]] = Counter()
        """Lost attempts that counted, likewise: no other step of their workers was to blame."""
        self.reflections: Counter[int] = Counter()
        self.attempts: dict[str, int] = {}
        """The highest attempt number by step."""
        self.resumes = 0
        self.letters = Letters()
        """The numbers of its letters."""

    @property
    def version(self) -> int:
        """The number of applied commits."""
        return len(self.applied)

    def open(self) -> list[Execution]:
        """Return the executions that can still move."""
        return list(self._open.values())

    def leased(self) -> list[Execution]:
        """Return the executions that a worker has."""
        return [e for e in self._open.values() if e.status is ExecutionStatus.LEASED]

    def waits_for_an_answer(self) -> bool:
        """Return whether a question is open."""
        return any(one.status is QuestionStatus.OPEN for one in self.questions.values())

    def apply(self, applied: Applied) -> None:
        """Apply the rows of a commit."""
        commit, now_us = applied.commit, applied.now_us
        self.applied.append(applied)
        self.run = commit.run
        if commit.plan is not None:
            self.plans[commit.plan.revision] = commit.plan
            self.specs.update((spec.task_id, spec) for spec in commit.plan.tasks)
        for task in commit.tasks:
            self.tasks[task.task_id] = task
        for outcome in commit.outcomes:
            self.outcomes.setdefault(outcome.execution_id, outcome)
        for execution in commit.executions:
            self._apply_execution(applied, execution)
        for lease in commit.leases:
            self.leases[lease.execution_id] = lease
            self.renewed_us[lease.execution_id] = now_us
            limit_us = now_us + lease.limit_ms * 1_000 if lease.limit_ms else 0
            self._set_lease(lease.execution_id, now_us + lease.lease_ms * 1_000, limit_us)
        for timer in commit.timers:
            if timer.delay_ms < 0:
                self.timers.pop(timer.name, None)
            else:
                self.timers[timer.name] = now_us + timer.delay_ms * 1_000
        for question in commit.questions:
            self.questions[question.question_id] = question
        self.events.extend(commit.events)
        self.resumes += any(event.type is EventType.RUN_RESUMED for event in commit.events)

    def _apply_execution(self, applied: Applied, execution: Execution) -> None:
        name = execution.execution_id
        self.executions[name] = execution
        if execution.status in OPEN:
            self._open[name] = execution
        else:
            self._open.pop(name, None)
        step = step_of(execution)
        self.attempts[step] = max(execution.attempt, self.attempts.get(step, 0))
        if execution.status is ExecutionStatus.READY:
            self.deadlines[name] = Deadline(applied.now_us + execution.delay_ms * 1_000)
        if execution.status not in OPEN and name not in self.closed:
            lease = self.leases.get(name)
            token = lease.token if lease is not None else ""
            fenced = any(f.execution_id == name and f.token == token for f in applied.commit.fences)
            version = applied.commit.version
            self.closed[name] = Closing(applied.order, version, execution.status, fenced)
            self.deadlines.pop(name, None)
            if execution.status in _FAILED:
                self.spent[self.purse_of(execution)] += 1
            elif name in applied.counted_losses:
                self.lost[self.purse_of(execution)] += 1

    def purse_of(self, execution: Execution) -> tuple[str, int, int]:
        """Return what a failed or lost attempt is counted against."""
        task = self.tasks.get(execution.task_id)
        assert self.run is not None
        if task is not None and execution.kind is StepKind.RECONCILE:
            return (step_of(execution), task.attempts, self.run.allowance)
        return (step_of(execution), task.revision if task else 0, self.run.allowance)

    def renewed(self, execution_id: str, now_us: int, lease_ms: int) -> None:
        """Note a heartbeat that the store took."""
        before = self.deadlines.get(execution_id)
        if before is not None:
            self.renewed_us[execution_id] = now_us
            self._set_lease(execution_id, now_us + lease_ms * 1_000, before.limit_us)

    def clock_is_set(self, now_us: int) -> None:
        """Note that the store's clock, which shows this, will show something else.

        What is due now was due once: it stays so, whatever the clock shows later.
        """
        for name, deadline in self.deadlines.items():
            if deadline.from_us <= now_us:
                self.deadlines[name] = deadline._replace(from_us=0)
        for name, until_us in self.timers.items():
            if until_us <= now_us:
                self.timers[name] = 0

    def _set_lease(self, execution_id: str, until_us: int, limit_us: int) -> None:
        if limit_us:
            until_us = min(until_us, limit_us)
        self.deadlines[execution_id] = Deadline(until_us, limit_us)


def step_of(execution: Execution) -> str:
    """Return the step that an execution is an attempt at: its id without the attempt's number."""
    return execution.execution_id.rpartition("#")[0]


_FAILED = frozenset({ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT})
