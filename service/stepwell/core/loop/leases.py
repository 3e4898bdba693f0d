"""Grants leases: to the worker that claimed a step, and to free workers for steps that became ready.

A step that becomes ready is leased in the very commit that makes it so, if a worker is free. The claim
finds all other steps, suspect ones among them: it leases them by `GrantLease`.
"""

from __future__ import annotations

from stepwell.core.loop import budgets
from stepwell.core.loop.changes import TaskFields
from stepwell.core.loop.closing import close
from stepwell.core.loop.context import FreeWorker, Grants, KeyFound, KeyState
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.idempotency import reserved, wait
from stepwell.core.loop.losses import losses_of, set_losses, without
from stepwell.core.loop.signals import GrantLease
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import Lease
from stepwell.core.records.model import Execution
from stepwell.core.records.states import (
    OPEN,
    EventType,
    ExecutionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
)

SUSPECT = "SUSPECT"
"""The reason for which a lease of a suspect step is refused to a worker that holds something else."""


def grant_lease(draft: Draft, signal: GrantLease) -> Reply:
    """Lease a READY execution to a worker."""
    open_execution = draft.held(signal.execution_id)
    if (
        open_execution is None
        or open_execution.execution.status is not ExecutionStatus.READY
        or draft.run.status is RunStatus.PAUSED
        or budgets.used_up(draft.run)
    ):
        return Reply(status=ReplyStatus.REFUSED, reason="NOT_READY", message="it isn't ready")
    execution, now_us = open_execution.execution, draft.context.now_us
    if execution.kind is StepKind.TASK and (found := reserved(draft, execution.task_id)):
        return _withdraw(draft, execution, found)
    before = losses_of(draft, execution)
    losses = without(before, signal.connected)
    if losses.suspect and not signal.alone:
        message = "it is suspect: only a worker that holds nothing else is given it"
        return Reply(status=ReplyStatus.REFUSED, reason=SUSPECT, message=message)
    draft.event(
        EventType.EXECUTION_LEASED, task_id=execution.task_id, execution_id=signal.execution_id
    )
    draft.change_execution(
        execution, status=ExecutionStatus.LEASED, worker_id=signal.worker_id, leased_us=now_us
    )
    if losses is not before:
        set_losses(draft, execution, losses)
    lease_ms, limit_ms = draft.context.lease_ms, draft.run.spec.step_timeout_ms
    if execution.kind is StepKind.TASK:
        task, spec = draft.task(execution.task_id), draft.spec(execution.task_id)
        lease_ms, limit_ms = spec.heartbeat_timeout_ms or lease_ms, spec.attempt_timeout_ms
        fields: TaskFields = {"status": TaskStatus.RUNNING}
        if not task.started_us:
            fields["started_us"] = now_us
        if spec.idempotency_key and not task.held_key:
            fields["held_key"] = spec.idempotency_key
        draft.change_task(execution.task_id, **fields)
    elif execution.kind is StepKind.PLAN and not draft.run.stages_fixed:
        draft.change_run(stages=signal.stages)
    if not draft.run.started_us:
        draft.change_run(started_us=now_us)
        budgets.arm_wall(draft)
    draft.leases.append(
        Lease(
            execution_id=signal.execution_id,
            token=signal.token,
            worker_id=signal.worker_id,
            instance_id=signal.instance_id,
            lease_ms=lease_ms,
            limit_ms=limit_ms,
        )
    )
    return Reply()


def _withdraw(draft: Draft, execution: Execution, found: KeyFound) -> Reply:
    """Take back a READY step whose key another run has: it spends no attempt, and its task waits."""
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


def grant_offered(draft: Draft) -> None:
    """Lease steps that became ready to free workers, each worker in its turn."""
    grants = draft.context.grants
    if not grants.workers:
        return
    offered = draft.offered()
    if not offered:
        return
    room = _room(draft, grants, len(offered))
    turns = _Turns(grants)
    for execution in offered:
        if room <= 0:
            break
        if losses_of(draft, execution).suspect:
            continue
        if execution.kind is StepKind.TASK and reserved(draft, execution.task_id):
            continue  # A lease that is refused would use up a token, and the turn of its worker.
        grant = turns.grant(execution)
        if grant is not None:
            grant_lease(draft, grant)
            room -= 1


def _room(draft: Draft, grants: Grants, offered: int) -> int:
    """Return how many steps may be leased: executions that end here leave their place to others."""
    if grants.room is None:
        return offered
    ended = sum(
        1
        for e in draft.executions.values()
        if e.status not in OPEN and e.execution_id in grants.counted
    )
    return grants.room + ended


class _Turns:
    """Assigns steps to free workers in turns, as far as their credits go."""

    def __init__(self, grants: Grants) -> None:
        self._workers = grants.workers
        self._tokens = iter(grants.tokens)
        self._used: dict[int, int] = {}
        self._next = 0

    def grant(self, execution: Execution) -> GrantLease | None:
        """Return a lease for the next worker that takes this step; None: no such worker is free."""
        count = len(self._workers)
        for step in range(count):
            place = (self._next + step) % count
            worker = self._workers[place]
            used = self._used.get(place, 0)
            if used < worker.credits and worker.serves(execution):
                token = next(self._tokens, None)
                if token is None:
                    return None
                self._used[place] = used + 1
                self._next = (place + 1) % count
                return _lease_of(execution, worker, token)
        return None


def _lease_of(execution: Execution, worker: FreeWorker, token: str) -> GrantLease:
    return GrantLease(
        execution_id=execution.execution_id,
        token=token,
        worker_id=worker.worker_id,
        instance_id=worker.instance_id,
        stages=worker.stages,
    )
