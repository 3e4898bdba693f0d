"""Suspends steps that wait in calls, and ends the calls' waits.

A suspended step has no open execution, takes no place and spends no attempt. A person's answer
becomes the value of the asking call, whether or not its step is suspended at that moment.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop import budgets
from stepwell.core.loop.attempts import end_attempt
from stepwell.core.loop.closing import close, fail_run
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_task
from stepwell.core.loop.journals import journal_at, kind_of, put_journal, write_end
from stepwell.core.loop.occurrences import (
    BudgetSpent,
    Delivery,
    NeedsAnswer,
    Sleep,
    Suspended,
    SuspendedCall,
)
from stepwell.core.loop.question_tokens import token_id, token_refusal
from stepwell.core.loop.transition import Reply
from stepwell.core.loop.waits import QUESTION_TIMER, put_waits, sleep_timer, waits_of, wake
from stepwell.core.port import Timer
from stepwell.core.records import limits
from stepwell.core.records.errors import INVALID_OUTCOME
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Execution, Failure, Payload, Question
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    QuestionStatus,
    TaskStatus,
    WaitKind,
)
from stepwell.core.records.step_journal import Wait

ASK = "ask"
"""The name, for people, of the entry with an answer."""

TOO_MANY_QUESTIONS = "TOO_MANY_QUESTIONS"


def refusal(draft: Draft, execution: Execution, result: Suspended) -> Failure | None:
    """Return why this attempt may not suspend, or None."""
    if execution.begun:
        return Failure(
            kind=INVALID_OUTCOME,
            message="an AT_MOST_ONCE task that has begun can't be suspended: it would run again from its beginning",
            retryable=False,
        )
    if (failure := token_refusal(draft, execution.task_id, result.waits)) is not None:
        return failure
    new = {one.call for one in result.waits if isinstance(one.wait, NeedsAnswer)}
    count = len(new | _asked(draft, execution.task_id).keys())
    if count <= limits.WAITS_MAX:
        return None
    return Failure(
        kind=TOO_MANY_QUESTIONS,
        message=f"calls of the step would have {count} open questions, more than {limits.WAITS_MAX}",
        retryable=False,
    )


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
    asked = _ask(draft, execution, [one for one in calls.values() if one.call not in answered])
    over = next((one.call for one in calls.values() if _is_over(draft, one, answered)), None)
    waits = tuple(_wait(one, asked) for one in calls.values() if one.call not in answered)
    if over is None and waits:
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


def _wait(call: SuspendedCall, asked: dict[str, str]) -> Wait:
    return Wait(key=call.call, kind=_kind(call), question_id=asked.get(call.call, ""))


def _is_over(draft: Draft, call: SuspendedCall, answered: list[str]) -> bool:
    match call.wait:
        case Sleep(remaining_ms=ms):
            return ms == 0
        case NeedsAnswer():
            return call.call in answered
        case BudgetSpent():
            # The run is paused by its own rule; the step continues when it is resumed.
            return bool(budgets.used_up(draft.run))


def _ask(draft: Draft, execution: Execution, calls: list[SuspendedCall]) -> dict[str, str]:
    """Ask new questions, with an event for each; return the question of each asking call."""
    asked = _asked(draft, execution.task_id)
    for number, call in enumerate(calls, 1):
        if not isinstance(call.wait, NeedsAnswer) or call.call in asked:
            continue
        question = question_of(execution, call.wait, draft.context.now_us)
        question_id = token_id(call.wait) or f"{question.question_id}.{number}"
        asked[call.call] = question_id
        ask_person(
            draft,
            replace(question, question_id=question_id, call=call.call, arguments=call.arguments),
        )
    return asked


def _asked(draft: Draft, task_id: str) -> dict[str, str]:
    """Return the open questions of a step's calls, by call."""
    return {
        one.call: one.question_id
        for one in draft.open_questions()
        if one.call and one.task_id == task_id
    }


def question_of(execution: Execution, asked: NeedsAnswer, now_us: int) -> Question:
    """Return the question that an attempt asks, open from now on."""
    return Question(
        question_id=f"question:{execution.execution_id}",
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        kind=asked.kind,
        prompt=asked.prompt,
        schema=asked.schema,
        choices=asked.choices,
        expires_ms=asked.expires_ms,
        on_expiry=asked.on_expiry,
        created_us=now_us,
        status=QuestionStatus.OPEN,
    )


def ask_person(draft: Draft, question: Question) -> None:
    """Write a new question with its own event, and the timer of its expiry."""
    draft.event(
        EventType.QUESTION_ASKED,
        task_id=question.task_id,
        execution_id=question.execution_id,
        question_id=question.question_id,
        message=question.prompt,
    )
    draft.put_question(question)
    if question.expires_ms:
        name = QUESTION_TIMER + question.question_id
        draft.timers[name] = Timer(name=name, delay_ms=question.expires_ms)


def answer_call(draft: Draft, question: Question, answer: Payload) -> None:
    """Make an answer the value of the asking call, within the current event; wake the step if it waits for it."""
    task_id, call = question.task_id, question.call
    entry = Entry(key=call, name=ASK, arguments=question.arguments, value=answer)
    write_end(draft, task_id, entry)
    if any(one.key == call for one in waits_of(draft, task_id)):
        wake(draft, task_id, call)
    elif _is_step_leased(draft, task_id):
        journal = journal_at(draft, task_id)
        put_journal(draft, task_id, replace(journal, answered=(*journal.answered, call)))


def _is_step_leased(draft: Draft, task_id: str) -> bool:
    kind, leased = kind_of(draft.run, task_id), ExecutionStatus.LEASED
    return any(
        one.status is leased and one.kind is kind and one.task_id == task_id
        for one in draft.open_executions()
    )


def fail_asking_step(draft: Draft, question: Question, failure: Failure) -> None:
    """Fail the step of a call that got no answer; a running attempt of it ends."""
    if not question.task_id:
        fail_run(draft, failure)
        return
    for execution in tuple(draft.open_executions()):
        if execution.task_id == question.task_id:
            close(draft, execution, ExecutionStatus.CANCELLED, reason=failure.message)
    fail_task(draft, question.task_id, failure)
