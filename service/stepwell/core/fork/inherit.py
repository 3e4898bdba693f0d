"""Carry: the tasks that a fork takes over from its parent, in their state at a version.

A settled task carries over if none of its dependencies runs again. It carries over as a reference
to the execution with its result, and to that execution's run. Sessions, progress and conversations
don't carry over: a fork never continues another run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.resuming import tasks_to_repeat, was_kept
from stepwell.core.records.fold import Rows
from stepwell.core.records.graph import Graph
from stepwell.core.records.model import Execution, Plan, Question, Run, Task, TaskSpec
from stepwell.core.records.states import SETTLED, ForkMode, QuestionStatus, TaskStatus

FAILURE_BYTES_MAX = 512 * 1024
"""Limit of all carried failures together: one event holds them. Beyond it, only the kind and the beginning
of the message carry over."""
ANSWER_BYTES_MAX = 512 * 1024
"""Limit of all carried answers together; an answer that doesn't fit is asked for again."""
_MESSAGE_CHARS = 200


class Changes(NamedTuple):
    """The changes of a fork to the spec that it inherits."""

    mode: ForkMode = ForkMode.STRICT
    plan: tuple[TaskSpec, ...] | None = None
    replan: bool = False
    roles: frozenset[str] | None = None
    """Roles of the workers connected to its queue; None: no worker is connected."""
    same_input: bool = True
    """Its input is the parent's."""


class Parent:
    """The parent's tasks in their state at the version: those of all its plans, later definitions last."""

    def __init__(self, rows: Rows, plans: Mapping[int, Plan]) -> None:
        self.run: Run = rows.run
        self.tasks: Mapping[str, Task] = rows.tasks
        self.questions: Mapping[str, Question] = rows.questions
        self.executions: Mapping[str, Execution] = rows.executions
        specs: dict[str, TaskSpec] = {}
        for revision in range(1, rows.run.plan_revision + 1):
            for spec in plans[revision].tasks:
                specs.pop(spec.task_id, None)
                specs[spec.task_id] = spec
        self.graph = Graph(specs)
        in_force = plans[rows.run.plan_revision].tasks if rows.run.plan_revision else ()
        self.in_force: dict[str, TaskSpec] = {spec.task_id: spec for spec in in_force}

    def status(self, task_id: str) -> TaskStatus | None:
        task = self.tasks.get(task_id)
        return task.status if task is not None else None

    def as_if_live(self, task_id: str) -> TaskStatus:
        """Return a task's status; a task that was CANCELLED with its run counts as PENDING."""
        status = self.tasks[task_id].status
        return TaskStatus.PENDING if status is TaskStatus.CANCELLED else status

    def standing(self) -> dict[str, TaskSpec]:
        """Return the tasks that no later plan dropped, with their dependencies."""
        specs = self.graph.specs
        dropped = {
            task_id
            for task_id in specs
            if task_id not in self.in_force and self.status(task_id) is TaskStatus.CANCELLED
        }
        queue = [task_id for task_id in specs if task_id not in dropped] if dropped else []
        for task_id in queue:
            needed = [one for one in specs[task_id].depends_on if one in dropped]
            dropped.difference_update(needed)
            queue.extend(needed)
        return {task_id: spec for task_id, spec in specs.items() if task_id not in dropped}

    def is_dropped(self, task_id: str) -> bool:
        """Return whether a later plan had dropped the task, which stays as the dependency of another."""
        return task_id not in self.in_force and self.status(task_id) is TaskStatus.CANCELLED


class Carry:
    """The fork's tasks, and those among them that carry over."""

    def __init__(self, before: Parent, changes: Changes, *, executing: bool) -> None:
        self._before = before
        self._again = (
            tasks_to_repeat(
                before.graph,
                before.as_if_live,
                before.in_force.__contains__,
                lambda one: was_kept(before.run, before.tasks[one]),
            )
            if executing
            else frozenset[str]()
        )
        self._answers_room = ANSWER_BYTES_MAX
        self.given = changes.plan
        standing = before.standing()
        if changes.plan is None or changes.mode is ForkMode.STRICT:
            self.inherited = frozenset(standing.keys() - before.in_force.keys())
            # A different plan is refused. An equal plan may list its tasks in another order.
            self.specs = standing
            self.carried = frozenset(k for k in standing if self._may_carry(k))
            return
        given = {spec.task_id: spec for spec in changes.plan}
        inherited = {
            task_id: spec
            for task_id, spec in standing.items()
            if task_id not in given and task_id not in before.in_force
        }
        whole = {**inherited, **given}
        self.carried = self._carried_in(whole)
        self.inherited = frozenset(k for k in inherited if k in self.carried)
        self.specs = {k: spec for k, spec in whole.items() if k in given or k in self.carried}

    def _may_carry(self, task_id: str) -> bool:
        """Return whether a task, regardless of its dependencies, carries over: it is settled and is not repeated."""
        before = self._before
        status = before.status(task_id)
        if status is TaskStatus.CANCELLED:
            return before.is_dropped(task_id)
        return status in SETTLED and task_id not in self._again

    def _carried_in(self, specs: Mapping[str, TaskSpec]) -> frozenset[str]:
        """Return the tasks that carry over into another plan: unchanged, with dependencies that carry over."""
        goes = [
            task_id
            for task_id, spec in specs.items()
            if self._before.graph.specs.get(task_id) != spec
            or not self._may_carry(task_id)
            or any(dependency not in specs for dependency in spec.depends_on)
        ]
        dependents = Graph(specs).dependents
        gone = set(goes)
        for task_id in goes:
            for dependent in dependents.get(task_id, ()):
                if dependent not in gone:
                    gone.add(dependent)
                    goes.append(dependent)
        return frozenset(specs.keys() - gone)

    def path(self, task_id: str) -> str:
        """Return the path of a task in the request; empty if the request doesn't name it."""
        for index, spec in enumerate(self.given or ()):
            if spec.task_id == task_id:
                return f"plan.tasks[{index}]"
        return ""

    def tasks(self, parent_run_id: str) -> Iterator[Task]:
        """Yield the rows of tasks that carry over, or whose attempt numbers continue."""
        room = FAILURE_BYTES_MAX
        for task_id, spec in self.specs.items():
            task = self._before.tasks.get(task_id)
            if task is None:
                continue
            if task_id in self.carried:
                room -= len(task.failure.message) + len(task.failure.details)
                yield _carried_row(task, parent_run_id, whole=room >= 0)
                continue
            unchanged = self._before.graph.specs[task_id] == spec
            row = Task(
                task_id=task_id,
                revision=1,
                attempts=task.attempts,
                question_id=self._answer_of(task) if unchanged else "",
            )
            if row.attempts or row.question_id:
                yield row

    def _answer_of(self, task: Task) -> str:
        """Return the question whose answer the task has yet to receive; empty if there is none."""
        question = self._before.questions.get(task.question_id)
        waits = task.status not in SETTLED or task.status is TaskStatus.CANCELLED
        if question is None or question.status is not QuestionStatus.ANSWERED or not waits:
            return ""
        self._answers_room -= _size_of(question)
        return task.question_id if self._answers_room >= 0 else ""


def _size_of(question: Question) -> int:
    answer = len(question.answer.data) if question.answer is not None else 0
    return answer + len(question.prompt) + len(question.schema)


def _carried_row(task: Task, parent_run_id: str, *, whole: bool) -> Task:
    failure = task.failure
    if not whole:
        failure = replace(failure, message=failure.message[:_MESSAGE_CHARS], details="")
    return Task(
        task_id=task.task_id,
        revision=1,
        status=task.status,
        attempts=task.attempts,
        result_id=task.result_id,
        result_run_id=(task.result_run_id or parent_run_id) if task.result_id else "",
        deduplicated_from=task.deduplicated_from,
        failure=failure,
        started_us=task.started_us,
        ended_us=task.ended_us,
    )
