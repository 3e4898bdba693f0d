"""One attempt at a step: leased, begun, handed back, closed."""

from __future__ import annotations

import hmac
from typing import Any

from stepwell.core.dispatch import (
    close,
    offer_step,
    offer_task,
)
from stepwell.core.draft import Draft
from stepwell.core.inputs import (
    Begin,
    Completed,
    Delivery,
    Reply,
    ReplyStatus,
    TakeLease,
)
from stepwell.core.model import (
    Execution,
    Outcome,
    Session,
    Usage,
)
from stepwell.core.ports import Fence, Lease
from stepwell.core.states import (
    Effect,
    EventType,
    ExecutionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
)

LEASE_LOST = Reply(
    status=ReplyStatus.LEASE_LOST,
    reason="LEASE_LOST",
    message="this execution is not yours any more; drop its outcome",
)


def take_lease(draft: Draft, one: TakeLease) -> Reply:
    """Lease a READY execution. Claimed and eager leases both come through here."""
    held = draft.held(one.execution_id)
    if (
        held is None
        or held.execution.status is not ExecutionStatus.READY
        or draft.run.status is RunStatus.PAUSED
    ):
        return Reply(status=ReplyStatus.REFUSED, reason="NOT_READY", message="it isn't ready")
    execution, now_us = held.execution, draft.context.now_us
    draft.event(
        EventType.EXECUTION_LEASED, task_id=execution.task_id, execution_id=one.execution_id
    )
    draft.change_execution(
        execution, status=ExecutionStatus.LEASED, worker_id=one.worker_id, leased_us=now_us
    )
    lease_ms, limit_ms = draft.context.lease_ms, draft.run.spec.step_timeout_ms
    if execution.kind is StepKind.TASK:
        task, spec = draft.task(execution.task_id), draft.spec(execution.task_id)
        lease_ms, limit_ms = spec.heartbeat_timeout_ms or lease_ms, spec.attempt_timeout_ms
        started = {} if task.started_us else {"started_us": now_us}
        draft.change_task(execution.task_id, status=TaskStatus.RUNNING, **started)
    elif execution.kind is StepKind.PLAN and not draft.run.stages_fixed:
        draft.change_run(stages=one.stages)
    if not draft.run.started_us:
        draft.change_run(started_us=now_us)
    draft.leases.append(
        Lease(
            execution_id=one.execution_id,
            token=one.token,
            worker_id=one.worker_id,
            instance_id=one.instance_id,
            lease_ms=lease_ms,
            limit_ms=limit_ms,
        )
    )
    return Reply()


def holder(draft: Draft, execution_id: str, token: str) -> Execution | None:
    """Return the execution if this token is that of its lease, superseded by nothing."""
    held = draft.held(execution_id)
    if held is None or not held.token or not hmac.compare_digest(held.token, token):
        return None
    draft.fences.append(Fence(execution_id=execution_id, token=token))
    return held.execution


def begin(draft: Draft, one: Begin) -> Reply:
    """Note that an AT_MOST_ONCE worker starts; from now on its loss leaves the outcome unknown."""
    execution = holder(draft, one.execution_id, one.token)
    if execution is None or execution.status is not ExecutionStatus.LEASED:
        return LEASE_LOST
    if execution.begun or not at_most_once(draft, execution):
        return Reply(status=ReplyStatus.UNCHANGED)
    draft.event(EventType.EXECUTION_BEGUN, task_id=execution.task_id, execution_id=one.execution_id)
    draft.change_execution(execution, begun=True)
    return Reply()


def at_most_once(draft: Draft, execution: Execution) -> bool:
    """Tell whether it may not be run again once it was begun."""
    is_task = execution.kind is StepKind.TASK
    return is_task and draft.spec(execution.task_id).effect is Effect.AT_MOST_ONCE


def end_attempt(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    delivery: Delivery | None,
    **fields: Any,
) -> None:
    """Close the execution with all that its worker left behind; usage counts once per attempt."""
    if delivery is not None:
        if delivery.usage != Usage():
            fields["usage"] = delivery.usage
            draft.change_run(usage=draft.run.usage + delivery.usage)
        if delivery.session != Session():
            fields["session"] = delivery.session
        result = delivery.result.result if isinstance(delivery.result, Completed) else None
        if result is not None:
            fields["has_result"] = True
        if result is not None or delivery.prompt or delivery.response:
            draft.outcomes.append(
                Outcome(
                    execution_id=execution.execution_id,
                    result=result,
                    prompt=delivery.prompt,
                    response=delivery.response,
                )
            )
    close(draft, execution, status, **fields)


def again(draft: Draft, execution: Execution, delay_ms: int) -> None:
    """Offer the next attempt, or leave that to the resume where the run is paused."""
    paused = draft.run.status is RunStatus.PAUSED
    if execution.kind is not StepKind.TASK:
        if not paused:
            offer_step(draft, delay_ms=delay_ms)
    elif paused or execution.status is ExecutionStatus.UNKNOWN_OUTCOME:
        # The place that an unknown outcome had among max_parallel may be another's by now.
        draft.change_task(execution.task_id, status=TaskStatus.PENDING)
    else:
        offer_task(draft, execution.task_id, delay_ms=delay_ms)
