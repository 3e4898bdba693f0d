"""What follows when an attempt fails, times out or is lost, and when the store's clock says so."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core import retry
from stepwell.core.attempts import again, end_attempt
from stepwell.core.commands import drop_total_timer
from stepwell.core.dispatch import (
    BLOCKED_TIMER,
    INPUT_TIMER,
    TOTAL_TIMER,
    close,
    drop_timer,
    fail_run,
    hold_back,
    revoke,
    withdraw_inputs,
)
from stepwell.core.draft import Draft
from stepwell.core.inputs import (
    Delivery,
    Expired,
    Reply,
    ReplyStatus,
    TimerDue,
)
from stepwell.core.model import (
    Execution,
    Failure,
    RetryPolicy,
)
from stepwell.core.ports import Fence
from stepwell.core.states import (
    SETTLED,
    BlockedKind,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    InputStatus,
    OnFailure,
    PauseReason,
    RunStatus,
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
    delivery: Delivery | None,
    *,
    said: bool = False,
) -> None:
    """End an attempt that failed, timed out or was lost; then retry it or let its step fail.

    `said`: the event that tells of it is there already.
    """
    task_id = execution.task_id
    if not said:
        draft.event(
            _ATTEMPT_ENDED[status],
            task_id=task_id,
            execution_id=execution.execution_id,
            message=failure.message,
        )
    end_attempt(draft, execution, status, delivery, failure=failure)
    policy, spent = _spend(draft, execution)
    if not retry.may_retry(policy, failure, spent):
        if execution.kind is StepKind.TASK:
            fail_task(draft, task_id, failure, execution.execution_id)
        else:
            fail_run(draft, failure)
        return
    chance = retry.chance_of(draft.context.seed, execution.execution_id)
    delay_ms = retry.backoff_ms(policy, spent, chance)
    is_task = execution.kind is StepKind.TASK
    kind = EventType.TASK_RETRY_SCHEDULED if is_task else EventType.STEP_RETRY_SCHEDULED
    draft.event(kind, task_id=task_id, execution_id=execution.execution_id)
    again(draft, execution, delay_ms)


def _spend(draft: Draft, execution: Execution) -> tuple[RetryPolicy, int]:
    """Count a failed or lost attempt; return the policy and how many it makes in this allowance."""
    run = draft.run
    if execution.kind is not StepKind.TASK:
        draft.change_run(step_spent=run.step_spent + 1)
        return run.spec.step_retry, run.step_spent + 1
    task = draft.task(execution.task_id)
    spent = (task.spent if task.allowance == run.allowance else 0) + 1
    draft.change_task(execution.task_id, spent=spent, allowance=run.allowance)
    return draft.spec(execution.task_id).retry, spent


def fail_task(draft: Draft, task_id: str, failure: Failure, execution_id: str = "") -> None:
    """Settle a task as FAILED; its policy says what that means to the run."""
    draft.event(
        EventType.TASK_FAILED, task_id=task_id, execution_id=execution_id, message=failure.message
    )
    now_us = draft.context.now_us
    withdraw_inputs(draft, task_id)
    draft.change_task(
        task_id, status=TaskStatus.FAILED, failure=failure, input_id="", ended_us=now_us
    )
    drop_total_timer(draft, task_id)
    policy = draft.spec(task_id).on_failure
    if policy is OnFailure.SKIP_DEPENDENTS:
        for dependent in draft.graph.downstream(task_id):
            if draft.task(dependent).status is TaskStatus.PENDING:
                draft.change_task(dependent, status=TaskStatus.SKIPPED, ended_us=now_us)
    elif policy is OnFailure.FAIL_RUN:
        fail_run(draft, failure)


def expire(draft: Draft, one: Expired) -> Reply:
    """Take a lease that the store's clock ended from its worker."""
    held = draft.held(one.execution_id)
    if (
        held is None
        or held.execution.status is not ExecutionStatus.LEASED
        or held.token != one.token
    ):
        return Reply(status=ReplyStatus.UNCHANGED)
    execution = held.execution
    draft.fences.append(Fence(execution_id=one.execution_id, token=one.token))
    status = ExecutionStatus.TIMED_OUT if one.timed_out else ExecutionStatus.LOST
    words = (
        "the attempt took longer than its time-out"
        if one.timed_out
        else f"worker {execution.worker_id!r} was not heard of for the length of the lease"
    )
    words = one.reason or words
    revoke(draft, execution, words)
    if execution.begun:
        draft.event(
            EventType.OUTCOME_UNKNOWN,
            task_id=execution.task_id,
            execution_id=execution.execution_id,
            message=words,
        )
        draft.change_execution(execution, status=ExecutionStatus.UNKNOWN_OUTCOME)
        draft.change_task(execution.task_id, status=TaskStatus.BLOCKED)
        return Reply()
    fail_attempt(draft, execution, status, Failure(kind=status, message=words), None)
    return Reply()


def timer_due(draft: Draft, one: TimerDue) -> Reply:
    """Do what a timer was set for. One that outlived its purpose does nothing."""
    if draft.run.ended:
        return Reply(status=ReplyStatus.UNCHANGED)
    if one.name == BLOCKED_TIMER and draft.run.blocked_on is BlockedKind.TIMER:
        draft.event(EventType.RUN_BLOCKED)
        drop_timer(draft, BLOCKED_TIMER)
    elif one.name.startswith(TOTAL_TIMER):
        _total_timeout(draft, one.name.removeprefix(TOTAL_TIMER))
    elif one.name.startswith(INPUT_TIMER):
        _input_expired(draft, one.name.removeprefix(INPUT_TIMER))
    return Reply()


def _input_expired(draft: Draft, input_id: str) -> None:
    """Do what an unanswered input request asked for in that case."""
    request = draft.open_input(input_id)
    if request is None:
        return
    draft.event(EventType.INPUT_EXPIRED, task_id=request.task_id, input_id=input_id)
    drop_timer(draft, INPUT_TIMER + input_id)
    if request.on_expiry is ExpiryAction.WAIT:
        return
    if request.on_expiry is ExpiryAction.PAUSE:
        if draft.run.status is not RunStatus.PAUSED:
            hold_back(draft, PauseReason.INPUT_EXPIRED, f"{input_id} was not answered in time")
        return
    now_us = draft.context.now_us
    draft.put_input(replace(request, status=InputStatus.EXPIRED, ended_us=now_us))
    denied = request.on_expiry is ExpiryAction.DENY
    failure = Failure(
        kind="DENIED" if denied else "INPUT_EXPIRED",
        message=f"{input_id} was not answered in time",
        retryable=False,
    )
    fail_task(draft, request.task_id, failure)


def _total_timeout(draft: Draft, task_id: str) -> None:
    """End a task whose time for all its attempts is over, whatever it is doing."""
    if draft.task(task_id).status in SETTLED:
        return
    for execution in tuple(draft.open_executions()):
        if execution.task_id == task_id:
            draft.event(
                EventType.EXECUTION_TIMED_OUT,
                task_id=task_id,
                execution_id=execution.execution_id,
                message="the task's total time-out",
            )
            close(draft, execution, ExecutionStatus.TIMED_OUT, reason="the task's time is over")
    ms = draft.spec(task_id).total_timeout_ms
    failure = Failure(
        kind="TOTAL_TIMEOUT",
        message=f"not completed within its total time-out of {ms / 1000:g} s",
        retryable=False,
    )
    fail_task(draft, task_id, failure)
