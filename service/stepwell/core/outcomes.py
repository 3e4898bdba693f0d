"""What becomes of executions: leases, outcomes, failures, expiries."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core import retry
from stepwell.core.commands import accept_plan, drop_total_timer, plan_violations
from stepwell.core.dispatch import (
    BLOCKED_TIMER,
    INPUT_TIMER,
    TOTAL_TIMER,
    close,
    drop_timer,
    enter,
    fail_run,
    finish_iteration,
    hold_back,
    offer_step,
    offer_task,
    revoke,
    succeed,
    withdraw_inputs,
)
from stepwell.core.draft import Draft
from stepwell.core.inputs import (
    Begin,
    Completed,
    Delivery,
    Expired,
    Failed,
    NeedsInput,
    Planned,
    Reflected,
    Released,
    Reply,
    ReplyStatus,
    TakeLease,
    TimerDue,
)
from stepwell.core.model import (
    Execution,
    Failure,
    InputRequest,
    Outcome,
    RetryPolicy,
    Session,
    Usage,
    Violation,
)
from stepwell.core.ports import Fence, Lease, Timer
from stepwell.core.states import (
    SETTLED,
    BlockedKind,
    Decision,
    Effect,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    FinishReason,
    InputStatus,
    OnFailure,
    PauseReason,
    PlanTrigger,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.core.table import Trigger

_ATTEMPT_ENDED = {
    ExecutionStatus.FAILED: EventType.EXECUTION_FAILED,
    ExecutionStatus.TIMED_OUT: EventType.EXECUTION_TIMED_OUT,
    ExecutionStatus.LOST: EventType.LEASE_LOST,
}

_LEASE_LOST = Reply(
    status=ReplyStatus.LEASE_LOST,
    reason="LEASE_LOST",
    message="this execution is not yours any more; drop its outcome",
)


# --- leases --------------------------------------------------------------------------------------


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


def _holder(draft: Draft, execution_id: str, token: str) -> Execution | None:
    """Return the execution if this token is that of its lease, superseded by nothing."""
    held = draft.held(execution_id)
    if held is None or not held.token or not hmac.compare_digest(held.token, token):
        return None
    draft.fences.append(Fence(execution_id=execution_id, token=token))
    return held.execution


def begin(draft: Draft, one: Begin) -> Reply:
    """Note that an AT_MOST_ONCE worker starts; from now on its loss leaves the outcome unknown."""
    execution = _holder(draft, one.execution_id, one.token)
    if execution is None or execution.status is not ExecutionStatus.LEASED:
        return _LEASE_LOST
    if execution.begun or not _at_most_once(draft, execution):
        return Reply(status=ReplyStatus.UNCHANGED)
    draft.event(EventType.EXECUTION_BEGUN, task_id=execution.task_id, execution_id=one.execution_id)
    draft.change_execution(execution, begun=True)
    return Reply()


def _at_most_once(draft: Draft, execution: Execution) -> bool:
    is_task = execution.kind is StepKind.TASK
    return is_task and draft.spec(execution.task_id).effect is Effect.AT_MOST_ONCE


# --- outcomes ------------------------------------------------------------------------------------


def deliver(draft: Draft, delivery: Delivery) -> Reply:
    """Take what a worker says became of its execution, if it still is its execution."""
    execution = _holder(draft, delivery.execution_id, delivery.token)
    if execution is None:
        return _LEASE_LOST
    for message in delivery.messages:
        draft.messages.append(message)
    result = delivery.result
    handler = _RESULTS.get((execution.kind, type(result)))
    if handler is None:
        if isinstance(result, Released):
            return _release(draft, execution, delivery)
        failure = result.failure if isinstance(result, Failed) else _wrong_kind(execution, result)
        fail_attempt(draft, execution, ExecutionStatus.FAILED, failure, delivery)
        rejected = not isinstance(result, Failed)
        return _rejected(failure) if rejected else Reply()
    return handler(draft, execution, delivery, result)


def _wrong_kind(execution: Execution, result: object) -> Failure:
    return Failure(
        kind="INVALID_OUTCOME",
        message=f"{type(result).__name__} is no outcome of a {execution.kind} step",
    )


def _rejected(failure: Failure) -> Reply:
    return Reply(
        status=ReplyStatus.REJECTED,
        reason=failure.kind,
        message=failure.message,
        violations=failure.violations,
    )


def _end_attempt(
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


def _complete_task(
    draft: Draft, execution: Execution, delivery: Delivery, _result: Completed
) -> Reply:
    task_id = execution.task_id
    draft.event(EventType.TASK_COMPLETED, task_id=task_id, execution_id=execution.execution_id)
    _end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    draft.change_task(
        task_id,
        status=TaskStatus.COMPLETED,
        result_id=execution.execution_id,
        ended_us=draft.context.now_us,
    )
    drop_total_timer(draft, task_id)
    return Reply()


def _plan(draft: Draft, execution: Execution, delivery: Delivery, result: Planned) -> Reply:
    violations = plan_violations(draft, result.tasks)
    if violations:
        return _reject_plan(draft, execution, delivery, violations)
    again = draft.run.plan_revision > 0
    why = PlanTrigger.REPLANNED if again else PlanTrigger.PLANNED
    accept_plan(draft, result.tasks, why, result.reason, Trigger.PLAN_ACCEPTED)
    _end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    return Reply()


def _reject_plan(
    draft: Draft, execution: Execution, delivery: Delivery, violations: tuple[Violation, ...]
) -> Reply:
    first = violations[0]
    failure = Failure(
        kind="PLAN_INVALID",
        message=f"{first.field}: {first.description}",
        violations=violations,
    )
    draft.event(
        EventType.PLAN_REJECTED, execution_id=execution.execution_id, message=failure.message
    )
    fail_attempt(draft, execution, ExecutionStatus.FAILED, failure, delivery, said=True)
    return _rejected(failure)


def _reflect(draft: Draft, execution: Execution, delivery: Delivery, result: Reflected) -> Reply:
    last = draft.run.iteration >= draft.run.spec.max_iterations
    goes_on = result.decision is Decision.CONTINUE and not last
    if goes_on and (violations := plan_violations(draft, result.tasks)):
        return _reject_plan(draft, execution, delivery, violations)
    draft.event(
        EventType.REFLECTION_ACCEPTED,
        execution_id=execution.execution_id,
        message=f"{result.decision.lower()}: {result.reason}" if result.reason else "",
    )
    _end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    draft.change_run(reason=result.reason)
    if last or result.decision is Decision.FINISH:
        finished = result.decision is Decision.FINISH
        reason = FinishReason.FINISHED if finished else FinishReason.MAX_ITERATIONS
        finish_iteration(draft, Trigger.FINISH, reason)
        return Reply()
    draft.event(EventType.ITERATION_COMPLETED)
    if goes_on:
        why = PlanTrigger.CONTINUED
        accept_plan(draft, result.tasks, why, result.reason, Trigger.CONTINUE)
    else:
        enter(draft, Trigger.REPLAN, iteration=draft.run.iteration + 1)
    return Reply()


def _synthesize(
    draft: Draft, execution: Execution, delivery: Delivery, _result: Completed
) -> Reply:
    succeed(draft, execution.execution_id)
    _end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    return Reply()


def _ask(draft: Draft, execution: Execution, delivery: Delivery, result: NeedsInput) -> Reply:
    input_id = f"input:{execution.execution_id}"
    draft.event(
        EventType.INPUT_REQUESTED,
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        input_id=input_id,
        message=result.prompt,
    )
    _end_attempt(draft, execution, ExecutionStatus.NEEDS_INPUT, delivery)
    draft.change_task(execution.task_id, status=TaskStatus.BLOCKED, input_id=input_id)
    draft.put_input(
        InputRequest(
            input_id=input_id,
            task_id=execution.task_id,
            execution_id=execution.execution_id,
            kind=result.kind,
            prompt=result.prompt,
            schema=result.schema,
            choices=result.choices,
            expires_ms=result.expires_ms,
            on_expiry=result.on_expiry,
            created_us=draft.context.now_us,
            status=InputStatus.OPEN,
        )
    )
    if result.expires_ms:
        name = INPUT_TIMER + input_id
        draft.timers[name] = Timer(name=name, delay_ms=result.expires_ms)
    return Reply()


def _release(draft: Draft, execution: Execution, delivery: Delivery) -> Reply:
    """Hand the step to someone else at once; no attempt is spent."""
    reason = delivery.result.reason if isinstance(delivery.result, Released) else ""
    draft.event(
        EventType.EXECUTION_RELEASED,
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        message=reason,
    )
    _end_attempt(draft, execution, ExecutionStatus.RELEASED, delivery)
    _again(draft, execution, 0)
    return Reply()


def _again(draft: Draft, execution: Execution, delay_ms: int) -> None:
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


_RESULTS: dict[tuple[StepKind, type[Any]], Callable[[Draft, Execution, Delivery, Any], Reply]] = {
    (StepKind.PLAN, Planned): _plan,
    (StepKind.TASK, Completed): _complete_task,
    (StepKind.TASK, NeedsInput): _ask,
    (StepKind.REFLECT, Reflected): _reflect,
    (StepKind.SYNTHESIZE, Completed): _synthesize,
}


# --- failures ------------------------------------------------------------------------------------


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
    _end_attempt(draft, execution, status, delivery, failure=failure)
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
    _again(draft, execution, delay_ms)


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
