"""Opens the waits of calls, while their step runs or as it is suspended, and ends them.

What a call waits for from outside (a person's answer, a signal, the end of a child run) is a question with the
call's key. Its end is written into the step's journal by the commit that decides it, whether or not the step is
suspended at that moment.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stepwell.core.loop import children, letters, signals, steers
from stepwell.core.loop.attempts import leased_by
from stepwell.core.loop.child_outcomes import task_child_ended
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.journals import journal_at, put_journal
from stepwell.core.loop.occurrences import (
    AwaitChild,
    AwaitSignal,
    ChildEnds,
    LettersDelivered,
    NeedsAnswer,
    Open,
    SignalChild,
    SuspendedCall,
)
from stepwell.core.loop.question_tokens import token_id, token_refusal
from stepwell.core.loop.transition import LEASE_LOST, UNCHANGED, Reply, refused
from stepwell.core.loop.waits import QUESTION_TIMER, drop_timer, end_call, write_more
from stepwell.core.port import Timer
from stepwell.core.records import limits
from stepwell.core.records.errors import INVALID_OUTCOME
from stepwell.core.records.model import Execution, Failure, Question, Usage
from stepwell.core.records.states import (
    NO_PERSON,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    QuestionKind,
    QuestionStatus,
)

TOO_MANY_QUESTIONS = "TOO_MANY_QUESTIONS"
_NO_CHILD = Failure(
    kind="CHILD_ENDED", message="the child run has ended: it takes no signal", retryable=False
)


def refusal(draft: Draft, execution: Execution, calls: Iterable[SuspendedCall]) -> Failure | None:
    """Return why these calls of an attempt may not wait, or None."""
    if execution.begun:
        return Failure(
            kind=INVALID_OUTCOME,
            message="an AT_MOST_ONCE task that has begun can't be suspended: it would run again from its beginning",
            retryable=False,
        )
    calls = tuple(calls)
    if (failure := token_refusal(draft, execution.task_id, calls)) is not None:
        return failure
    task_id = execution.task_id
    asked, others = set[str](), set[str]()
    for one in calls:
        if isinstance(one.wait, NeedsAnswer):
            asked.add(one.call)
        elif isinstance(one.wait, AwaitSignal | AwaitChild | SignalChild):
            others.add(one.call)
    people = {
        one.call
        for one in draft.open_questions(children=False)
        if one.call and one.task_id == task_id and one.kind not in NO_PERSON
    }
    new = [one for one in others if draft.open_call(task_id, one) is None]
    many = draft.count_open(task_id) - len(people) + len(new)
    if len(asked | people) > limits.WAITS_MAX:
        what = f"{len(asked | people)} open questions, more than {limits.WAITS_MAX}"
    elif many > limits.OPEN_CALLS_MAX:
        what = f"{many} open waits, more than {limits.OPEN_CALLS_MAX}"
    else:
        answered = frozenset(journal_at(draft, task_id).answered)
        started = {
            one.call: one.wait
            for one in calls
            if one.call not in answered and draft.open_call(task_id, one.call) is None
        }
        return children.refusal(
            draft,
            [one for one in started.values() if isinstance(one, AwaitChild) and not one.cancel],
            sum(isinstance(one, SignalChild) for one in started.values()),
        )
    message = f"calls of the step would have {what}"
    return Failure(kind=TOO_MANY_QUESTIONS, message=message, retryable=False)


def open_waits(draft: Draft, one: Open) -> Reply:
    """Open calls of a running step, once; a call that is open already, or has ended, stays as it is."""
    execution = leased_by(draft, one.execution_id, one.token)
    if execution is None or execution.status is not ExecutionStatus.LEASED:
        return LEASE_LOST
    if one.number <= execution.open_number:
        return replace(UNCHANGED, children=_children_of(draft, execution.task_id, one))
    if (failure := refusal(draft, execution, one.calls)) is not None:
        return refused(failure.kind, failure.message)
    task_id = execution.task_id
    journal = journal_at(draft, task_id)
    # An end that the attempt doesn't know is on its way to it, or found when the step is suspended.
    new = {call.call: call for call in one.calls if call.call not in journal.answered}
    calls = tuple(new.values())
    what = ", ".join(sorted({_described(call) for call in calls})) or "nothing further"
    draft.event(EventType.WAIT_OPENED, task_id=task_id, execution_id=one.execution_id, message=what)
    draft.change_execution(execution, open_number=one.number)
    known = frozenset(one.known)
    answered = tuple(call for call in journal.answered if call not in known)
    if answered != journal.answered:
        put_journal(draft, task_id, replace(journal, answered=answered))
    open_calls(draft, execution, calls, prefix=f"{one.number}.")
    return Reply(children=_children_of(draft, task_id, one))


def _children_of(draft: Draft, task_id: str, one: Open) -> dict[str, str]:
    """Return the children that have not ended of the calls that a message opens."""
    calls = [call.call for call in one.calls if isinstance(call.wait, AwaitChild)]
    found = [draft.open_call(task_id, call) for call in calls]
    return {each.call: each.prompt for each in found if each is not None}


def _described(call: SuspendedCall) -> str:
    match call.wait:
        case AwaitSignal(name=name):
            return f"signal {name}"
        case AwaitChild():
            return "child run"
        case SignalChild(name=name):
            return f"signal {name} to a child run"
        case _:
            return "question"


def open_calls(
    draft: Draft, execution: Execution, calls: Iterable[SuspendedCall], *, prefix: str = ""
) -> dict[str, str]:
    """Open what calls wait for, within the current event, or for a person with an own one; return each call's question.

    Those that are open already are kept; one for which a signal is kept, or that doesn't wait for one, ends at once, and has none. The ids of new ones have the `prefix` before their number.
    """
    task_id, calls = execution.task_id, tuple(calls)
    found = [draft.open_call(task_id, call.call) for call in calls]
    opened = {one.call: one.question_id for one in found if one is not None}
    asked: list[Question] = []
    for number, call in enumerate(calls, 1):
        cancels = isinstance(call.wait, AwaitChild) and call.wait.cancel
        if call.call in opened:
            if cancels and (child := draft.open_question(opened[call.call])) is not None:
                children.cancel(draft, child, "its parent's step has cancelled it")
            continue
        if cancels:
            continue
        question = question_of(execution, call.wait, draft.context.now_us)
        if question is None:
            continue
        question_id = token_id(call.wait) or f"{question.question_id}.{prefix}{number}"
        question = replace(
            question, question_id=question_id, call=call.call, arguments=call.arguments
        )
        if isinstance(call.wait, AwaitSignal) and signals.take(draft, question):
            continue
        if isinstance(call.wait, AwaitSignal) and call.wait.at_once:
            message = f"the run keeps no signal {call.wait.name!r}"
            failure = Failure(kind="NO_SIGNAL", message=message, retryable=False)
            end_call(draft, question, None, failure)
            continue
        receiver = None
        if isinstance(call.wait, SignalChild):
            receiver = draft.open_call(task_id, call.wait.child)
            if receiver is None or receiver.kind is not QuestionKind.CHILD:
                end_call(draft, question, None, _NO_CHILD)
                continue
        opened[call.call] = question_id
        if isinstance(call.wait, AwaitChild):
            question = children.start(draft, question, call.wait)
        elif isinstance(call.wait, SignalChild) and receiver is not None:
            question = children.signal(draft, question, receiver, call.wait)
        if question.kind in NO_PERSON:
            put_open(draft, question)
        else:
            asked.append(question)
    for question in asked:
        ask_person(draft, question)
    return opened


def question_of(execution: Execution, wait: object, now_us: int) -> Question | None:
    """Return what an attempt waits for as a question, open from now on; None for a sleep or a budget."""
    question = Question(
        question_id=f"question:{execution.execution_id}",
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        created_us=now_us,
        status=QuestionStatus.OPEN,
    )
    match wait:
        case NeedsAnswer():
            return replace(
                question,
                kind=wait.kind,
                prompt=wait.prompt,
                schema=wait.schema,
                choices=wait.choices,
                expires_ms=wait.expires_ms,
                on_expiry=wait.on_expiry,
            )
        case AwaitSignal(name=name, expires_ms=expires_ms):
            kind = QuestionKind.SIGNAL
            return replace(question, kind=kind, prompt=name, expires_ms=expires_ms)
        case AwaitChild(leave=leave):
            return replace(question, kind=QuestionKind.CHILD, leave=leave)
        case SignalChild():
            # Its withdrawal leaves the child as it is.
            return replace(question, kind=QuestionKind.CHILD, leave=True)
        case _:
            return None


def ask_person(draft: Draft, question: Question) -> None:
    """Write a new question with its own event, and the timer of its expiry."""
    draft.event(
        EventType.QUESTION_ASKED,
        task_id=question.task_id,
        execution_id=question.execution_id,
        question_id=question.question_id,
        message=question.prompt,
    )
    put_open(draft, question)


def put_open(draft: Draft, question: Question) -> None:
    """Write a new question within the current event, and the timer of its expiry."""
    draft.put_question(question)
    if question.expires_ms:
        name = QUESTION_TIMER + question.question_id
        draft.timers[name] = Timer(name=name, delay_ms=question.expires_ms)


def wait_expired(draft: Draft, question: Question) -> None:
    """End a call for which no signal came in time; that is no failure of its step."""
    draft.event(
        EventType.WAIT_EXPIRED,
        task_id=question.task_id,
        question_id=question.question_id,
        message=question.prompt,
    )
    now_us = draft.context.now_us
    draft.put_question(
        replace(
            question, status=QuestionStatus.EXPIRED, on_expiry=ExpiryAction.WAIT, ended_us=now_us
        )
    )
    message = f"no signal {question.prompt!r} came within {question.expires_ms / 1_000:g} s"
    end_call(draft, question, None, Failure(kind="TIMEOUT", message=message, retryable=False))


def child_ends(draft: Draft, one: ChildEnds) -> Reply:
    """End the call that waits for a child run, once; if its step has ended, only the usage is added."""
    question = draft.open_question(one.question_id)
    if question is None or question.prompt != one.run_id:
        return children.ended_late(draft, one)
    draft.event(
        EventType.CHILD_ENDED,
        task_id=question.task_id,
        question_id=one.question_id,
        message=f"{one.run_id}: {one.status}",
    )
    now_us = draft.context.now_us
    draft.put_question(replace(question, status=QuestionStatus.ANSWERED, ended_us=now_us))
    if one.usage != Usage():
        draft.change_run(usage=draft.run.usage + one.usage)
    if question.call:
        end_call(draft, question, one.value)
    else:
        if question.expires_ms:
            drop_timer(draft, QUESTION_TIMER + question.question_id)
        task_child_ended(draft, question, one.value, one.usage)
    return Reply()


def letters_delivered(draft: Draft, one: LettersDelivered) -> Reply:
    """Remove letters that are delivered, and end the calls, or a thread's steers, that sent signals by them."""
    reply = letters.delivered(draft, one)
    if draft.run.spec.is_thread:
        steers.signals_sent(draft, one.signals if reply is not UNCHANGED else ())
        return reply
    for sent in one.signals if reply is not UNCHANGED else ():
        question = draft.open_question(sent.question_id)
        if question is not None:
            now_us = draft.context.now_us
            draft.put_question(replace(question, status=QuestionStatus.ANSWERED, ended_us=now_us))
            end_call(draft, question, None, sent.failure)
    if reply is not UNCHANGED:
        write_more(draft)
    return reply
