"""The history of a run by its events: the attempts in flight at any moment, and the leases of each task.

Events are numbered without gaps and are complete deltas, so this needs nothing besides them: the live
view folds them as they come, and the proof at the end folds them again as the store has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stepwell_client import EventType, ExecutionStatus, Phase, RunStatus, StepKind, word
from stepwell_client.v1 import types_pb2

OPEN = frozenset({ExecutionStatus.READY, ExecutionStatus.LEASED})


@dataclass
class Attempt:
    """One execution of a step."""

    step: str
    """The task's id; for other steps their kind."""
    number: int
    is_task: bool
    status: int = ExecutionStatus.READY
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
    status: int = RunStatus.QUEUED
    phase: int = Phase.PLANNING
    iteration: int = 1
    planned: int = 0

    @property
    def done(self) -> int:
        """The number of completed tasks."""
        return len(self.completed)

    def add(self, event: types_pb2.Event) -> None:
        """Add the next event."""
        if event.number != self.last + 1:
            self.gaps.append(event.number)
        self.last = event.number
        if event.type == EventType.TASK_COMPLETED:
            self.completed.setdefault(event.task_id, []).append(event.number)
        if event.run.HasField("status"):
            self.status = event.run.status
        if event.run.HasField("phase"):
            self.phase = event.run.phase
        if event.run.HasField("iteration"):
            self.iteration = event.run.iteration
        if event.run.HasField("counts"):
            self.planned = event.run.counts.total
        for change in event.executions:
            self._take_execution(event, change)

    def _take_execution(self, event: types_pb2.Event, change: types_pb2.ExecutionChange) -> None:
        attempt = self.attempts.get(change.execution_id)
        if attempt is None:
            kind = word(StepKind, change.kind).lower()
            attempt = Attempt(
                change.task_id or kind, change.attempt or 1, change.kind == StepKind.TASK
            )
            self.attempts[change.execution_id] = attempt
        if change.worker_id:
            attempt.worker = change.worker_id
        if change.HasField("status"):
            attempt.status = change.status
            if change.status == ExecutionStatus.LEASED:
                attempt.leased = event.number
                attempt.since = event.time.seconds + event.time.nanos / 1e9
            elif change.status not in OPEN:
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
