"""Grants leases: to the worker that claimed a step, and to free workers for steps that become ready.

If a worker is free, a step is leased in the same commit that makes it ready, so it is created
LEASED. A claim finds all other steps, including suspect ones, and leases them by `GrantLease`.
"""

from __future__ import annotations

from stepwell.core.loop import budgets, signals
from stepwell.core.loop.changes import ExecutionFields, TaskFields
from stepwell.core.loop.closing import close
from stepwell.core.loop.context import FreeWorker, KeyFound, KeyState
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.idempotency import reserved, wait
from stepwell.core.loop.loss_allowance import losses_at, losses_of, set_losses, without
from stepwell.core.loop.occurrences import GrantLease
from stepwell.core.loop.slots import NO_SLOT, left_slots, with_slot
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import Lease
from stepwell.core.records.model import Execution
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
)

SUSPECT = "SUSPECT"
"""The reason why a suspect step is not leased to a worker that holds another step."""


def grant_lease(draft: Draft, occurrence: GrantLease) -> Reply:
    """Lease a READY execution to a worker."""
    if not occurrence.token:
        message = "no slot of its queue is free"
        return Reply(status=ReplyStatus.REFUSED, reason=NO_SLOT, message=message)
    open_execution = draft.held(occurrence.execution_id)
    if (
        open_execution is None
        or open_execution.execution.status is not ExecutionStatus.READY
        or draft.run.status is RunStatus.PAUSED
        or budgets.used_up(draft.run)
    ):
        return Reply(status=ReplyStatus.REFUSED, reason="NOT_READY", message="it isn't ready")
    execution = open_execution.execution
    if execution.kind is StepKind.TASK and (found := reserved(draft, execution.task_id)):
        return _withdraw(draft, execution, found)
    before = losses_of(draft, execution)
    losses = without(before, occurrence.connected)
    if losses.suspect and not occurrence.alone:
        message = "it is suspect: only a worker that holds nothing else is given it"
        return Reply(status=ReplyStatus.REFUSED, reason=SUSPECT, message=message)
    draft.event(
        EventType.EXECUTION_LEASED, task_id=execution.task_id, execution_id=occurrence.execution_id
    )
    fields = _leased(draft, occurrence)
    draft.change_execution(execution, **fields)
    if losses is not before:
        set_losses(draft, execution, losses)
    _put_lease(draft, execution, occurrence, occurrence.token, {})
    return Reply()


def _leased(draft: Draft, worker: GrantLease | FreeWorker) -> ExecutionFields:
    return {
        "status": ExecutionStatus.LEASED,
        "worker_id": worker.worker_id,
        "leased_us": draft.context.now_us,
    }


def _put_lease(
    draft: Draft,
    execution: Execution,
    worker: GrantLease | FreeWorker,
    token: str,
    fields: TaskFields,
) -> None:
    """Write the lease of an execution that this event leases, with its changes in task and run.

    `fields` are other changes in the task of a TASK step.
    """
    now_us = draft.context.now_us
    lease_ms, limit_ms = draft.context.lease_ms, draft.run.spec.step_timeout_ms
    if execution.kind is StepKind.TASK:
        task, spec = draft.task(execution.task_id), draft.spec(execution.task_id)
        lease_ms, limit_ms = spec.heartbeat_timeout_ms or lease_ms, spec.attempt_timeout_ms
        fields["status"] = TaskStatus.RUNNING
        if not task.started_us:
            fields["started_us"] = now_us
        if spec.idempotency_key and not task.held_key:
            fields["held_key"] = spec.idempotency_key
        draft.change_task(execution.task_id, **fields)
    elif execution.kind is StepKind.PLAN and not draft.run.stages_fixed:
        draft.change_run(stages=worker.stages)
    if execution.kind in (StepKind.PLAN, StepKind.REFLECT):
        signals.show(draft)
    if not draft.run.started_us:
        draft.change_run(started_us=now_us)
        budgets.arm_wall(draft)
    draft.leases.append(
        Lease(
            execution_id=execution.execution_id,
            token=token,
            worker_id=worker.worker_id,
            instance_id=worker.instance_id,
            lease_ms=lease_ms,
            limit_ms=limit_ms,
        )
    )


def _withdraw(draft: Draft, execution: Execution, found: KeyFound) -> Reply:
    """Withdraw a READY step whose key another run has: it spends no attempt, and its task waits."""
    if found.state in (KeyState.TAKEN, KeyState.DONE):
        draft.event(
            EventType.EXECUTION_RELEASED,
            task_id=execution.task_id,
            execution_id=execution.execution_id,
            message=f"run {found.run_id} has its idempotency key",
        )
        close(draft, execution, ExecutionStatus.RELEASED)
        draft.change_task(execution.task_id, status=TaskStatus.PENDING)
        if found.state is KeyState.TAKEN:
            wait(draft, execution.task_id, found.run_id)
    return Reply(status=ReplyStatus.REFUSED, reason="NOT_READY", message="its key isn't the run's")


# --- free workers --------------------------------------------------------------------------------------


class Turns:
    """Leases steps to free workers in turns, within credits, tokens and the queue's limit."""

    def __init__(self, draft: Draft) -> None:
        grants = draft.context.grants
        self._draft = draft
        self._workers = grants.workers
        self._tokens = iter(grants.tokens)
        self._slots: list[int] | None = None
        if grants.limit:
            self._slots = [
                slot
                for slot in left_slots(draft.state, draft.executions.values())
                if slot < grants.limit
            ]
        self._used: dict[int, int] = {}
        self._next = 0

    def lease_offered(self) -> None:
        """Lease steps that the occurrences have offered and that may be leased at once."""
        for step in self._draft.offered():
            if (
                turn := self._turn(step.kind, step.task_id, step.type, step.role, step.pin)
            ) is None:
                continue
            worker, token = turn
            grant_lease(
                self._draft,
                GrantLease(
                    execution_id=step.execution_id,
                    token=token,
                    worker_id=worker.worker_id,
                    instance_id=worker.instance_id,
                    stages=worker.stages,
                ),
            )

    def lease_new(
        self, kind: StepKind, execution_id: str, fields: ExecutionFields, task_fields: TaskFields
    ) -> bool:
        """Create an execution that is leased at once; if no worker takes it, return False and create none.

        `fields` are the execution's, `task_fields` the changes in the task of a TASK step.
        """
        draft, task_id = self._draft, fields.get("task_id", "")
        type_, role = fields.get("type", ""), fields.get("role", "")
        turn = self._turn(kind, task_id, type_, role, fields.get("pin", ""))
        if turn is None:
            return False
        worker, token = turn
        draft.event(EventType.EXECUTION_LEASED, task_id=task_id, execution_id=execution_id)
        fields.update(_leased(draft, worker))
        execution = draft.add_execution(execution_id, kind, **fields)
        _put_lease(draft, execution, worker, token, task_fields)
        return True

    def _turn(
        self, kind: StepKind, task_id: str, type_: str, role: str, pin: str
    ) -> tuple[FreeWorker, str] | None:
        """Return the worker whose turn it is, and a token; None if no free worker takes such a step now."""
        if self._slots is not None and not self._slots:
            return None
        if losses_at(self._draft, kind, task_id).suspect:
            return None
        if kind is StepKind.TASK and reserved(self._draft, task_id) is not None:
            return None  # A refused lease would use up a token, and its worker's turn.
        count = len(self._workers)
        for step in range(count):
            place = (self._next + step) % count
            worker = self._workers[place]
            used = self._used.get(place, 0)
            if used < worker.credits and worker.takes(kind, type_, role, pin):
                token = next(self._tokens, None)
                if token is None:
                    return None
                self._used[place] = used + 1
                self._next = (place + 1) % count
                return worker, with_slot(token, self._slots.pop()) if self._slots else token
        return None
