"""The history of a run by its events: the attempts in flight at any moment, and the leases of each task.

Events are numbered without gaps and are complete deltas, so this needs nothing besides them: the live
view folds them as they come, and the proof at the end folds them again as the store has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stepwell_client import Event, EventType, ExecutionStatus, RunStatus, StepKind
from stepwell_client.enums import Phase

OPEN = frozenset({ExecutionStatus.READY, ExecutionStatus.LEASED})


@dataclass
class Attempt:
    """One execution of a step."""

    step: str
    """The task's id; for other steps their kind."""
    number: int
    is_task: bool
    status: ExecutionStatus = ExecutionStatus.READY
    worker: str = ""
    leased: int = 0
    """The number of the event that gave it to a worker; 0: none did."""
    since: float = 0.0
    """When that was, in seconds since 1970."""
    ended: int = 0
    """The number of the event that ended it; 0: none did."""

    def __str__(self) -> str:
        return self.step if self.number == 1 else f"{self.step} (attempt {self.number})"


@dataclass
class History:
    """The attempts and completions of a run so far."""

    attempts: dict[str, Attempt] = field(default_factory=dict[str, Attempt])
    """Attempts by execution id, in the order in which they were offered."""
    completed: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Numbers of the events that completed each task."""
    last: int = 0
    """The number of the last event."""
    gaps: list[int] = field(default_factory=list[int])
    """Numbers out of order: there are none unless something is broken."""
    status: RunStatus = RunStatus.QUEUED
    phase: Phase = Phase.PLANNING
    iteration: int = 1
    planned: int = 0

    @property
    def done(self) -> int:
        """The number of completed tasks."""
        return len(self.completed)

    def add(self, event: Event) -> None:
        """Add the next event."""
        if event.number != self.last + 1:
            self.gaps.append(event.number)
        self.last = event.number
        if event.type == EventType.TASK_COMPLETED:
            self.completed.setdefault(event.task_id, []).append(event.number)
        self.status = event.run.get("status", self.status)
        self.phase = event.run.get("phase", self.phase)
        self.iteration = event.run.get("iteration", self.iteration)
        if "counts" in event.run:
            self.planned = event.run["counts"].total
        for execution_id, changes in event.executions.items():
            self._take_execution(event, execution_id, changes)

    def _take_execution(self, event: Event, execution_id: str, changes: Mapping[str, Any]) -> None:
        attempt = self.attempts.get(execution_id)
        if attempt is None:
            kind = changes["kind"]
            step = changes.get("task_id") or kind.name.lower()
            attempt = Attempt(step, changes.get("attempt", 1), kind == StepKind.TASK)
            self.attempts[execution_id] = attempt
        attempt.worker = changes.get("worker_id") or attempt.worker
        if "status" in changes:
            attempt.status = changes["status"]
            if attempt.status == ExecutionStatus.LEASED:
                attempt.leased = event.number
                attempt.since = event.time.timestamp() if event.time is not None else 0.0
            elif attempt.status not in OPEN:
                attempt.ended = event.number

    def in_flight(self, at: int | None = None) -> list[Attempt]:
        """Attempts that a worker had when the run's last event was the one of this number."""
        moment = self.last if at is None else at
        return [
            attempt
            for attempt in self.attempts.values()
            if 0 < attempt.leased <= moment and not 0 < attempt.ended <= moment
        ]

    def leases_after_completion(self, task_id: str) -> list[int]:
        """Numbers of the events that gave a task to a worker although it was completed."""
        done = self.completed.get(task_id)
        return [
            attempt.leased
            for attempt in self.attempts.values()
            if attempt.is_task and attempt.step == task_id and done and attempt.leased > done[0]
        ]

    def violations(self) -> list[str]:
        """Violations of the promises, above all a task that was started again after its completion."""
        found = [f"event {number} came out of order" for number in self.gaps]
        for task_id, numbers in self.completed.items():
            if len(numbers) > 1:
                found.append(f"{task_id} was completed by each of the events {numbers}")
            found += [
                f"{task_id} was completed by event {numbers[0]} and leased again by event {number}"
                for number in self.leases_after_completion(task_id)
            ]
        return found
