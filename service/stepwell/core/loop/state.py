"""A run in a replica's memory: its rows, and indexes that make the cost of a step constant."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from stepwell.core.port import Commit, Lease, Loaded, OpenExecution
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.family import CANCEL, UnwrittenLetters
from stepwell.core.records.graph import Graph
from stepwell.core.records.journal import Totals
from stepwell.core.records.limits import REQUESTS_KEPT_MAX
from stepwell.core.records.model import (
    Execution,
    Plan,
    Question,
    RequestRecord,
    Run,
    RunSpec,
    Task,
)
from stepwell.core.records.states import (
    IN_FLIGHT,
    OPEN,
    SETTLED,
    QuestionKind,
    QuestionStatus,
    TaskStatus,
)

Shares = tuple[int, int, int]
"""Input tokens, output tokens and millionths of the currency unit."""
NO_SHARES: Shares = (0, 0, 0)
_PENDING = TaskStatus.PENDING
"""Looked up once, because each access to an enum's member costs a call in Python 3.11, and every commit has several."""


class RunState:
    """The rows of one run at one version. Changed only by `apply` and `merge`.

    `commit_id` names the commit that made this version; it is empty if unknown, or before the first
    commit. `checkpoint` is the run's newest checkpoint, without its base.

    Ten fields are derived from the rows rather than stored: `but_children` (the questions without
    those of child runs, of which there may be thousands), `of_step` (the questions by the task that
    they are of), `calls` (the ids of those of calls, by task and call), `shares` (what those of child
    runs have of each part of the budget of which children get a share), `suspended` (tasks that wait in a call),
    `waiting` (the number of unsettled dependencies of each unsettled task), `runnable` (PENDING
    tasks that wait for no dependency and for no other task of their idempotency key, in the order
    in which they became runnable), `groups` (of each task that gathers a group, the number of the group's tasks in each
    status), `plan_tasks` (the tasks of the plan in force) and
    `plan_fingerprint`.
    """

    __slots__ = (
        "but_children",
        "calls",
        "checkpoint",
        "commit_id",
        "graph",
        "groups",
        "of_step",
        "open",
        "plan_fingerprint",
        "plan_tasks",
        "questions",
        "requests",
        "run",
        "runnable",
        "shares",
        "suspended",
        "tasks",
        "waiting",
    )

    def __init__(self, run: Run) -> None:
        self.run = run
        self.commit_id = ""
        self.checkpoint: Checkpoint | None = None
        self.graph = Graph({})
        self.tasks: dict[str, Task] = {}
        self.open: dict[str, OpenExecution] = {}
        self.questions: dict[str, Question] = {}
        self.but_children: dict[str, Question] = {}
        self.of_step: dict[str, dict[str, Question]] = {}
        self.calls: dict[tuple[str, str], str] = {}
        self.shares = NO_SHARES
        self.requests: dict[str, RequestRecord] = {}
        self.waiting: dict[str, int] = {}
        self.groups: dict[str, Counter[TaskStatus]] = {}
        self.runnable: OrderedDict[str, None] = OrderedDict()
        self.suspended: set[str] = set()
        self.plan_tasks: frozenset[str] = frozenset()
        self.plan_fingerprint = ""

    @classmethod
    def empty(cls, tenant_id: str, run_id: str) -> RunState:
        """Return the state of a run before its first commit."""
        return cls(Run(spec=RunSpec(tenant_id=tenant_id, run_id=run_id)))

    @classmethod
    def of(cls, loaded: Loaded) -> RunState:
        """Return the state that consists of these rows."""
        state = cls(loaded.run)
        state.merge(loaded)
        return state

    def merge(self, loaded: Loaded) -> None:
        """Apply rows that a store returned: all rows, or those changed since `run.version`."""
        if loaded.complete:
            self._clear()
        self.commit_id = loaded.commit_id
        self.checkpoint = loaded.checkpoint
        self._put_rows(loaded.run, loaded.plans, loaded.tasks)
        for row in loaded.executions:
            if row.execution.status in OPEN:
                self.open[row.execution.execution_id] = row
            else:
                self.open.pop(row.execution.execution_id, None)
        for question in loaded.questions:
            self._put_question(question)
        for record in loaded.requests:
            self._put_request(record)

    def apply(self, commit: Commit) -> None:
        """Apply an acknowledged commit."""
        self.commit_id = commit.commit_id
        plans = (commit.plan,) if commit.plan is not None else ()
        self._put_rows(commit.run, plans, commit.tasks)
        leases = {lease.execution_id: lease for lease in commit.leases}
        for execution in commit.executions:
            execution_id = execution.execution_id
            if execution.status in OPEN:
                self.open[execution_id] = self.with_lease(execution, leases.get(execution_id))
            else:
                self.open.pop(execution_id, None)
        for question in commit.questions:
            self._put_question(question)
        if commit.checkpoint is not None:
            self.checkpoint = replace(commit.checkpoint, base=b"")
        if commit.request is not None:
            self._put_request(commit.request)

    def rebuild_indexes(self) -> None:
        """Derive the indexes from the rows; changes keep them up to date afterwards."""
        tasks = self.tasks
        self.suspended = {task_id for task_id, task in tasks.items() if task.waits}
        settled = {task_id for task_id, task in tasks.items() if task.status in SETTLED}
        self.waiting = self.graph.unsettled(settled)
        self.groups = count_groups(self.graph, lambda one: tasks[one].status)
        keys = self.graph.keys
        self.runnable = OrderedDict.fromkeys(
            [
                task_id
                for task_id, unsettled in self.waiting.items()
                if not unsettled
                and tasks[task_id].status is _PENDING
                and not (keys and self._is_key_in_use(task_id))
            ]
        )

    def with_lease(self, execution: Execution, lease: Lease | None) -> OpenExecution:
        """Return an execution with this lease, or with its own lease if that is None."""
        if lease is not None:
            return OpenExecution(
                execution=execution,
                token=lease.token,
                worker_id=lease.worker_id,
                instance_id=lease.instance_id,
            )
        before = self.open.get(execution.execution_id)
        if before is None:
            return OpenExecution(execution=execution)
        return OpenExecution(
            execution=execution,
            token=before.token,
            worker_id=before.worker_id,
            instance_id=before.instance_id,
            progress=before.progress,
            session=before.session,
            recorded=before.recorded,
        )

    def note_recorded(self, execution_id: str, token: str, totals: Totals) -> None:
        """Take over the sums of what a lease recorded; ignore ended leases and outdated sums."""
        row = self.open.get(execution_id)
        if row is not None and row.token == token and row.recorded.entries < totals.entries:
            self.open[execution_id] = replace(row, recorded=totals)

    def _clear(self) -> None:
        self.graph = Graph({})
        self.plan_tasks = frozenset()
        self.plan_fingerprint = ""
        self.shares = NO_SHARES
        for rows in (
            self.tasks,
            self.open,
            self.questions,
            self.but_children,
            self.of_step,
            self.calls,
            self.requests,
            self.waiting,
            self.groups,
            self.runnable,
            self.suspended,
        ):
            rows.clear()

    def _put_rows(self, run: Run, plans: Iterable[Plan], tasks: Iterable[Task]) -> None:
        self.run = run
        for plan in plans:
            self.graph = self.graph.with_plan(plan.tasks)
            self.plan_tasks = frozenset([spec.task_id for spec in plan.tasks])
            self.plan_fingerprint = plan.fingerprint
        if plans:
            self.tasks.update({task.task_id: task for task in tasks})
            self.rebuild_indexes()
            return
        for task in tasks:
            self._put_task(task)

    def _put_task(self, task: Task) -> None:
        task_id = task.task_id
        before = self.tasks.get(task_id)
        self.tasks[task_id] = task
        if task.waits:
            self.suspended.add(task_id)
        elif self.suspended:
            self.suspended.discard(task_id)
        if before is not None and (gatherer := self.graph.gatherers.get(task_id)) is not None:
            self.groups[gatherer][before.status] -= 1
            self.groups[gatherer][task.status] += 1
        was_settled = before is not None and before.status in SETTLED
        is_settled = task.status in SETTLED
        if was_settled is not is_settled:
            step = -1 if is_settled else 1
            for dependent in self.graph.dependents.get(task_id, ()):
                self.waiting[dependent] += step
                self._put_runnable(dependent)
        self._put_runnable(task_id)
        if self.graph.keys and (spec := self.graph.specs.get(task_id)) and spec.idempotency_key:
            for other in self.graph.keys[spec.idempotency_key]:
                self._put_runnable(other)

    def _is_key_in_use(self, task_id: str) -> bool:
        """Return whether another task with this task's idempotency key is under way."""
        return any(
            other in self.tasks and is_under_way(self.tasks[other])
            for other in self.graph.same_key(task_id)
        )

    def _put_runnable(self, task_id: str) -> None:
        task = self.tasks.get(task_id)
        if (
            task is not None
            and task.status is _PENDING
            and self.waiting.get(task_id, 0) == 0
            and not (self.graph.keys and self._is_key_in_use(task_id))
        ):
            self.runnable[task_id] = None
        else:
            self.runnable.pop(task_id, None)

    def _put_request(self, record: RequestRecord) -> None:
        """Keep the newest, as many as a store loads."""
        self.requests[record.request_id] = record
        if len(self.requests) > REQUESTS_KEPT_MAX:
            del self.requests[next(iter(self.requests))]

    def _put_question(self, question: Question) -> None:
        question_id, task_id = question.question_id, question.task_id
        self.shares = shares_after(self.shares, self.questions.get(question_id), question)
        is_child = question.kind is QuestionKind.CHILD
        of_step = self.of_step.setdefault(task_id, {})
        call = task_id, question.call
        for rows in (
            (self.questions, of_step) if is_child else (self.questions, of_step, self.but_children)
        ):
            if question.status is QuestionStatus.OPEN:
                rows[question_id] = question
            else:
                rows.pop(question_id, None)
        if question.call and question.status is QuestionStatus.OPEN:
            self.calls[call] = question_id
        elif self.calls.get(call) == question_id:
            del self.calls[call]
        if not of_step:
            del self.of_step[task_id]


def shares_after(shares: Shares, before: Question | None, after: Question) -> Shares:
    """Return the shares of the open child runs after a question has changed."""
    if after.kind is not QuestionKind.CHILD:
        return shares
    for one, sign in ((before, -1), (after, 1)):
        if one is not None and one.status is QuestionStatus.OPEN:
            tokens_in, tokens_out, cost = shares
            budget = one.budget
            shares = (
                tokens_in + sign * budget.input_tokens,
                tokens_out + sign * budget.output_tokens,
                cost + sign * budget.cost_micros,
            )
    return shares


def withdraws(letters: Sequence[UnwrittenLetters]) -> Callable[[Question], bool] | None:
    """Return a test of whether these cancel the child run of a question, or None if they cancel none."""
    cancels = [(one.until_us, set(one.task_ids)) for one in letters if one.kind == CANCEL]
    if not cancels:
        return None
    return lambda question: (
        question.kind is QuestionKind.CHILD
        and any(
            question.created_us <= until_us and (not steps or question.task_id in steps)
            for until_us, steps in cancels
        )
    )


def count_groups(
    graph: Graph, status_of: Callable[[str], TaskStatus]
) -> dict[str, Counter[TaskStatus]]:
    """Return, of each task that gathers a group, the number of the group's tasks in each status."""
    return {
        one: Counter([status_of(member) for member in graph.members(graph.specs[one])])
        for one in graph.gathering
    }


def is_under_way(task: Task) -> bool:
    """Return whether a task keeps others of its idempotency key waiting, also during a pause."""
    return task.status in IN_FLIGHT or (task.status is _PENDING and bool(task.held_key))
