"""Deliveries: applies the result that a worker sends, by kind of step."""

from __future__ import annotations

from stepwell.core.loop import no_progress, signals, thread_messages
from stepwell.core.loop.attempts import end_attempt, leased_by, release
from stepwell.core.loop.closing import complete_task, pause_run
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_attempt
from stepwell.core.loop.occurrences import (
    Completed,
    Delivery,
    Failed,
    NeedsAnswer,
    Planned,
    Reconciled,
    Reflected,
    Released,
    Suspended,
    UnknownCall,
)
from stepwell.core.loop.opening import refusal
from stepwell.core.loop.phases import drop_rest, enter_phase, finish_iteration, succeed
from stepwell.core.loop.plans import accept_growth, accept_plan, grown, plan_violations
from stepwell.core.loop.questions import ask
from stepwell.core.loop.receipts import receipt_of
from stepwell.core.loop.resolution import reconciled
from stepwell.core.loop.suspending import suspend
from stepwell.core.loop.table import Trigger
from stepwell.core.loop.transition import LEASE_LOST, Reply, ReplyStatus
from stepwell.core.loop.unknown_calls import call_unknown
from stepwell.core.records.errors import INVALID_OUTCOME
from stepwell.core.records.model import Execution, Failure, TaskSpec, Violation
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
    """Apply a worker's delivery if the worker still holds the lease, and keep its receipt."""
    execution = leased_by(draft, delivery.execution_id, delivery.token, ends=True)
    if execution is None:
        return LEASE_LOST
    reply = _apply(draft, execution, delivery)
    draft.put_receipt(delivery.execution_id, receipt_of(delivery, reply))
    return reply


def _apply(draft: Draft, execution: Execution, delivery: Delivery) -> Reply:
    if (failure := thread_messages.refusal(draft, execution, delivery)) is not None:
        return _refuse(draft, execution, delivery, failure)
    match execution.kind, delivery.result:
        case StepKind.TASK, Completed(tasks=tasks):
            return _complete_task(draft, execution, delivery, tasks)
        case StepKind.PLAN, Planned() as result:
            return _plan(draft, execution, delivery, result)
        case StepKind.TASK, NeedsAnswer() as result:
            return ask(draft, execution, delivery, result)
        case StepKind.REFLECT, Reflected() as result:
            return _reflect(draft, execution, delivery, result)
        case StepKind.SYNTHESIZE, Completed(tasks=()):
            return _synthesize(draft, execution, delivery)
        case StepKind.RECONCILE, Reconciled() as result:
            return reconciled(draft, execution, delivery, result)
        case _, Suspended() as result if execution.kind is not StepKind.RECONCILE:
            if (failure := refusal(draft, execution, result.waits)) is not None:
                return _refuse(draft, execution, delivery, failure)
            return suspend(draft, execution, delivery, result)
        case _, UnknownCall() as result if execution.kind is not StepKind.RECONCILE:
            return call_unknown(draft, execution, delivery, result)
        case _, Released(reason=reason):
            release(draft, execution, delivery, reason)
            return Reply()
        case _, Failed(failure=failure):
            fail_attempt(draft, execution, ExecutionStatus.FAILED, failure, delivery)
            return Reply()
        case _, Completed(tasks=(_, *_)):
            failure = Failure(kind=INVALID_OUTCOME, message="only a task adds tasks to the plan")
            return _refuse(draft, execution, delivery, failure)
        case _, result:
            return _refuse(draft, execution, delivery, _wrong_kind(execution, result))


def _refuse(draft: Draft, execution: Execution, delivery: Delivery, failure: Failure) -> Reply:
    fail_attempt(draft, execution, ExecutionStatus.FAILED, failure, delivery)
    return _rejected(failure)


def _wrong_kind(execution: Execution, result: object) -> Failure:
    return Failure(
        kind=INVALID_OUTCOME,
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
    draft: Draft, execution: Execution, delivery: Delivery, added: tuple[TaskSpec, ...]
) -> Reply:
    task_id = execution.task_id
    tasks: tuple[TaskSpec, ...] = ()
    if added:
        tasks, violations = grown(draft, task_id, added)
        if violations:
            return _reject_plan(draft, execution, delivery, violations)
    thread_messages.send(draft, execution, delivery)
    draft.event(EventType.TASK_COMPLETED, task_id=task_id, execution_id=execution.execution_id)
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    complete_task(draft, task_id, execution.execution_id)
    if tasks:
        accept_growth(draft, task_id, tasks)
    return Reply()


def _plan(draft: Draft, execution: Execution, delivery: Delivery, result: Planned) -> Reply:
    violations = plan_violations(draft, result.tasks)
    if violations:
        return _reject_plan(draft, execution, delivery, violations)
    thread_messages.send(draft, execution, delivery)
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
        EventType.PLAN_REJECTED,
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        message=failure.message,
    )
    fail_attempt(draft, execution, ExecutionStatus.FAILED, failure, delivery, has_event=True)
    return _rejected(failure)


def _reflect(draft: Draft, execution: Execution, delivery: Delivery, result: Reflected) -> Reply:
    last = draft.run.stopping or draft.run.iteration >= draft.run.spec.max_iterations
    continues = result.decision is Decision.CONTINUE and not last
    # Steering may change nothing, and in the last iteration it can't change the plan.
    same = not result.tasks and result.decision is Decision.CONTINUE
    same = same or (last and result.decision is not Decision.FINISH)
    goes_on = same and draft.run.signals.early
    if continues and not goes_on and (violations := plan_violations(draft, result.tasks)):
        return _reject_plan(draft, execution, delivery, violations)
    thread_messages.send(draft, execution, delivery)
    decision = result.decision.lower()
    draft.event(
        EventType.REFLECTION_ACCEPTED,
        execution_id=execution.execution_id,
        message=f"{decision}: {result.reason}" if result.reason else decision,
    )
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    draft.change_run(reason=result.reason)
    signals.take_shown(draft, execution)
    if goes_on:
        enter_phase(draft, Trigger.GO_ON)
        return Reply()
    if (last or result.decision is Decision.FINISH) and draft.run.signals.steering:
        # The reflection wasn't shown what came meanwhile.
        enter_phase(draft, Trigger.STEERED)
        return Reply()
    if last or result.decision is Decision.FINISH:
        drop_rest(draft)
        finish_iteration(draft, Trigger.FINISH, _why_finished(draft, result.decision))
        return Reply()
    revision = draft.run.plan_revision
    draft.event(EventType.ITERATION_COMPLETED)
    if no_progress.is_watched(draft.run):
        tally = no_progress.iteration_ended(draft.run.tally, draft.plan_fingerprint)
        draft.change_run(tally=tally)
    if continues:
        why = PlanTrigger.CONTINUED
        accept_plan(draft, result.tasks, why, result.reason, Trigger.CONTINUE)
    else:
        enter_phase(draft, Trigger.REPLAN, iteration=draft.run.iteration + 1)
    if no_progress.is_over_limit(draft.run) and draft.run.status is not RunStatus.PAUSED:
        message = no_progress.describe(draft.run, revision)
        draft.event(EventType.RUN_PAUSED, message=message)
        pause_run(draft, PauseReason.NO_PROGRESS, message)
    return Reply()


def _why_finished(draft: Draft, decision: Decision) -> FinishReason:
    if decision is Decision.FINISH:
        return FinishReason.FINISHED
    return FinishReason.STOPPED if draft.run.stopping else FinishReason.MAX_ITERATIONS


def _synthesize(draft: Draft, execution: Execution, delivery: Delivery) -> Reply:
    thread_messages.send(draft, execution, delivery)
    succeed(draft, execution.execution_id)
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    return Reply()
