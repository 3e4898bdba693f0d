"""Failed, timed out and lost attempts: each is retried, or its step fails."""

from __future__ import annotations

from stepwell.core.loop import reconcile, retry
from stepwell.core.loop.attempts import end_attempt, offer_again
from stepwell.core.loop.closing import fail_run, fail_task
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.loss_allowance import POISON, count_loss
from stepwell.core.loop.occurrences import Delivery, LeaseExpired
from stepwell.core.loop.renewals import attempt_failed
from stepwell.core.loop.transition import Reply
from stepwell.core.records.model import Execution, Failure, RetryPolicy
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    StepKind,
)

_ATTEMPT_ENDED = {
    ExecutionStatus.FAILED: EventType.EXECUTION_FAILED,
    ExecutionStatus.TIMED_OUT: EventType.EXECUTION_TIMED_OUT,
    ExecutionStatus.LOST: EventType.LEASE_LOST,
}


def fail_attempt(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    failure: Failure,
    report: Delivery | LeaseExpired | None,
    *,
    has_event: bool = False,
) -> None:
    """End an attempt that failed or timed out; then retry it or let its step fail.

    `report` is the worker's last report; `has_event` says that the current event is already about
    this failure.
    """
    if not has_event:
        _report_end(draft, execution, status, failure)
    end_attempt(draft, execution, status, report, failure)
    policy = _policy_of(draft, execution)
    spent = _spend(draft, execution)
    attempt_failed(draft, execution, failure)
    if spent < policy.max_attempts and retry.may_retry(policy, failure):
        _try_again(draft, execution, policy, spent, failure.retry_after_ms)
    else:
        _fail_step(draft, execution, failure)


def fail_child(draft: Draft, execution: Execution, failure: Failure) -> None:
    """Retry a task whose child run has ended without a result, as this execution, or let the task fail."""
    policy = _policy_of(draft, execution)
    spent = _spend(draft, execution)
    if spent < policy.max_attempts and retry.may_retry(policy, failure):
        _try_again(draft, execution, policy, spent)
    else:
        _fail_step(draft, execution, failure)


def lose_attempt(
    draft: Draft, execution: Execution, instance: str, failure: Failure, expired: LeaseExpired
) -> Reply:
    """End an attempt that was lost with this worker instance; then retry it or let its step fail.

    The reply's reason is POISON if the step was found to be poison.
    """
    _report_end(draft, execution, ExecutionStatus.LOST, failure)
    end_attempt(draft, execution, ExecutionStatus.LOST, expired, failure)
    policy = _policy_of(draft, execution)
    losses, poison = count_loss(draft, execution, instance, expired)
    if poison is not None:
        draft.event(
            EventType.STEP_POISONED,
            task_id=execution.task_id,
            execution_id=execution.execution_id,
            message=poison.message,
        )
        _fail_step(draft, execution, poison)
        return Reply(reason=POISON, message=poison.message)
    # A step that must never run twice doesn't, whatever caused the loss.
    if losses.count <= policy.max_losses > 0 and retry.may_retry(policy, failure):
        _try_again(draft, execution, policy, losses.count)
    else:
        _fail_step(draft, execution, failure)
    return Reply()


def _report_end(
    draft: Draft, execution: Execution, status: ExecutionStatus, failure: Failure
) -> None:
    draft.event(
        _ATTEMPT_ENDED[status],
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        message=failure.message,
    )


def _fail_step(draft: Draft, execution: Execution, failure: Failure) -> None:
    """Fail a step whose last attempt has ended."""
    if execution.kind is StepKind.TASK:
        fail_task(draft, execution.task_id, failure, execution.execution_id)
    elif execution.kind is StepKind.RECONCILE:
        message = f"{execution.execution_id}, which looked into it, failed: {failure.message}"
        reconcile.leave_to_a_person(draft, execution.task_id, message)
    else:
        fail_run(draft, failure)


def _try_again(
    draft: Draft, execution: Execution, policy: RetryPolicy, count: int, least_ms: int = 0
) -> None:
    """Offer the next attempt after the back-off of the `count`-th failure or loss.

    The back-off is at least `least_ms`.
    """
    chance = retry.chance_of(draft.context.seed, execution.execution_id)
    is_task = execution.kind is StepKind.TASK
    kind = EventType.TASK_RETRY_SCHEDULED if is_task else EventType.STEP_RETRY_SCHEDULED
    draft.event(kind, task_id=execution.task_id, execution_id=execution.execution_id)
    offer_again(draft, execution, max(least_ms, retry.backoff_ms(policy, count, chance)))


def _policy_of(draft: Draft, execution: Execution) -> RetryPolicy:
    is_task = execution.kind is StepKind.TASK
    return draft.spec(execution.task_id).retry if is_task else draft.run.spec.step_retry


def _spend(draft: Draft, execution: Execution) -> int:
    """Count a failed attempt, within the current event; return the number of failed attempts in this allowance."""
    run = draft.run
    if execution.kind is StepKind.RECONCILE:
        return reconcile.spend(draft, execution.task_id)
    if execution.kind is not StepKind.TASK:
        draft.change_run(step_spent=run.step_spent + 1)
        return draft.run.step_spent
    task = draft.task(execution.task_id)
    spent = (task.spent if task.allowance == run.allowance else 0) + 1
    draft.change_task(execution.task_id, spent=spent, allowance=run.allowance)
    return spent
