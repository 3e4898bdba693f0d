"""One attempt at a step: leased, begun, handed back, closed."""

from __future__ import annotations

import hmac
from typing import Any

from stepwell.core.loop import budgets, carryover
from stepwell.core.loop.conversation import append, unsaid
from stepwell.core.loop.dispatch import close, offer_reconcile, offer_step, offer_task
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.signals import (
    AppendMessages,
    Begin,
    Completed,
    Delivery,
    GrantLease,
    LeaseExpired,
    Reply,
    ReplyStatus,
)
from stepwell.core.port import Fence, Lease
from stepwell.core.records.model import Execution, Failure, Outcome, Session, Usage
from stepwell.core.records.states import (
    Effect,
    EventType,
    ExecutionStatus,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)

LEASE_LOST = Reply(
    status=ReplyStatus.LEASE_LOST,
    reason="LEASE_LOST",
    message="this execution is not yours any more; drop its outcome",
)


def take_lease(draft: Draft, one: GrantLease) -> Reply:
    """Lease a READY execution. Claimed and eager leases both come through here."""
    held = draft.held(one.execution_id)
    if (
        held is None
        or held.execution.status is not ExecutionStatus.READY
        or draft.run.status is RunStatus.PAUSED
        or budgets.used_up(draft.run)
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
        budgets.arm_wall(draft)
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
    if draft.run.ended:
        # Of a run that FAILED an unknown outcome is open still: it waits for the resume.
        return None
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


def say(draft: Draft, one: AppendMessages) -> Reply:
    """Append to the task's conversation before there is an outcome."""
    execution = holder(draft, one.execution_id, one.token)
    if execution is None:
        return LEASE_LOST
    new = unsaid(execution, one.messages, one.after)
    if not new:
        return Reply(status=ReplyStatus.UNCHANGED)
    draft.event(
        EventType.MESSAGES_APPENDED, task_id=execution.task_id, execution_id=one.execution_id
    )
    draft.change_execution(execution, **append(draft, execution, new, Session()))
    return Reply()


def at_most_once(draft: Draft, execution: Execution) -> bool:
    """Tell whether it may not be run again once it was begun."""
    is_task = execution.kind is StepKind.TASK
    return is_task and draft.spec(execution.task_id).effect is Effect.AT_MOST_ONCE


def end_attempt(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    said: Delivery | LeaseExpired | None,
    **fields: Any,
) -> None:
    """Close the execution with all that its worker left behind; usage counts once per attempt.

    `said`: its outcome, or what its last heartbeats brought where its lease ended without one.
    """
    if said is not None and said.session != Session():
        fields["session"] = said.session
    if isinstance(said, Delivery):
        delivery = said
        if delivery.usage != Usage():
            fields["usage"] = delivery.usage
            draft.change_run(usage=draft.run.usage + delivery.usage)
        if delivery.messages:
            new = unsaid(execution, delivery.messages, delivery.messages_after)
            fields |= append(draft, execution, new, delivery.session)
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
    if status is ExecutionStatus.COMPLETED:
        carryover.forget(draft, execution)
    elif status in _LEAVES_SOMETHING:
        carryover.leave(
            draft,
            execution,
            session=said.session if said is not None else Session(),
            progress=said.progress if said is not None else None,
            failure=fields.get("failure", Failure()),
        )
    close(draft, execution, status, **fields)


def release(draft: Draft, execution: Execution, said: Delivery | LeaseExpired, reason: str) -> None:
    """Hand the step to someone else at once; no attempt is spent."""
    draft.event(
        EventType.EXECUTION_RELEASED,
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        message=reason,
    )
    end_attempt(draft, execution, ExecutionStatus.RELEASED, said)
    again(draft, execution, 0)


_LEAVES_SOMETHING = frozenset(
    {
        ExecutionStatus.FAILED,
        ExecutionStatus.TIMED_OUT,
        ExecutionStatus.LOST,
        ExecutionStatus.RELEASED,
        ExecutionStatus.NEEDS_INPUT,
    }
)


def again(draft: Draft, execution: Execution, delay_ms: int) -> None:
    """Offer the next attempt; where the run is paused that is left to the resume, and while another
    plan is made to that plan.
    """
    paused = draft.run.status is RunStatus.PAUSED or bool(budgets.used_up(draft.run))
    if execution.kind is StepKind.RECONCILE:
        if not paused and draft.run.phase is Phase.EXECUTING:
            offer_reconcile(draft, execution.task_id, delay_ms=delay_ms)
    elif execution.kind is not StepKind.TASK:
        if not paused:
            offer_step(draft, delay_ms=delay_ms)
    elif (
        paused
        or draft.run.phase is not Phase.EXECUTING
        or execution.status is ExecutionStatus.UNKNOWN_OUTCOME
        or draft.waiting(execution.task_id)
    ):
        # The place that an unknown outcome had among max_parallel may be another's by now; and a plan
        # that carried the task over may have defined anew what it depends on.
        draft.change_task(execution.task_id, status=TaskStatus.PENDING)
    else:
        offer_task(draft, execution.task_id, delay_ms=delay_ms)
