"""What a worker says became of its step, for each kind of step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.core.loop import no_progress
from stepwell.core.loop.attempts import LEASE_LOST, end_attempt, holder, release
from stepwell.core.loop.dispatch import enter, finish_iteration, hold_back, succeed
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_attempt
from stepwell.core.loop.questions import ask
from stepwell.core.loop.resolution import complete_task, reconciled
from stepwell.core.loop.run_commands import accept_plan, plan_violations
from stepwell.core.loop.signals import (
    Completed,
    Delivery,
    Failed,
    NeedsInput,
    Planned,
    Reconciled,
    Reflected,
    Released,
    Reply,
    ReplyStatus,
)
from stepwell.core.loop.table import Trigger
from stepwell.core.records.model import Execution, Failure, Violation
from stepwell.core.records.states import (
    Decision,
    EventType,
    ExecutionStatus,
    FinishReason,
    PauseReason,
    PlanTrigger,
    RunStatus,
    StepKind,
)


def deliver(draft: Draft, delivery: Delivery) -> Reply:
    """Take what a worker says became of its execution, if it still is its execution."""
    execution = holder(draft, delivery.execution_id, delivery.token)
    if execution is None:
        return LEASE_LOST
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
    complete_task(draft, task_id, execution.execution_id)
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
    fail_attempt(draft, execution, ExecutionStatus.FAILED, failure, delivery, told=True)
    return _rejected(failure)


def _reflect(draft: Draft, execution: Execution, delivery: Delivery, result: Reflected) -> Reply:
    last = draft.run.stopping or draft.run.iteration >= draft.run.spec.max_iterations
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
        finish_iteration(draft, Trigger.FINISH, _why_finished(draft, result.decision))
        return Reply()
    revision = draft.run.plan_revision
    draft.event(EventType.ITERATION_COMPLETED)
    if no_progress.is_watched(draft.run):
        tally = no_progress.iteration_ended(draft.run.tally, draft.plan_fingerprint)
        draft.change_run(tally=tally)
    if goes_on:
        why = PlanTrigger.CONTINUED
        accept_plan(draft, result.tasks, why, result.reason, Trigger.CONTINUE)
    else:
        enter(draft, Trigger.REPLAN, iteration=draft.run.iteration + 1)
    if no_progress.is_circling(draft.run) and draft.run.status is not RunStatus.PAUSED:
        words = no_progress.words_of(draft.run, revision)
        draft.event(EventType.RUN_PAUSED, message=words)
        hold_back(draft, PauseReason.NO_PROGRESS, words)
    return Reply()


def _why_finished(draft: Draft, decision: Decision) -> FinishReason:
    if decision is Decision.FINISH:
        return FinishReason.FINISHED
    return FinishReason.STOPPED if draft.run.stopping else FinishReason.MAX_ITERATIONS


def _synthesize(
    draft: Draft, execution: Execution, delivery: Delivery, _result: Completed
) -> Reply:
    succeed(draft, execution.execution_id)
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    return Reply()


def _release(draft: Draft, execution: Execution, delivery: Delivery) -> Reply:
    reason = delivery.result.reason if isinstance(delivery.result, Released) else ""
    release(draft, execution, delivery, reason)
    return Reply()


_RESULTS: dict[tuple[StepKind, type[Any]], Callable[[Draft, Execution, Delivery, Any], Reply]] = {
    (StepKind.PLAN, Planned): _plan,
    (StepKind.TASK, Completed): _complete_task,
    (StepKind.TASK, NeedsInput): ask,
    (StepKind.REFLECT, Reflected): _reflect,
    (StepKind.SYNTHESIZE, Completed): _synthesize,
    (StepKind.RECONCILE, Reconciled): reconciled,
}
