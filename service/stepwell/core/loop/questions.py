"""Input requests: a task asks, a person answers, or the request expires.

A request is a row of its own, named after the attempt that asked: so the ids of a run are unique, however
many tasks ask at once. An answer lets its own task continue and no other; all further attempts at that
task receive it.

An answer may ask for another plan. Then only the PLAN step is dispatched until that plan is in force:
READY steps are withdrawn, leased ones may end, and their results count.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.attempts import end_attempt
from stepwell.core.loop.closing import (
    INPUT_TIMER,
    close,
    drop_timer,
    pause_run,
    withdraw_ready,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_task
from stepwell.core.loop.phases import enter_phase
from stepwell.core.loop.signals import Answer, Delivery, NeedsInput
from stepwell.core.loop.table import Trigger
from stepwell.core.loop.transition import Reply, refused
from stepwell.core.port import Timer
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Failure, InputRequest
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    ExpiryAction,
    InputStatus,
    PauseReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)

NOT_OPEN = "INPUT_NOT_OPEN"
"""The reason of a refused answer. The loop knows open requests only; callers read others in the store."""


def ask(draft: Draft, execution: Execution, delivery: Delivery, result: NeedsInput) -> Reply:
    """Create an input request; its task waits for the answer."""
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


def answer(draft: Draft, command: Answer) -> Reply:
    """Answer an open input request; the task that asked continues with the answer."""
    request = draft.open_input(command.input_id)
    if request is None:
        return refused(NOT_OPEN, f"no input request {command.input_id!r} of this run is open")
    if command.replan and _is_last_iteration(draft):
        return refused(
            "LAST_ITERATION",
            "no iteration is left for another plan; answer without asking for one",
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
    if command.replan:
        _replan(draft, command.reason)
    return Reply()


def _is_last_iteration(draft: Draft) -> bool:
    """Return whether another plan would begin an iteration beyond the run's last."""
    run = draft.run
    if run.phase is Phase.PLANNING:
        return False
    return run.stopping or run.iteration >= run.spec.max_iterations


def _replan(draft: Draft, reason: str) -> None:
    """Return to PLANNING before anything else is dispatched.

    The iteration in progress is not completed: it has no checkpoint of its own, and leased steps count
    for the next one. If the run plans already, its PLAN step starts anew, because its assignment doesn't
    hold this answer.
    """
    draft.event(EventType.REPLAN_REQUESTED, message=reason)
    if draft.run.phase is Phase.PLANNING:
        _plan_anew(draft)
        draft.change_run(reason=_joined(draft.run.reason, reason))
        return
    withdraw_ready(draft)
    enter_phase(draft, Trigger.REPLAN, iteration=draft.run.iteration + 1, reason=reason)


def _plan_anew(draft: Draft) -> None:
    for execution in tuple(draft.open_executions()):
        if execution.kind is not StepKind.PLAN:
            continue
        ready = execution.status is ExecutionStatus.READY
        status = ExecutionStatus.RELEASED if ready else ExecutionStatus.CANCELLED
        close(draft, execution, status, reason="a person has asked for another plan meanwhile")


def _joined(before: str, reason: str) -> str:
    """Return both reasons for the planner, the newer one last; it alone if both are too long."""
    both = "\n".join(part for part in (before, reason) if part)
    if len(both.encode()) <= limits.REASON_BYTES_MAX:
        return both
    return reason


def input_expired(draft: Draft, input_id: str) -> None:
    """Apply the `on_expiry` of an input request that was not answered in time.

    With WAIT and PAUSE the request stays open and can be answered; a paused run needs a resume.
    """
    request = draft.open_input(input_id)
    if request is None:
        return
    draft.event(EventType.INPUT_EXPIRED, task_id=request.task_id, input_id=input_id)
    drop_timer(draft, INPUT_TIMER + input_id)
    if request.on_expiry is ExpiryAction.WAIT:
        return
    if request.on_expiry is ExpiryAction.PAUSE:
        if draft.run.status is not RunStatus.PAUSED:
            pause_run(draft, PauseReason.INPUT_EXPIRED, f"{input_id} was not answered in time")
        return
    now_us = draft.context.now_us
    draft.put_input(replace(request, status=InputStatus.EXPIRED, ended_us=now_us))
    draft.change_task(request.task_id, input_id="")
    denied = request.on_expiry is ExpiryAction.DENY
    failure = Failure(
        kind="DENIED" if denied else "INPUT_EXPIRED",
        message=f"{input_id} was not answered in time",
        retryable=False,
    )
    fail_task(draft, request.task_id, failure)
