"""Failed, timed out and lost attempts: each is retried, or its step fails."""

from __future__ import annotations

from stepwell.core.loop import carryover, reconcile, retry
from stepwell.core.loop.attempts import end_attempt, offer_again, release
from stepwell.core.loop.changes import TaskFields
from stepwell.core.loop.closing import (
    close,
    drop_total_timer,
    fail_run,
    make_unknown,
    revoke,
    skip_dependents,
    withdraw_inputs,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.replies import UNCHANGED
from stepwell.core.loop.signals import Delivery, LeaseExpired, Reply
from stepwell.core.port import Fence
from stepwell.core.records.model import Execution, Failure, RetryPolicy, Session
from stepwell.core.records.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    OnFailure,
    StepKind,
    TaskStatus,
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
    """End an attempt that failed, timed out or was lost; then retry it or let its step fail.

    `report` is the worker's last one; `has_event`: the current event is about this failure already.
    """
    task_id = execution.task_id
    if not has_event:
        draft.event(
            _ATTEMPT_ENDED[status],
            task_id=task_id,
            execution_id=execution.execution_id,
            message=failure.message,
        )
    end_attempt(draft, execution, status, report, failure)
    policy, spent = _spend(draft, execution)
    if not retry.may_retry(policy, failure, spent):
        if execution.kind is StepKind.TASK:
            fail_task(draft, task_id, failure, execution.execution_id)
        elif execution.kind is StepKind.RECONCILE:
            message = f"{execution.execution_id}, which looked into it, failed: {failure.message}"
            reconcile.leave_to_a_person(draft, task_id, message)
        else:
            fail_run(draft, failure)
        return
    chance = retry.chance_of(draft.context.seed, execution.execution_id)
    delay_ms = retry.backoff_ms(policy, spent, chance)
    is_task = execution.kind is StepKind.TASK
    kind = EventType.TASK_RETRY_SCHEDULED if is_task else EventType.STEP_RETRY_SCHEDULED
    draft.event(kind, task_id=task_id, execution_id=execution.execution_id)
    offer_again(draft, execution, delay_ms)


def _spend(draft: Draft, execution: Execution) -> tuple[RetryPolicy, int]:
    """Count a failed or lost attempt; return the retry policy and their number in this allowance."""
    run = draft.run
    if execution.kind is StepKind.RECONCILE:
        return reconcile.spend(draft, execution.task_id)
    if execution.kind is not StepKind.TASK:
        draft.change_run(step_spent=run.step_spent + 1)
        return run.spec.step_retry, run.step_spent + 1
    task = draft.task(execution.task_id)
    spent = (task.spent if task.allowance == run.allowance else 0) + 1
    draft.change_task(execution.task_id, spent=spent, allowance=run.allowance)
    return draft.spec(execution.task_id).retry, spent


def fail_task(draft: Draft, task_id: str, failure: Failure, execution_id: str = "") -> None:
    """Settle a task as FAILED; its failure policy decides what follows for the run."""
    draft.event(
        EventType.TASK_FAILED, task_id=task_id, execution_id=execution_id, message=failure.message
    )
    now_us = draft.context.now_us
    fields: TaskFields = {"status": TaskStatus.FAILED, "failure": failure, "ended_us": now_us}
    # An answered request stays for the attempts that a resume or a retry may bring.
    if withdraw_inputs(draft, task_id):
        fields["input_id"] = ""
    draft.change_task(task_id, **fields)
    drop_total_timer(draft, task_id)
    policy = draft.spec(task_id).on_failure
    if policy is OnFailure.SKIP_DEPENDENTS:
        skip_dependents(draft, task_id)
    elif policy is OnFailure.FAIL_RUN:
        fail_run(draft, failure)


def expire(draft: Draft, one: LeaseExpired) -> Reply:
    """End a lease that expired: retry the step, or mark its outcome as unknown if it was begun."""
    held = draft.held(one.execution_id)
    if (
        held is None
        or held.execution.status is not ExecutionStatus.LEASED
        or held.token != one.token
    ):
        return UNCHANGED
    execution = held.execution
    draft.fences.append(Fence(execution_id=one.execution_id, token=one.token))
    status = ExecutionStatus.TIMED_OUT if one.timed_out else ExecutionStatus.LOST
    why = (
        "the attempt took longer than its time-out"
        if one.timed_out
        else f"worker {execution.worker_id!r} was not heard of for the length of the lease"
    )
    why = one.reason or why
    # A worker that has begun may go on without a lease: its late delivery settles the outcome. A worker
    # that never received the assignment needs no notification of its end.
    if one.timed_out or not (execution.begun or one.undelivered):
        revoke(draft, execution, why)
    if execution.begun:
        draft.event(
            EventType.OUTCOME_UNKNOWN,
            task_id=execution.task_id,
            execution_id=execution.execution_id,
            message=why,
        )
        make_unknown(draft, execution)
        lost = Failure(kind=status, message=why)
        carryover.keep(draft, execution, session=one.session, progress=one.progress, failure=lost)
        return Reply()
    if one.undelivered:
        release(draft, execution, one, why)
        return Reply()
    fail_attempt(draft, execution, status, Failure(kind=status, message=why), one)
    return Reply()


def total_timeout(draft: Draft, task_id: str) -> None:
    """Fail a task whose total time-out passed, whatever it is doing."""
    if draft.task(task_id).status in SETTLED:
        return
    ms = draft.spec(task_id).total_timeout_ms
    failure = Failure(
        kind="TOTAL_TIMEOUT",
        message=f"not completed within its total time-out of {ms / 1000:g} s",
        retryable=False,
    )
    for execution in tuple(draft.open_executions()):
        if execution.task_id == task_id and execution.kind is StepKind.TASK:
            draft.event(
                EventType.EXECUTION_TIMED_OUT,
                task_id=task_id,
                execution_id=execution.execution_id,
                message="the task's total time-out",
            )
            if execution.worker_id:
                carryover.keep(draft, execution, session=Session(), progress=None, failure=failure)
            close(draft, execution, ExecutionStatus.TIMED_OUT, reason="the task's time is over")
    fail_task(draft, task_id, failure)
