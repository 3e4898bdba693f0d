"""The rows of a run, folded from its events.

An event is a complete delta, so a reader that applies a run's events in order has the run, its executions
and its questions as they were after each of them. Only the definitions of a new plan's tasks are read from
the server:

    view = MessageView.before_events(run)
    for event in client.watch(run_id):
        if view.lacks_tasks(event):
            view.add_tasks(client.tasks(run_id))
        view.apply(event)

`RunView` does the same with records, for events that a client returns; a MessageView is for programs that build on messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from stepwell_client.v1 import orchestrator_pb2, types_pb2


class MessageView:
    """A run with its tasks, executions and questions, as of the last event that was applied."""

    def __init__(self, run: types_pb2.Run) -> None:
        """Begin with a run as a server returned it; a copy of it is kept."""
        self.run = types_pb2.Run()
        self.run.CopyFrom(run)
        self.specs: dict[str, types_pb2.TaskSpec] = {}
        """The definitions of the tasks, by task id."""
        self.tasks: dict[str, types_pb2.Task] = {}
        """The tasks by id, in the order of plan revision, then of the plan."""
        self.executions: dict[str, types_pb2.Execution] = {}
        """The attempts at all steps by id, in the order in which they were offered."""
        self.questions: dict[str, types_pb2.Question] = {}
        """The questions to people, by id."""
        self.iterations: dict[int, int] = {}
        """The iteration of each plan revision."""
        self.decisions: dict[str, str] = {}
        """The decision of each reflection, by execution id."""

    @classmethod
    def before_events(cls, run: types_pb2.Run) -> MessageView:
        """Return the view of a run before its first event."""
        return cls(
            types_pb2.Run(
                spec=run.spec,
                status=types_pb2.RUN_STATUS_QUEUED,
                phase=types_pb2.PHASE_PLANNING,
                iteration=1,
                blocked_on=types_pb2.BLOCKED_KIND_NONE,
            )
        )

    def add_tasks(self, entries: Iterable[orchestrator_pb2.TaskEntry]) -> None:
        """Add tasks as the server lists them; of those that are here only the definition."""
        for entry in entries:
            task_id = entry.task.task_id
            self.specs[task_id] = entry.spec
            self.tasks.setdefault(task_id, entry.task)

    def add_executions(self, executions: Iterable[types_pb2.Execution]) -> None:
        """Add executions as the server lists them, after the tasks."""
        for execution in executions:
            self.executions[execution.execution_id] = execution
            task = self.tasks.get(execution.task_id)
            if task is not None:
                before = self.iterations.get(task.revision, execution.iteration)
                self.iterations[task.revision] = min(before, execution.iteration)

    def lacks_tasks(self, event: types_pb2.Event) -> bool:
        """Return whether the event accepts a plan whose tasks have not been added."""
        if not event.plan_revision:
            return False
        return event.plan_revision > max((one.revision for one in self.tasks.values()), default=0)

    def apply(self, event: types_pb2.Event) -> None:
        """Bring the rows to their state after the event."""
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
            execution = self.executions.get(change.execution_id)
            if execution is None:
                if not change.kind:
                    continue  # It was offered before this view began.
                # Fields that an event leaves out have their defaults: a first attempt, READY.
                execution = types_pb2.Execution(
                    status=types_pb2.EXECUTION_STATUS_READY, iteration=1, attempt=1
                )
                self.executions[change.execution_id] = execution
            _merge(change, execution)
        for question in event.questions:
            self.questions[question.question_id] = question
        if event.type == types_pb2.EVENT_TYPE_REFLECTION_ACCEPTED:
            self.decisions[event.execution_id] = event.message


_LISTS = {"stages": "stages", "waits": "waits", "step_waits": "waits"}
"""Lists with presence: the message that stands between, and its field."""


def _merge(change: Any, row: Any) -> None:
    """Write the fields of a change into a row."""
    for field, value in change.ListFields():
        if (items := _LISTS.get(field.name)) is not None:
            del getattr(row, field.name)[:]
            getattr(row, field.name).extend(getattr(value, items))
        elif isinstance(value, Message):
            getattr(row, field.name).CopyFrom(value)
        else:
            setattr(row, field.name, value)
