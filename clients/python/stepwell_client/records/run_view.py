"""The rows of a run, folded from its events.

An event is a complete delta, so a reader that applies a run's events in order has the run, its
executions and its questions as of each event. Only the definitions of a new plan's tasks are read
from the server:

    run = client.run(run_id)
    view = RunView.before_events(run.get())
    for event in run.watch():
        if view.lacks_tasks(event):
            view.add_tasks(run.tasks())
        view.apply(event)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stepwell_client.enums import (
    BlockedKind,
    EventType,
    ExecutionStatus,
    Phase,
    QuestionKind,
    RunStatus,
    TaskStatus,
)
from stepwell_client.records.messages_pb2 import Event, Execution, Question, Run, RunTask
from stepwell_client.records.reading import readers
from stepwell_client.v1 import types_pb2

NO_PERSON = frozenset({QuestionKind.SIGNAL, QuestionKind.CHILD})
"""Kinds of questions that are waits of calls: no person answers them."""


class RunView:
    """A run with its tasks, executions and questions, as of the last applied event."""

    def __init__(self, run: Run) -> None:
        """Begin with a run as a client returned it."""
        self.run = run
        self.tasks: dict[str, RunTask] = {}
        """The tasks by id, ordered by plan revision and then by place in the plan."""
        self.executions: dict[str, Execution] = {}
        """The attempts at all steps by id, in the order of their offers."""
        self.questions: dict[str, Question] = {}
        """The questions to people, by id."""
        self.iterations: dict[int, int] = {}
        """The iteration of each plan revision."""
        self.decisions: dict[str, str] = {}
        """The decision of each reflection, by execution id."""

    @classmethod
    def before_events(cls, run: Run) -> RunView:
        """Return the view of a run before its first event."""
        given = {name: getattr(run, name) for name, _ in readers(types_pb2.RunSpec).values()}
        return cls(
            Run(
                **given,
                status=RunStatus.QUEUED,
                phase=Phase.PLANNING,
                iteration=1,
                blocked_on=BlockedKind.NONE,
            )
        )

    def add_tasks(self, tasks: Iterable[RunTask]) -> None:
        """Add tasks as the server lists them; for tasks that are known, take only the definition."""
        for task in tasks:
            known = self.tasks.get(task.id)
            self.tasks[task.id] = (
                task if known is None else replace(known, definition=task.definition)
            )

    def add_executions(self, executions: Iterable[Execution]) -> None:
        """Add executions as the server lists them, after the tasks."""
        for one in executions:
            self.executions[one.id] = one
            if (task := self.tasks.get(one.task_id)) is not None:
                before = self.iterations.get(task.revision, one.iteration)
                self.iterations[task.revision] = min(before, one.iteration)

    def lacks_tasks(self, event: Event) -> bool:
        """Return whether the event accepts a plan whose tasks have not been added."""
        return event.plan_revision > max((one.revision for one in self.tasks.values()), default=0)

    def apply(self, event: Event) -> None:
        """Update the rows to their state after the event."""
        self.run = replace(self.run, version=event.version, last_event=event.number, **event.run)
        if event.plan_revision:
            self.iterations[event.plan_revision] = self.run.iteration
        if event.type == EventType.REFLECTION_ACCEPTED:
            self.decisions[event.execution_id] = event.message
        for task_id, changes in event.tasks.items():
            task = self.tasks.get(task_id) or RunTask(id=task_id, status=TaskStatus.PENDING)
            self.tasks[task_id] = replace(task, **changes)
        for execution_id, changes in event.executions.items():
            execution = self.executions.get(execution_id)
            if execution is None:
                if "kind" not in changes:
                    continue  # It was offered before this view began.
                # Fields that an event leaves out have their defaults: a first attempt, READY.
                execution = Execution(
                    id=execution_id, status=ExecutionStatus.READY, iteration=1, attempt=1
                )
            self.executions[execution_id] = replace(execution, **changes)
        self.questions |= {one.id: one for one in event.questions if one.kind not in NO_PERSON}
