"""What is known of a run while it is followed: its rows, kept up to date by its events.

An event is a complete delta, so following needs no other call than one for the tasks of a new plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from stepwell.cli.text import micros
from stepwell_client import ExecutionStatus, StepKind
from stepwell_client.v1 import orchestrator_pb2, types_pb2

_OPEN = (ExecutionStatus.READY, ExecutionStatus.LEASED, ExecutionStatus.UNKNOWN_OUTCOME)


class RunView:
    """A run with its tasks and steps."""

    def __init__(self, run: types_pb2.Run) -> None:
        self.run = types_pb2.Run()
        self.run.CopyFrom(run)
        self.specs: dict[str, types_pb2.TaskSpec] = {}
        self.tasks: dict[str, types_pb2.Task] = {}
        """In the order of plan revision, then of the plan."""
        self.steps: dict[str, types_pb2.Execution] = {}
        """Every attempt at PLAN, REFLECT and SYNTHESIZE, in the order of their offer."""
        self.open: dict[str, types_pb2.Execution] = {}
        """Attempts at tasks that are not over, by id."""
        self.iterations: dict[int, int] = {}
        """The iteration of each plan revision."""
        self.decisions: dict[str, str] = {}
        """What each reflection decided, by execution."""
        self.questions: dict[str, types_pb2.InputRequest] = {}
        """By id."""

    @classmethod
    def unborn(cls, run: types_pb2.Run) -> RunView:
        """Return the view of a run whose events are to be applied from the first on."""
        return cls(
            types_pb2.Run(
                spec=run.spec,
                status=types_pb2.RUN_STATUS_QUEUED,
                phase=types_pb2.PHASE_PLANNING,
                iteration=1,
            )
        )

    def take_tasks(self, entries: Iterable[orchestrator_pb2.TaskEntry]) -> None:
        """Take tasks over as the service lists them; of those that are here only the spec."""
        for entry in entries:
            task_id = entry.task.task_id
            self.specs[task_id] = entry.spec
            self.tasks.setdefault(task_id, entry.task)

    def take_executions(self, executions: Iterable[types_pb2.Execution]) -> None:
        """Take executions over as the service lists them, after the tasks."""
        for execution in executions:
            self._put(execution)
            task = self.tasks.get(execution.task_id)
            if task is not None:
                before = self.iterations.get(task.revision, execution.iteration)
                self.iterations[task.revision] = min(before, execution.iteration)

    def apply(self, event: types_pb2.Event) -> None:
        """Bring the rows to where they were after the event."""
        run = self.run
        run.version, run.last_event = event.version, event.number
        _merge(event.run, run)
        if event.plan_revision:
            self.iterations[event.plan_revision] = run.iteration
        for change in event.tasks:
            task = self.tasks.get(change.task_id)
            if task is None:
                task = types_pb2.Task(task_id=change.task_id, status=types_pb2.TASK_STATUS_PENDING)
                self.tasks[change.task_id] = task
            _merge(change, task)
        for change in event.executions:
            self._put(_merge(change, self._execution(change.execution_id)))
        for request in event.inputs:
            self.questions[request.input_id] = request
        if event.type == types_pb2.EVENT_TYPE_REFLECTION_ACCEPTED:
            self.decisions[event.execution_id] = event.message

    def lacks_tasks_of(self, event: types_pb2.Event) -> bool:
        """Whether the event brings a plan whose tasks have not been taken."""
        if not event.plan_revision:
            return False
        return event.plan_revision > max((one.revision for one in self.tasks.values()), default=0)

    def took_us(self, now_us: int) -> int:
        """Return how long the run has been going, or took."""
        began = micros(self.run.started_time) or micros(self.run.created_time)
        ended = micros(self.run.ended_time)
        return (ended or now_us) - began if began else 0

    def last_us(self) -> int:
        """Return the last moment that the run and its tasks tell of."""
        run = self.run
        moments = [run.created_time, run.started_time, run.ended_time, run.blocked_since_time]
        for task in self.tasks.values():
            moments += (task.started_time, task.ended_time)
        return max(micros(one) for one in moments)

    def _execution(self, execution_id: str) -> types_pb2.Execution:
        found = self.steps.get(execution_id) or self.open.get(execution_id)
        # What an event leaves out has its default: a step is born READY, as a first attempt.
        return found or types_pb2.Execution(
            execution_id=execution_id,
            status=types_pb2.EXECUTION_STATUS_READY,
            iteration=1,
            attempt=1,
        )

    def _put(self, execution: types_pb2.Execution) -> None:
        if not execution.kind:
            return  # Of one that was over before this view began.
        if execution.kind != StepKind.TASK:
            self.steps[execution.execution_id] = execution
        elif execution.status in _OPEN:
            self.open[execution.execution_id] = execution
        else:
            self.open.pop(execution.execution_id, None)


def _merge(change: Any, row: Any) -> Any:
    """Write the fields that a change has into a row; returns the row."""
    for field, value in change.ListFields():
        name = field.name
        if name == "stages":  # A list with presence: its message stands between.
            del row.stages[:]
            row.stages.extend(value.stages)
        elif isinstance(value, Message):
            getattr(row, name).CopyFrom(value)
        else:
            setattr(row, name, value)
    return row
