"""What a worker says became of its step, for each kind of step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stepwell.core.attempts import LEASE_LOST, again, end_attempt, holder
from stepwell.core.commands import accept_plan, drop_total_timer, plan_violations
from stepwell.core.dispatch import (
    INPUT_TIMER,
    enter,
    finish_iteration,
    succeed,
)
from stepwell.core.draft import Draft
from stepwell.core.failures import fail_attempt
from stepwell.core.inputs import (
    Completed,
    Delivery,
    Failed,
    NeedsInput,
    Planned,
    Reflected,
    Released,
    Reply,
    ReplyStatus,
)
from stepwell.core.model import (
    Execution,
    Failure,
    InputRequest,
    Violation,
)
from stepwell.core.ports import Timer
from stepwell.core.states import (
    Decision,
    EventType,
    ExecutionStatus,
    FinishReason,
    InputStatus,
    PlanTrigger,
    StepKind,
    TaskStatus,
)
from stepwell.core.table import Trigger


def deliver(draft: Draft, delivery: Delivery) -> Reply:
    """Take what a worker says became of its execution, if it still is its execution."""
    execution = holder(draft, delivery.execution_id, delivery.token)
    if execution is None:
        return LEASE_LOST
    draft.messages.extend(
        replace(
            message,
            task_id=execution.task_id,
            execution_id=execution.execution_id,
            session=delivery.session,
        )
        for message in delivery.messages
    )
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


def _complete_task(
    draft: Draft, execution: Execution, delivery: Delivery, _result: Completed
) -> Reply:
    task_id = execution.task_id
    draft.event(EventType.TASK_COMPLETED, task_id=task_id, execution_id=execution.execution_id)
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
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
    replanned = draft.run.plan_revision > 0
    why = PlanTrigger.REPLANNED if replanned else PlanTrigger.PLANNED
    accept_plan(draft, result.tasks, why, result.reason, Trigger.PLAN_ACCEPTED)
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
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
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
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
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
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
    end_attempt(draft, execution, ExecutionStatus.NEEDS_INPUT, delivery)
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
    end_attempt(draft, execution, ExecutionStatus.RELEASED, delivery)
    again(draft, execution, 0)
    return Reply()


_RESULTS: dict[tuple[StepKind, type[Any]], Callable[[Draft, Execution, Delivery, Any], Reply]] = {
    (StepKind.PLAN, Planned): _plan,
    (StepKind.TASK, Completed): _complete_task,
    (StepKind.TASK, NeedsInput): _ask,
    (StepKind.REFLECT, Reflected): _reflect,
    (StepKind.SYNTHESIZE, Completed): _synthesize,
}
