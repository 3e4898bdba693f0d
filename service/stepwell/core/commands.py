"""What people ask of a run: start, cancel, pause, resume, answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core import graph
from stepwell.core.dispatch import (
    INPUT_TIMER,
    TOTAL_TIMER,
    close_open,
    drop_timer,
    end,
    enter,
    hold_back,
)
from stepwell.core.draft import Draft
from stepwell.core.inputs import Answer, Cancel, Pause, Reply, ReplyStatus, Resume, Start
from stepwell.core.model import Failure, Plan, Run, TaskSpec, Violation
from stepwell.core.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    InputStatus,
    OnFailure,
    PauseReason,
    Phase,
    PlanTrigger,
    RunStatus,
    TaskStatus,
)
from stepwell.core.table import Trigger

UNCHANGED = Reply(status=ReplyStatus.UNCHANGED)


def refused(reason: str, message: str) -> Reply:
    """Return the reply to a command that the run is in no state for."""
    return Reply(status=ReplyStatus.REFUSED, reason=reason, message=message)


def start(draft: Draft, command: Start) -> Reply:
    """Bring the run to life. A plan of the caller's is checked like any other."""
    if draft.run.version:
        same = draft.run.spec.request_fingerprint == command.spec.request_fingerprint
        if same and command.spec.request_fingerprint:
            return UNCHANGED
        return refused(
            "REQUEST_ID_REUSED",
            "this request_id started another run before; use a new one for a new run",
        )
    if command.plan is not None:
        violations = graph.violations_of(command.plan, ())
        if violations:
            return Reply(
                status=ReplyStatus.REFUSED,
                reason="PLAN_INVALID",
                message="the plan is not valid",
                violations=violations,
            )
    draft.run = Run(spec=command.spec)
    draft.input = command.input
    draft.event(EventType.RUN_STARTED)
    draft.change_run(created_us=draft.context.now_us, budget=command.spec.budget)
    if command.plan is not None:
        draft.change_run(stages=command.stages, stages_fixed=True)
        accept_plan(draft, command.plan, PlanTrigger.CALLER, "", Trigger.PLAN_ACCEPTED)
    return Reply()


def accept_plan(
    draft: Draft, tasks: Sequence[TaskSpec], why: PlanTrigger, reason: str, trigger: Trigger
) -> None:
    """Put a valid plan in force as the next revision and begin to execute it."""
    parent = draft.run.plan_revision
    iteration = draft.run.iteration + (trigger is Trigger.CONTINUE)
    plan = Plan(
        revision=parent + 1,
        parent_revision=parent,
        trigger=why,
        reason=reason,
        fingerprint=graph.fingerprint(tasks),
        iteration=iteration,
        tasks=tuple(tasks),
        created_us=draft.context.now_us,
    )
    draft.event(EventType.PLAN_ACCEPTED, plan_revision=plan.revision, message=reason)
    enter(draft, trigger, iteration=iteration, stages_fixed=True)
    draft.put_plan(plan)


def plan_violations(draft: Draft, tasks: Sequence[TaskSpec]) -> tuple[Violation, ...]:
    """Return what is wrong with a plan for this run as it stands."""
    settled = {
        task_id
        for task_id in draft.graph.specs
        if draft.task(task_id).status in (TaskStatus.COMPLETED, TaskStatus.FAILED)
    }
    return graph.violations_of(tasks, settled)


def cancel(draft: Draft, command: Cancel) -> Reply:
    """End the run for good: every open execution is closed, every unsettled task CANCELLED."""
    if draft.run.status is RunStatus.CANCELLED:
        return UNCHANGED
    if draft.run.ended:
        return refused(
            "RUN_ENDED", f"the run has {draft.run.status.lower()}; there is nothing to cancel"
        )
    draft.event(EventType.RUN_CANCELLED, message=command.reason)
    close_open(draft, ExecutionStatus.CANCELLED, TaskStatus.CANCELLED, "the run was cancelled")
    now_us = draft.context.now_us
    for task_id in draft.graph.specs:
        if draft.task(task_id).status not in SETTLED:
            draft.change_task(task_id, status=TaskStatus.CANCELLED, ended_us=now_us)
    end(draft, RunStatus.CANCELLED, reason=command.reason)
    return Reply()


def drop_total_timer(draft: Draft, task_id: str) -> None:
    """Take the task's total time-out away, where it has one."""
    if draft.spec(task_id).total_timeout_ms:
        drop_timer(draft, TOTAL_TIMER + task_id)


def pause(draft: Draft, command: Pause) -> Reply:
    """Dispatch nothing more. What is ready is withdrawn; what is leased may end."""
    if draft.run.status is RunStatus.PAUSED:
        return UNCHANGED
    if draft.run.ended:
        return refused(
            "RUN_ENDED", f"the run has {draft.run.status.lower()}; there is nothing to pause"
        )
    draft.event(EventType.RUN_PAUSED, message=command.reason)
    hold_back(draft, PauseReason.REQUESTED, command.reason)
    return Reply()


def resume(draft: Draft, command: Resume) -> Reply:
    """Go on where the last checkpoint stands. It never plans again by itself."""
    run = draft.run
    if run.status is RunStatus.CANCELLED:
        return refused(
            "RUN_CANCELLED", "a cancelled run is final; fork it to go on from where it was"
        )
    if run.status not in (RunStatus.PAUSED, RunStatus.FAILED):
        return UNCHANGED
    failed = run.status is RunStatus.FAILED
    draft.event(EventType.RUN_RESUMED, message=command.reason)
    retried = _failed_tasks(draft) if command.retry_failed else []
    fields: dict[str, object] = {}
    if failed or retried:
        fields["allowance"] = run.allowance + 1
    if failed:
        fields |= {"failure": Failure(), "ended_us": 0, "step_spent": 0}
    draft.change_run(
        status=RunStatus.RUNNING if run.started_us else RunStatus.QUEUED,
        pause_reason=PauseReason.NONE,
        reason=command.reason,
        **fields,
    )
    for task_id in retried:
        draft.change_task(
            task_id, status=TaskStatus.PENDING, failure=Failure(), started_us=0, ended_us=0
        )
    return Reply()


def _failed_tasks(draft: Draft) -> list[str]:
    """Return what a resume runs again: failures that stopped something, and what they stopped.

    A failure that was passed over before, so that something was built on it, stays.
    """
    if draft.run.phase is not Phase.EXECUTING:
        return []
    return [task_id for task_id in draft.graph.specs if _runs_again(draft, task_id)]


def _runs_again(draft: Draft, task_id: str) -> bool:
    status = draft.task(task_id).status
    if status is TaskStatus.FAILED and draft.spec(task_id).on_failure is OnFailure.CONTINUE:
        return False
    return status in (TaskStatus.FAILED, TaskStatus.SKIPPED) and all(
        draft.task(dependent).status in (TaskStatus.PENDING, TaskStatus.SKIPPED)
        for dependent in draft.graph.dependents.get(task_id, ())
    )


def answer(draft: Draft, command: Answer) -> Reply:
    """Give an open input request its answer; the task that asked goes on with it."""
    request = draft.open_input(command.input_id)
    if request is None:
        return refused(
            "INPUT_NOT_OPEN", f"there is no open input request {command.input_id!r} in this run"
        )
    draft.event(EventType.INPUT_ANSWERED, task_id=request.task_id, input_id=request.input_id)
    draft.put_input(
        replace(
            request,
            status=InputStatus.ANSWERED,
            answer=command.payload,
            answered_by=command.answered_by,
            ended_us=draft.context.now_us,
        )
    )
    drop_timer(draft, INPUT_TIMER + request.input_id)
    draft.change_task(request.task_id, status=TaskStatus.PENDING)
    return Reply()
