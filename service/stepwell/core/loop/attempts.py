"""Attempts at a step: their begin, messages, end, release and repetition, and what they leave to the next.

Session, last progress and failure are carried over to the next attempt. The task's row holds them
(the run's for PLAN, REFLECT and SYNTHESIZE), so that the next attempt gets them wherever it is
leased.
"""

from __future__ import annotations

import hmac

from msgspec.structs import replace

from stepwell.core.loop import budgets, conversations, signals
from stepwell.core.loop.changes import ReportFields
from stepwell.core.loop.closing import end_execution
from stepwell.core.loop.dispatch import offer_reconcile, offer_step, offer_task
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.journals import end_lease, own_messages
from stepwell.core.loop.occurrences import AppendMessages, Begin, Completed, Delivery, LeaseExpired
from stepwell.core.loop.transition import LEASE_LOST, UNCHANGED, Reply
from stepwell.core.port import Fence
from stepwell.core.records.model import (
    Execution,
    Failure,
    Outcome,
    Payload,
    Previous,
    Session,
    Usage,
)
from stepwell.core.records.states import (
    Effect,
    EventType,
    ExecutionStatus,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)

_NO_SESSION, _NO_USAGE, _NO_FAILURE = Session(), Usage(), Failure()
_NO_CARRYOVER = Previous()
_CARRIES_OVER = frozenset(
    {
        ExecutionStatus.FAILED,
        ExecutionStatus.TIMED_OUT,
        ExecutionStatus.LOST,
        ExecutionStatus.RELEASED,
        ExecutionStatus.NEEDS_ANSWER,
        ExecutionStatus.SUSPENDED,
        ExecutionStatus.UNKNOWN_OUTCOME,
    }
)
"""Ends of attempts that may be followed by another one, which gets what they left."""


def leased_by(
    draft: Draft, execution_id: str, token: str, *, ends: bool = False
) -> Execution | None:
    """Return the execution, and fence the commit, if this is the token of its current lease.

    `ends` says that the caller ends the lease, which fences the commit.
    """
    held = draft.held(execution_id)
    if draft.run.ended:
        # The unknown outcome of a FAILED run waits for the resume.
        return None
    if held is None or not held.token or not hmac.compare_digest(held.token, token):
        return None
    if held.execution.unknown_call:
        # Its worker has ended it, so only a person can continue it.
        return None
    if not ends or held.execution.status is not ExecutionStatus.LEASED:
        # If this transition has ended the lease, its fence has the number of recorded entries.
        draft.fences.setdefault(execution_id, Fence(execution_id=execution_id, token=token))
    return held.execution


def begin(draft: Draft, one: Begin) -> Reply:
    """Note that an AT_MOST_ONCE step begins; from now on, a lost worker leaves its outcome unknown."""
    execution = leased_by(draft, one.execution_id, one.token)
    if execution is None or execution.status is not ExecutionStatus.LEASED:
        return LEASE_LOST
    if execution.begun or not at_most_once(draft, execution):
        return UNCHANGED
    draft.event(EventType.EXECUTION_BEGUN, task_id=execution.task_id, execution_id=one.execution_id)
    draft.change_execution(execution, begun=True)
    return Reply()


def append_messages(draft: Draft, one: AppendMessages) -> Reply:
    """Append to the task's conversation while the execution is still running."""
    execution = leased_by(draft, one.execution_id, one.token)
    if execution is None:
        return LEASE_LOST
    new = conversations.new_of(one.messages, one.after, own_messages(draft, execution))
    if not new:
        return UNCHANGED
    draft.event(
        EventType.MESSAGES_APPENDED, task_id=execution.task_id, execution_id=one.execution_id
    )
    fields: ReportFields = {}
    conversations.append(draft, execution, new, _NO_SESSION, fields)
    draft.change_execution(execution, **fields)
    return Reply()


def at_most_once(draft: Draft, execution: Execution) -> bool:
    """Return whether the execution may not run again once it was begun."""
    is_task = execution.kind is StepKind.TASK
    return is_task and draft.spec(execution.task_id).effect is Effect.AT_MOST_ONCE


def end_attempt(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    report: Delivery | LeaseExpired | None,
    failure: Failure | None = None,
) -> None:
    """Close the execution and keep its worker's report; usage counts once per attempt.

    `report` is the delivery that ends the execution, or the lease's end with the last heartbeat's
    progress.
    """
    end_execution(draft, execution, status, keep_report(draft, execution, status, report, failure))


def keep_report(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    report: Delivery | LeaseExpired | None,
    failure: Failure | None = None,
) -> ReportFields:
    """Keep a worker's report at the end of its lease; return the execution's changed fields."""
    fields: ReportFields = {} if failure is None else {"failure": failure}
    if execution.status is ExecutionStatus.LEASED:
        end_lease(draft, execution, status, fields)
    if report is not None and report.session != _NO_SESSION:
        fields["session"] = report.session
    if isinstance(report, Delivery):
        _keep_delivered(draft, execution, report, fields)
    if status is ExecutionStatus.COMPLETED:
        drop_carryover(draft, execution)
    elif status in _CARRIES_OVER:
        carry_over(
            draft,
            execution,
            session=report.session if report is not None else _NO_SESSION,
            progress=report.progress if report is not None else None,
            failure=failure or _NO_FAILURE,
        )
    return fields


def _keep_delivered(
    draft: Draft, execution: Execution, delivery: Delivery, fields: ReportFields
) -> None:
    """Keep the usage, messages and result of a delivery; add to the execution's changed fields."""
    if delivery.usage != _NO_USAGE:
        # A lease that has ended added the usage of its entries to the execution.
        usage = fields.get("usage", execution.usage)
        fields["usage"] = delivery.usage if usage == _NO_USAGE else _sum(usage, delivery.usage)
        draft.change_run(usage=draft.run.usage + delivery.usage)
    if delivery.messages:
        own = own_messages(draft, execution)
        new = conversations.new_of(delivery.messages, delivery.messages_after, own)
        conversations.append(draft, execution, new, delivery.session, fields)
    result = delivery.result.result if isinstance(delivery.result, Completed) else None
    if result is not None:
        fields["has_result"] = True
    if result is not None or delivery.prompt or delivery.response:
        draft.put_outcome(
            Outcome(
                execution_id=execution.execution_id,
                result=result,
                prompt=delivery.prompt,
                response=delivery.response,
            )
        )


def _sum(recorded: Usage, reported: Usage) -> Usage:
    return replace(recorded + reported, model=reported.model)


def release(
    draft: Draft, execution: Execution, report: Delivery | LeaseExpired, reason: str
) -> None:
    """Offer the step to another worker at once; no attempt is spent."""
    draft.event(
        EventType.EXECUTION_RELEASED,
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        message=reason,
    )
    end_attempt(draft, execution, ExecutionStatus.RELEASED, report)
    offer_again(draft, execution, 0)


def offer_again(draft: Draft, execution: Execution, delay_ms: int) -> None:
    """Offer the next attempt after `delay_ms`.

    A paused run offers it when it resumes, a run that is planning once it has the new plan, and one that is to reflect after that.
    """
    run = draft.run
    paused = run.status is RunStatus.PAUSED or bool(budgets.used_up(run)) or signals.steers(run)
    if execution.kind is StepKind.RECONCILE:
        if not paused and draft.run.phase is Phase.EXECUTING:
            offer_reconcile(draft, execution.task_id, delay_ms=delay_ms)
    elif execution.kind is not StepKind.TASK:
        if not paused:
            offer_step(draft, delay_ms=delay_ms)
    elif (
        paused
        or draft.run.phase is not Phase.EXECUTING
        or execution.status is ExecutionStatus.UNKNOWN_OUTCOME
        or draft.waiting(execution.task_id)
    ):
        # An unknown outcome takes no place within max_parallel, so another task may have the place
        # by now. A plan that carried the task over may also have redefined its dependencies.
        draft.change_task(execution.task_id, status=TaskStatus.PENDING)
    else:
        offer_task(draft, execution.task_id, delay_ms=delay_ms)


# --- carryover ---------------------------------------------------------------------------------------


def carry_over(
    draft: Draft,
    execution: Execution,
    *,
    session: Session,
    progress: Payload | None,
    failure: Failure,
) -> None:
    """Keep what an attempt that did not complete its step leaves to the next one.

    Without a session or progress, those of an earlier attempt stay. An attempt that was released without
    a report may never have reached its worker: it changes nothing. A RECONCILE step is no attempt at its
    task and leaves nothing. The change belongs to the current event.
    """
    reported_nothing = session == _NO_SESSION and progress is None and failure == _NO_FAILURE
    if execution.kind is StepKind.RECONCILE or reported_nothing:
        return
    before = _carried(draft, execution)
    after = Previous(
        execution_id=execution.execution_id,
        session=session if session != _NO_SESSION else before.session,
        progress=progress if progress is not None else before.progress,
        failure=failure,
    )
    _put_carryover(draft, execution, after)


def drop_carryover(draft: Draft, execution: Execution) -> None:
    """Drop what earlier attempts left: the step is completed."""
    if execution.kind is not StepKind.RECONCILE and _carried(draft, execution) != _NO_CARRYOVER:
        _put_carryover(draft, execution, _NO_CARRYOVER)


def _carried(draft: Draft, execution: Execution) -> Previous:
    """Return what the earlier attempts left."""
    if execution.task_id:
        return draft.task(execution.task_id).previous
    return draft.run.previous


def _put_carryover(draft: Draft, execution: Execution, previous: Previous) -> None:
    if execution.task_id:
        draft.change_task(execution.task_id, previous=previous)
    else:
        draft.change_run(previous=previous)
