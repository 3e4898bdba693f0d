"""A transition in the making: an overlay over a `RunState` that `advance` writes to.

Rows change only through `change_run`, `change_task`, `change_execution` and `put_input`; each of them
changes the row *and* the delta of the current event. So an event can't forget what it changed (S20).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop import no_progress
from stepwell.core.loop.signals import Context, Reply, Revoked, Transition
from stepwell.core.loop.state import RunState
from stepwell.core.loop.table import EXECUTION_MOVES, RUN_MOVES, TASK_MOVES, IllegalMove
from stepwell.core.port import Fence, KeyedResult, Lease, OpenExecution, Timer
from stepwell.core.records.events import Event, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.graph import Graph
from stepwell.core.records.model import (
    Execution,
    InputRequest,
    Message,
    Outcome,
    Payload,
    Plan,
    RequestRecord,
    Task,
    TaskSpec,
)
from stepwell.core.records.states import (
    IN_FLIGHT,
    OPEN,
    SETTLED,
    EventType,
    ExecutionStatus,
    InputStatus,
    TaskStatus,
)

_COUNTED = {
    TaskStatus.COMPLETED: "completed",
    TaskStatus.FAILED: "failed",
    TaskStatus.SKIPPED: "skipped",
    TaskStatus.CANCELLED: "cancelled",
}


_ATTEMPTS_COUNTED = {
    ExecutionStatus.COMPLETED: "completed",
    ExecutionStatus.FAILED: "failed",
    ExecutionStatus.TIMED_OUT: "timed_out",
    ExecutionStatus.LOST: "lost",
    ExecutionStatus.RELEASED: "released",
    ExecutionStatus.CANCELLED: "cancelled",
    ExecutionStatus.NEEDS_INPUT: "needs_input",
}
"""Every end of an execution, and where `Run.attempts` counts it."""

_OF_ITS_DEFINITION = (
    *("revision", "result_id", "result_run_id", "deduplicated_from", "failure", "input_id"),
    *("previous", "messages", "started_us", "ended_us"),
)
"""What a task that is defined anew loses, its conversation too. Attempts are never used again."""

_BORN_WITH = (
    *("kind", "task_id", "iteration", "attempt", "queue", "role", "priority"),
    *("status", "delay_ms", "offered_us"),
)
"""What an execution may have at its birth; the rest comes to it later."""


class _EventInTheMaking:
    """An event whose delta still grows."""

    __slots__ = ("executions", "fields", "inputs", "run", "tasks")

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.run: dict[str, Any] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.executions: dict[str, dict[str, Any]] = {}
        self.inputs: dict[str, InputRequest] = {}

    def finish(self) -> Event:
        fields = self.fields
        if self.run:
            fields["run"] = RunChange(**self.run)
        if self.tasks:
            fields["tasks"] = tuple(TaskChange(task_id=k, **v) for k, v in self.tasks.items())
        if self.executions:
            fields["executions"] = tuple(
                ExecutionChange(execution_id=k, **v) for k, v in self.executions.items()
            )
        if self.inputs:
            fields["inputs"] = tuple(self.inputs.values())
        return Event(**fields)


class Draft:
    """What a run will be, on top of what it is. The state below is never written to."""

    def __init__(self, state: RunState, context: Context, base: Transition | None = None) -> None:
        self.state = state
        self.context = context
        self.version = state.run.version + 1
        self.run = base.run if base else state.run
        self.plan: Plan | None = base.plan if base else None
        self.graph: Graph = (
            state.graph if self.plan is None else state.graph.with_plan(self.plan.tasks)
        )
        self.input: Payload | None = base.input if base else None
        self.request: RequestRecord | None = base.request if base else None
        self.outcomes: list[Outcome] = list(base.outcomes) if base else []
        self.leases: list[Lease] = list(base.leases) if base else []
        self.fences: list[Fence] = list(base.fences) if base else []
        self.timers: dict[str, Timer] = {t.name: t for t in base.timers} if base else {}
        self.messages: list[Message] = list(base.messages) if base else []
        self.keyed: list[KeyedResult] = list(base.keyed) if base else []
        self.unknown_keys: dict[str, None] = dict.fromkeys(base.unknown_keys) if base else {}
        self.revoked: list[Revoked] = list(base.revoked) if base else []
        self.tasks: dict[str, Task] = {t.task_id: t for t in base.tasks} if base else {}
        self.executions: dict[str, Execution] = (
            {e.execution_id: e for e in base.executions} if base else {}
        )
        self.changed_inputs: dict[str, InputRequest] = (
            {i.input_id: i for i in base.inputs} if base else {}
        )
        self._done_events: tuple[Event, ...] = base.events if base else ()
        self._events: list[_EventInTheMaking] = []
        self._last_event = self.run.last_event
        self._waiting: dict[str, int] = {}
        self._fresh: deque[str] = deque()
        self._runnable: Iterator[str] = iter(state.runnable)
        self._plan_waiting: dict[str, int] | None = None

    # --- events and the rows they change ----------------------------------------------------------

    @property
    def changed(self) -> bool:
        """Whether anything happened."""
        return bool(self._events) or bool(self._done_events)

    def event(self, kind: EventType, **fields: Any) -> None:
        """Say that something happened; the changes that follow are its delta."""
        self._last_event += 1
        fields["number"] = self._last_event
        fields["version"] = self.version
        fields["type"] = kind
        fields["time_us"] = self.context.now_us
        self._events.append(_EventInTheMaking(fields))

    def change_run(self, **fields: Any) -> None:
        """Change fields of the run's row."""
        status = fields.get("status")
        if status is not None and status not in RUN_MOVES[self.run.status]:
            raise IllegalMove(f"run {self.run.status} -> {status}")
        self.run = replace(self.run, **fields)
        self._events[-1].run.update(fields)

    def change_task(self, task_id: str, **fields: Any) -> None:
        """Change fields of a task's row, the counts of the run and who waits for it."""
        before = self.task(task_id)
        after = replace(before, **fields)
        self.tasks[task_id] = after
        self._events[-1].tasks.setdefault(task_id, {}).update(fields)
        if after.status is before.status:
            return
        if after.status not in TASK_MOVES[before.status]:
            raise IllegalMove(f"task {task_id} {before.status} -> {after.status}")
        was_settled, is_settled = before.status in SETTLED, after.status in SETTLED
        if was_settled or is_settled:
            self._count(before.status, after.status)
        if was_settled is not is_settled:
            self._tell_dependents(task_id, -1 if is_settled else 1)
            if is_settled and no_progress.is_watched(self.run):
                result = self._result_left_by(after.result_id)
                self.change_run(tally=no_progress.settled(self.run.tally, after, result))
        if after.status is TaskStatus.PENDING and self.waiting(task_id) == 0:
            self._fresh.append(task_id)
        if before.status in IN_FLIGHT and after.status not in IN_FLIGHT:
            self._fresh.extend(self.graph.alike(task_id))

    def add_execution(self, execution: Execution) -> None:
        """Give birth to an execution; what it is born with goes into the event, but for what is empty."""
        self.executions[execution.execution_id] = execution
        fields = {name: value for name in _BORN_WITH if (value := getattr(execution, name))}
        self._events[-1].executions[execution.execution_id] = fields
        if execution.status in _ATTEMPTS_COUNTED:
            self._count_attempt(execution.status)

    def change_execution(self, execution: Execution, **fields: Any) -> None:
        """Change fields of an execution's row."""
        status = fields.get("status")
        if status is not None and status not in EXECUTION_MOVES[execution.status]:
            raise IllegalMove(f"{execution.execution_id} {execution.status} -> {status}")
        execution_id = execution.execution_id
        self.executions[execution_id] = replace(execution, **fields)
        self._events[-1].executions.setdefault(execution_id, {}).update(fields)
        if status is not None and status in _ATTEMPTS_COUNTED:
            self._count_attempt(status)

    def put_input(self, request: InputRequest) -> None:
        """Write an input request."""
        self.changed_inputs[request.input_id] = request
        self._events[-1].inputs[request.input_id] = request

    def keep_task(self, task: Task, **fields: Any) -> None:
        """Let a task that the plan just brought stand as it stood in the run that this one is a fork of.

        No move of the loop: nothing happened to it here.
        """
        before = self.task(task.task_id)
        self.tasks[task.task_id] = replace(before, **fields)
        self._events[-1].tasks.setdefault(task.task_id, {}).update(fields)
        status = self.tasks[task.task_id].status
        if status in SETTLED:
            self._count(before.status, status)
            self._tell_dependents(task.task_id, -1)

    def put_plan(self, plan: Plan) -> None:
        """Put a plan in force; its PLAN_ACCEPTED event is the current one.

        New tasks, and those defined otherwise than before, start anew. Equal ones carry over, but for
        what an earlier plan had dropped: it starts anew, too. Old ones that it doesn't name and that
        aren't settled are CANCELLED. Whoever calls it has closed what was open of those that don't
        carry over (`plans.let_go`).
        """
        self.plan = plan
        named: set[str] = set()
        carried = frozenset(plan.carried)
        before = {**self.state.tasks, **self.tasks}
        self.graph = self.graph.with_plan(plan.tasks)
        total = self.run.counts.total
        for spec in plan.tasks:
            named.add(spec.task_id)
            if spec.task_id not in before:
                self.tasks[spec.task_id] = Task(task_id=spec.task_id, revision=plan.revision)
                total += 1
        self.change_run(counts=replace(self.run.counts, total=total), plan_revision=plan.revision)
        self._plan_waiting = self._count_waiting()
        # What was settled before it in this transition was counted for the old graph.
        self._waiting.clear()
        for task_id in before:
            task = self.task(task_id)
            if task_id not in named and task.status not in SETTLED:
                self.change_task(task_id, status=TaskStatus.CANCELLED, ended_us=self.context.now_us)
            elif task_id in named and task_id not in carried:
                self._define_anew(task, plan.revision)
        self._fresh = deque(s.task_id for s in plan.tasks if self._is_runnable(s.task_id))
        self._runnable = iter(())

    def _define_anew(self, task: Task, revision: int) -> None:
        anew = Task(task_id=task.task_id, revision=revision)
        fields = {name: getattr(anew, name) for name in _OF_ITS_DEFINITION}
        self.change_task(task.task_id, status=TaskStatus.PENDING, spent=0, allowance=0, **fields)

    # --- reading through ---------------------------------------------------------------------------

    def task(self, task_id: str) -> Task:
        """Return a task's row as it will be."""
        row = self.tasks.get(task_id)
        return row if row is not None else self.state.tasks[task_id]

    def spec(self, task_id: str) -> TaskSpec:
        """Return what a task is, by the plan in force."""
        return self.graph.specs[task_id]

    def held(self, execution_id: str) -> OpenExecution | None:
        """Return an open execution with its lease, or None."""
        row = self.state.open.get(execution_id)
        changed = self.executions.get(execution_id)
        if changed is not None:
            if changed.status not in OPEN:
                return None
            lease = next((one for one in self.leases if one.execution_id == execution_id), None)
            return self.state.with_lease(changed, lease)
        return row

    def open_executions(self) -> Iterator[Execution]:
        """Return the open executions, oldest first."""
        for execution_id, row in self.state.open.items():
            if execution_id not in self.executions:
                yield row.execution
        for execution in tuple(self.executions.values()):
            if execution.status in OPEN:
                yield execution

    def _result_left_by(self, execution_id: str) -> Payload | None:
        found = (one for one in reversed(self.outcomes) if one.execution_id == execution_id)
        return next((one.result for one in found), None)

    def is_planned(self, task_id: str) -> bool:
        """Tell whether the plan in force names this task."""
        if self.plan is not None:
            return any(spec.task_id == task_id for spec in self.plan.tasks)
        return task_id in self.state.plan_tasks

    @property
    def plan_fingerprint(self) -> str:
        """Of the plan in force."""
        return self.plan.fingerprint if self.plan is not None else self.state.plan_fingerprint

    def is_new(self, execution: Execution) -> bool:
        """Tell whether it was born in this transition."""
        return execution.execution_id not in self.state.open

    def open_inputs(self) -> Iterator[InputRequest]:
        """Return the input requests that wait for an answer."""
        for input_id, one in self.state.inputs.items():
            if input_id not in self.changed_inputs:
                yield one
        for one in tuple(self.changed_inputs.values()):
            if one.status is InputStatus.OPEN:
                yield one

    def open_input(self, input_id: str) -> InputRequest | None:
        """Return an input request that waits for an answer, or None."""
        one = self.changed_inputs.get(input_id) or self.state.inputs.get(input_id)
        return one if one is not None and one.status is InputStatus.OPEN else None

    def waiting(self, task_id: str) -> int:
        """Return how many of a task's dependencies aren't settled."""
        count = self._waiting.get(task_id)
        if count is not None:
            return count
        base = self.state.waiting if self._plan_waiting is None else self._plan_waiting
        return base.get(task_id, 0)

    def take_runnable(self) -> str | None:
        """Return the next PENDING task that waits for nothing, each once; None: there is none."""
        for task_id in self._runnable:
            if self._is_runnable(task_id):
                return task_id
        while self._fresh:
            task_id = self._fresh.popleft()
            if self._is_runnable(task_id):
                return task_id
        return None

    def _is_runnable(self, task_id: str) -> bool:
        if self.task(task_id).status is not TaskStatus.PENDING or self.waiting(task_id):
            return False
        return not any(self.task(one).status in IN_FLIGHT for one in self.graph.alike(task_id))

    # --- counting ------------------------------------------------------------------------------------

    def _count_waiting(self) -> dict[str, int]:
        settled = {task_id for task_id in self.graph.specs if self.task(task_id).status in SETTLED}
        return {
            task_id: sum(1 for d in spec.depends_on if d not in settled)
            for task_id, spec in self.graph.specs.items()
        }

    def _count(self, before: TaskStatus, after: TaskStatus) -> None:
        counts = self.run.counts
        fields: dict[str, int] = {}
        for status, step in ((before, -1), (after, 1)):
            name = _COUNTED.get(status)
            if name is not None:
                fields[name] = getattr(counts, name) + step
        self.change_run(counts=replace(counts, **fields))

    def _count_attempt(self, status: ExecutionStatus) -> None:
        name, counts = _ATTEMPTS_COUNTED[status], self.run.attempts
        self.change_run(attempts=replace(counts, **{name: getattr(counts, name) + 1}))

    def _tell_dependents(self, task_id: str, step: int) -> None:
        for dependent in self.graph.dependents.get(task_id, ()):
            count = self.waiting(dependent) + step
            self._waiting[dependent] = count
            if count == 0:
                self._fresh.append(dependent)

    # --- the end -------------------------------------------------------------------------------------

    def finish(self, replies: tuple[Reply, ...]) -> Transition:
        """Return what has become of it."""
        if not self.changed:
            return Transition(run=self.state.run, replies=replies)
        self.run = replace(self.run, version=self.version, last_event=self._last_event)
        return Transition(
            run=self.run,
            replies=replies,
            input=self.input,
            plan=self.plan,
            tasks=tuple(self.tasks.values()),
            executions=tuple(self.executions.values()),
            outcomes=tuple(self.outcomes),
            # One that was taken and ended in the same transition is no lease.
            leases=tuple(
                lease
                for lease in self.leases
                if self.executions[lease.execution_id].status is ExecutionStatus.LEASED
            ),
            fences=tuple(self.fences),
            timers=tuple(self.timers.values()),
            inputs=tuple(self.changed_inputs.values()),
            events=self._done_events + tuple(event.finish() for event in self._events),
            messages=tuple(self.messages),
            keyed=tuple(self.keyed),
            unknown_keys=tuple(self.unknown_keys),
            request=self.request,
            offered=tuple(
                e.execution_id
                for e in self.executions.values()
                if e.status is ExecutionStatus.READY and e.delay_ms == 0
            ),
            revoked=tuple(self.revoked),
        )
