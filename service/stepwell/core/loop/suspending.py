"""Suspends steps that wait in calls.

A suspended step has no open execution, takes no place and spends no attempt.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop import budgets
from stepwell.core.loop.attempts import end_attempt
from stepwell.core.loop.closing import close, fail_run
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_task
from stepwell.core.loop.journals import journal_at, put_journal
from stepwell.core.loop.occurrences import (
    AwaitChild,
    AwaitSignal,
    BudgetSpent,
    Delivery,
    NeedsAnswer,
    SignalChild,
    Sleep,
    Suspended,
    SuspendedCall,
)
from stepwell.core.loop.opening import open_calls
from stepwell.core.loop.transition import Reply
from stepwell.core.loop.waits import put_waits, sleep_timer
from stepwell.core.port import Timer
from stepwell.core.records.model import Execution, Failure, Question
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    TaskStatus,
    WaitKind,
)
from stepwell.core.records.step_journal import Wait


def suspend(draft: Draft, execution: Execution, delivery: Delivery, result: Suspended) -> Reply:
    """Hand a step back until its first wait is over; spends no attempt."""
    task_id = execution.task_id
    calls = {one.call: one for one in reversed(result.waits)}
    calls = {one.call: calls[one.call] for one in result.waits}
    draft.event(
        EventType.STEP_SUSPENDED,
        task_id=task_id,
        execution_id=execution.execution_id,
        message=_described(tuple(calls.values())),
    )
    end_attempt(draft, execution, ExecutionStatus.SUSPENDED, delivery)
    journal = journal_at(draft, task_id)
    answered = [call for call in calls if call in journal.answered]
    if journal.answered:
        put_journal(draft, task_id, replace(journal, answered=()))
    left = [one for one in calls.values() if one.call not in answered]
    opened = open_calls(draft, execution, left)
    is_over = bool(answered) or (result.more and bool(journal.answered))
    is_over = is_over or any(
        isinstance(one.wait, AwaitSignal | SignalChild) and one.call not in opened for one in left
    )
    waits = tuple(_wait(one, opened) for one in left)
    if not is_over and waits and not any(_is_over(draft, one) for one in left):
        put_waits(draft, task_id, waits)
        for one in calls.values():
            if isinstance(one.wait, Sleep):
                name = sleep_timer(draft, task_id, one.call)
                draft.timers[name] = Timer(name=name, delay_ms=one.wait.remaining_ms)
    elif task_id:
        draft.change_task(task_id, status=TaskStatus.PENDING)
    return Reply()


def _described(calls: tuple[SuspendedCall, ...]) -> str:
    """Return a description of a step's waits, for people."""
    kinds = {_kind(one).lower() for one in calls}
    return f"{', '.join(sorted(kinds))}: {', '.join(one.call for one in calls)}"


def _kind(call: SuspendedCall) -> WaitKind:
    match call.wait:
        case Sleep():
            return WaitKind.SLEEP
        case NeedsAnswer():
            return WaitKind.QUESTION
        case BudgetSpent():
            return WaitKind.BUDGET
        case AwaitSignal():
            return WaitKind.SIGNAL
        case AwaitChild() | SignalChild():
            return WaitKind.CHILD


def _wait(call: SuspendedCall, opened: dict[str, str]) -> Wait:
    return Wait(key=call.call, kind=_kind(call), question_id=opened.get(call.call, ""))


def _is_over(draft: Draft, call: SuspendedCall) -> bool:
    match call.wait:
        case Sleep(remaining_ms=ms):
            return ms == 0
        case BudgetSpent():
            # The run is paused by its own rule; the step continues when it is resumed.
            return bool(budgets.used_up(draft.run))
        case _:
            return False


def fail_asking_step(draft: Draft, question: Question, failure: Failure) -> None:
    """Fail the step of a call that got no answer; a running attempt of it ends."""
    if not question.task_id:
        fail_run(draft, failure)
        return
    for execution in tuple(draft.open_executions()):
        if execution.task_id == question.task_id:
            close(draft, execution, ExecutionStatus.CANCELLED, reason=failure.message)
    fail_task(draft, question.task_id, failure)
