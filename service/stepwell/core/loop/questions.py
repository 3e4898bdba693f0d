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
from stepwell.core.loop.closing import close, pause_run, withdraw_ready
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_task
from stepwell.core.loop.phases import enter_phase
from stepwell.core.loop.renewals import renew
from stepwell.core.loop.signals import Answer, Delivery, NeedsInput
from stepwell.core.loop.suspending import (
    answer_call,
    fail_asking_step,
    put_request,
    request_of,
)
from stepwell.core.loop.table import Trigger
from stepwell.core.loop.transition import Reply, refused
from stepwell.core.loop.waits import INPUT_TIMER, drop_timer, withdraw_inputs
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Failure
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
    request = request_of(execution, result, draft.context.now_us)
    put_request(draft, request)
    end_attempt(draft, execution, ExecutionStatus.NEEDS_INPUT, delivery)
    draft.change_task(execution.task_id, status=TaskStatus.BLOCKED, input_id=request.input_id)
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
    if request.call:
        answer_call(draft, request, command.payload)
    else:
        draft.change_task(request.task_id, status=TaskStatus.PENDING)
    if command.replan:
        _replan(draft, command.reason)
    return Reply()


def _is_last_iteration(draft: Draft) -> bool:
    """Return whether another plan would begin an iteration beyond the run's last."""
    run = draft.run
    if run.phase is Phase.PLANNING:
        return False
    if run.phase is Phase.SYNTHESIZING:
        return True
    return run.stopping or run.iteration >= run.spec.max_iterations


def _replan(draft: Draft, reason: str) -> None:
    """Return to PLANNING before anything else is dispatched.

    The iteration in progress is not completed: it has no checkpoint of its own, and leased steps count
    for the next one. If the run plans already, its PLAN step starts anew, because its assignment doesn't
    hold this answer; its journal, too, for what it has recorded was asked without this answer. A REFLECT step ends.
    """
    draft.event(EventType.REPLAN_REQUESTED, message=reason)
    _end_step(draft)
    if draft.run.phase is Phase.PLANNING:
        draft.change_run(reason=_joined(draft.run.reason, reason))
        withdraw_inputs(draft, "")
        renew(draft, "", "a person has asked for another plan")
        return
    withdraw_ready(draft)
    enter_phase(draft, Trigger.REPLAN, iteration=draft.run.iteration + 1, reason=reason)


def _end_step(draft: Draft) -> None:
    """End the open attempt at the run's PLAN or REFLECT step."""
    for execution in tuple(draft.open_executions()):
        if execution.kind not in (StepKind.PLAN, StepKind.REFLECT):
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
    denied = request.on_expiry is ExpiryAction.DENY
    failure = Failure(
        kind="DENIED" if denied else "INPUT_EXPIRED",
        message=f"{input_id} was not answered in time",
        retryable=False,
    )
    if request.call:
        fail_asking_step(draft, request, failure)
        return
    draft.change_task(request.task_id, input_id="")
    fail_task(draft, request.task_id, failure)
