"""A run as a replica holds it: its rows, and the counts that make a step's cost constant."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from stepwell.core.loop.signals import Transition
from stepwell.core.port import Lease, Loaded, OpenExecution
from stepwell.core.records.graph import Graph
from stepwell.core.records.model import (
    Execution,
    InputRequest,
    Plan,
    RequestRecord,
    Run,
    RunSpec,
    Task,
)
from stepwell.core.records.states import IN_FLIGHT, OPEN, SETTLED, InputStatus, TaskStatus


class RunState:
    """The rows of one run at one version. Changed only by `apply` and `merge`.

    `commit_id` names the commit that made that version; empty: it isn't known, or there is none yet.

    Four things are worked out from the rows rather than stored: `waiting` (for each unsettled task,
    how many of its dependencies aren't settled), `runnable` (PENDING tasks that wait for none, nor for
    another one of their idempotency key, in the order in which they became so), `plan_tasks` (what the
    plan in force names) and its `plan_fingerprint`.
    """

    __slots__ = (
        "commit_id",
        "graph",
        "inputs",
        "open",
        "plan_fingerprint",
        "plan_tasks",
        "requests",
        "run",
        "runnable",
        "tasks",
        "waiting",
    )

    def __init__(self, run: Run) -> None:
        self.run = run
        self.commit_id = ""
        self.graph = Graph({})
        self.tasks: dict[str, Task] = {}
        self.open: dict[str, OpenExecution] = {}
        self.inputs: dict[str, InputRequest] = {}
        self.requests: dict[str, RequestRecord] = {}
        self.waiting: dict[str, int] = {}
        self.runnable: OrderedDict[str, None] = OrderedDict()
        self.plan_tasks: frozenset[str] = frozenset()
        self.plan_fingerprint = ""

    @classmethod
    def unborn(cls, tenant_id: str, run_id: str) -> RunState:
        """Return the state of a run before its first commit."""
        return cls(Run(spec=RunSpec(tenant_id=tenant_id, run_id=run_id)))

    @classmethod
    def of(cls, loaded: Loaded) -> RunState:
        """Return the state that these rows are."""
        state = cls(loaded.run)
        state.merge(loaded)
        return state

    def merge(self, loaded: Loaded) -> None:
        """Take over rows that a store returned: those that changed since `self.run.version`."""
        if loaded.complete:
            self.__init__(loaded.run)
        self.commit_id = loaded.commit_id
        self._put_rows(loaded.run, loaded.plans, loaded.tasks)
        for row in loaded.executions:
            self._put_execution(row)
        for request in loaded.inputs:
            self._put_input(request)
        for record in loaded.requests:
            self.requests[record.request_id] = record

    def apply(self, transition: Transition, commit_id: str = "") -> None:
        """Take over a transition whose commit, of this id, was acknowledged."""
        self.commit_id = commit_id
        plans = (transition.plan,) if transition.plan is not None else ()
        self._put_rows(transition.run, plans, transition.tasks)
        leases = {lease.execution_id: lease for lease in transition.leases}
        for execution in transition.executions:
            self._put_execution(self.with_lease(execution, leases.get(execution.execution_id)))
        for request in transition.inputs:
            self._put_input(request)
        if transition.request is not None:
            self.requests[transition.request.request_id] = transition.request

    def with_lease(self, execution: Execution, lease: Lease | None) -> OpenExecution:
        """Return an execution with the lease that is taken now, or with the one it had."""
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
        )

    def _put_rows(self, run: Run, plans: Iterable[Plan], tasks: Iterable[Task]) -> None:
        self.run = run
        for plan in plans:
            self.graph = self.graph.with_plan(plan.tasks)
            self.plan_tasks = frozenset(spec.task_id for spec in plan.tasks)
            self.plan_fingerprint = plan.fingerprint
        if plans:
            self.tasks.update((task.task_id, task) for task in tasks)
            self._index_anew()
            return
        for task in tasks:
            self._put_task(task)

    def _index_anew(self) -> None:
        self.waiting.clear()
        self.runnable.clear()
        tasks = self.tasks
        for task_id, spec in self.graph.specs.items():
            unsettled = sum(1 for d in spec.depends_on if tasks[d].status not in SETTLED)
            self.waiting[task_id] = unsettled
            if (
                unsettled == 0
                and tasks[task_id].status is TaskStatus.PENDING
                and not self._is_key_taken(task_id)
            ):
                self.runnable[task_id] = None

    def _put_task(self, task: Task) -> None:
        task_id = task.task_id
        before = self.tasks.get(task_id)
        self.tasks[task_id] = task
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

    def _is_key_taken(self, task_id: str) -> bool:
        """Tell whether another task of its idempotency key is in flight."""
        if not self.graph.keys:
            return False
        return any(
            other in self.tasks and self.tasks[other].status in IN_FLIGHT
            for other in self.graph.alike(task_id)
        )

    def _put_runnable(self, task_id: str) -> None:
        task = self.tasks.get(task_id)
        if (
            task is not None
            and task.status is TaskStatus.PENDING
            and self.waiting.get(task_id, 0) == 0
            and not self._is_key_taken(task_id)
        ):
            self.runnable[task_id] = None
        else:
            self.runnable.pop(task_id, None)

    def _put_execution(self, row: OpenExecution) -> None:
        if row.execution.status in OPEN:
            self.open[row.execution.execution_id] = row
        else:
            self.open.pop(row.execution.execution_id, None)

    def _put_input(self, request: InputRequest) -> None:
        if request.status is InputStatus.OPEN:
            self.inputs[request.input_id] = request
        else:
            self.inputs.pop(request.input_id, None)
