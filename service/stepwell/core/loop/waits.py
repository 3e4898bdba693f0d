"""Waits of suspended steps, and questions: their beginning and end.

A step that waits in a call is suspended: it has no open execution, and its row has its waits. The
first wait that is over wakes it. Questions of its calls then stay open; the step may continue
without their answers, or be suspended again. The end of the step, and a new generation of its
journal, end its questions and waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from stepwell.core.loop import budgets, children, journals, letters
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.state import withdraws
from stepwell.core.loop.transition import EndedCall
from stepwell.core.port import Timer
from stepwell.core.records.family import CANCEL, PAUSE, UnwrittenLetters
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Execution, Failure, Payload, Question
from stepwell.core.records.states import (
    NO_PERSON,
    EventType,
    ExecutionStatus,
    QuestionKind,
    QuestionStatus,
    RunStatus,
    TaskStatus,
    WaitKind,
)
from stepwell.core.records.step_journal import Wait

QUESTION_TIMER = "question:"
"""Prefix of a question's expiry; the question's id follows."""
WAIT_TIMER = "wait:"
"""Prefix of a sleep's end; the journal's name, a colon and the call's key follow."""
_NAMES = {QuestionKind.SIGNAL: "receive", QuestionKind.CHILD: "child"}
"""The name, for people, of the entry with a call's end, by kind of question; of a person's answer it is `ask`."""
_NO_FAILURE = Failure()


def drop_timer(draft: Draft, name: str) -> None:
    """Remove a timer."""
    draft.timers[name] = Timer(name=name, delay_ms=-1)


def waits_of(draft: Draft, task_id: str) -> tuple[Wait, ...]:
    """Return a step's waits; none if it isn't suspended."""
    return draft.task(task_id).waits if task_id else draft.run.step_waits


def suspended(draft: Draft) -> Iterator[str]:
    """Yield the suspended steps."""
    if draft.run.step_waits:
        yield ""
    yield from sorted(draft.suspended)


def sleep_timer(draft: Draft, task_id: str, call: str) -> str:
    """Return the name of the timer of a sleep's end."""
    return f"{WAIT_TIMER}{journals.named(draft, task_id)}:{call}"


def put_waits(draft: Draft, task_id: str, waits: tuple[Wait, ...]) -> None:
    """Set a step's waits, within the current event."""
    if not task_id:
        draft.change_run(step_waits=waits)
        return
    if draft.suspended is draft.state.suspended:
        draft.suspended = set(draft.suspended)
    if waits:
        draft.suspended.add(task_id)
        draft.change_task(task_id, waits=waits, status=TaskStatus.BLOCKED)
    else:
        draft.suspended.discard(task_id)
        draft.change_task(task_id, waits=())


def wake(draft: Draft, task_id: str, call: str) -> None:
    """Continue a suspended step, because this call need not wait any more."""
    draft.event(
        EventType.STEP_WOKEN,
        task_id=task_id,
        execution_id=journals.execution_of(draft, task_id),
        message=call,
    )
    _end_waits(draft, task_id)
    if task_id:
        draft.change_task(task_id, status=TaskStatus.PENDING)


def end_call(
    draft: Draft, question: Question, value: Payload | None, failure: Failure = _NO_FAILURE
) -> None:
    """End the call of a question, within the current event, which has changed the question.

    Its END has the value, or the failure if it ended without one. A step that waits for it is woken; the worker of a
    running step is notified.
    """
    task_id, call = question.task_id, question.call
    name = _NAMES.get(question.kind, "ask")
    entry = Entry(key=call, name=name, arguments=question.arguments, value=value, failure=failure)
    journals.write_end(draft, task_id, entry)
    waits = waits_of(draft, task_id)
    if any(one.key == call for one in waits) or (waits and question.kind in NO_PERSON):
        # Of the waits for signals and children a suspension lists only as many as there is room for.
        wake(draft, task_id, call)
    elif (leased := _leased(draft, task_id)) is not None:
        journal = journals.journal_at(draft, task_id)
        journals.put_journal(draft, task_id, replace(journal, answered=(*journal.answered, call)))
        draft.ended_calls.append(
            EndedCall(execution_id=leased.execution_id, worker_id=leased.worker_id, entry=entry)
        )


def _leased(draft: Draft, task_id: str) -> Execution | None:
    """Return the attempt at a step that a worker has, or None."""
    kind, leased = journals.kind_of(draft.run, task_id), ExecutionStatus.LEASED
    for one in draft.open_executions():
        if one.status is leased and one.kind is kind and one.task_id == task_id:
            return one
    return None


def sleep_over(draft: Draft, timer: str) -> None:
    """Wake the step whose sleep is over, by its timer."""
    for task_id in tuple(suspended(draft)):
        for wait in waits_of(draft, task_id):
            if wait.kind is WaitKind.SLEEP and sleep_timer(draft, task_id, wait.key) == timer:
                wake(draft, task_id, wait.key)
                return


def wake_by_budget(draft: Draft) -> None:
    """Wake the steps that wait for a budget, if there is one or the run is about to be paused without it.

    Until then, what other steps have recorded under their leases may still show that it is spent.
    """
    for task_id in tuple(suspended(draft)):
        call = next(
            (one.key for one in waits_of(draft, task_id) if one.kind is WaitKind.BUDGET), None
        )
        if call is not None and (budgets.used_up(draft.run) or not _is_spent(draft)):
            wake(draft, task_id, call)


def _is_spent(draft: Draft) -> bool:
    held = map(draft.held, tuple(draft.state.open))
    rows = [row for row in held if row is not None]
    return bool(budgets.used_up(budgets.with_open_leases(draft.run, rows)))


def withdraw_questions(draft: Draft, task_id: str) -> bool:
    """End a step's questions and waits, within the current event; return whether the task itself had asked.

    A call asks with its key, while its attempt runs; the task itself asks by ending its attempt.
    """
    return withdraw_steps(draft, (task_id,)).get(task_id, False)


def withdraw_steps(draft: Draft, steps: Collection[str] | None = None) -> dict[str, bool]:
    """End the questions and waits of these steps, or of all with None, within the current event.

    Returns the steps that were suspended, or had asked themselves, each with whether it had asked.
    """
    ended: dict[str, bool] = {}
    children: list[Question] = []
    questions = (
        draft.open_questions()
        if steps is None
        else chain.from_iterable(draft.open_questions(task_id=one) for one in steps)
    )
    for question in tuple(questions):
        if not question.call:
            ended[question.task_id] = True
        if question.kind is QuestionKind.CHILD:
            children.append(question)
        else:
            _cancel(draft, question)
    _write_to_children(draft, CANCEL, children, steps)
    for task_id in tuple(suspended(draft)) if steps is None else steps:
        if waits_of(draft, task_id):
            ended.setdefault(task_id, False)
            _end_waits(draft, task_id)
    return ended


def _cancel(draft: Draft, question: Question) -> None:
    ended_us = draft.context.now_us
    draft.put_question(replace(question, status=QuestionStatus.CANCELLED, ended_us=ended_us))
    if question.kind is not QuestionKind.CHILD or question.expires_ms:
        drop_timer(draft, QUESTION_TIMER + question.question_id)
    if question.kind is QuestionKind.CHILD and not question.leave:
        why = "the step that started it has ended"
        children.withdraw(draft, question, why)
    elif question.follow_pauses and draft.run.status is RunStatus.PAUSED:
        # It follows no longer.
        letters.write(draft, letters.ResumeRun(run_id=question.prompt))


def write_to_followers(draft: Draft, kind: str) -> None:
    """Write the letters, PAUSE or RESUME, to the children that follow the run's pauses, within the current event."""
    _write_to_children(draft, kind, [one for one in draft.open_questions() if one.follow_pauses])


def _write_to_children(
    draft: Draft, kind: str, questions: list[Question], steps: Collection[str] | None = None
) -> None:
    """Write letters to children, as many as the commit has room for; later commits write the others (`write_more`).

    A child that is to be cancelled is no longer its step's, also while its letter isn't written.
    """
    unwritten = draft.run.letters.unwritten
    questions.sort(key=_id_of)
    done = 0 if unwritten else _write_page(draft, kind, questions)
    rest = questions[done:]
    if not rest:
        return
    for one in rest if kind == CANCEL else ():
        if one.expires_ms:
            drop_timer(draft, QUESTION_TIMER + one.question_id)
    more = UnwrittenLetters(
        kind=kind,
        task_ids=() if steps is None else tuple(dict.fromkeys([one.task_id for one in rest])),
        until_us=max([one.created_us for one in rest]),
        after=questions[done - 1].question_id if done else "",
    )
    draft.change_run(letters=replace(draft.run.letters, unwritten=(*unwritten, more)))


def _write_page(draft: Draft, kind: str, questions: Sequence[Question]) -> int:
    """Write letters to the first of these children, as many as the commit has room for; return how many have theirs."""
    for at, question in enumerate(questions):
        if draft.run.letters.next - draft.state.run.letters.next >= letters.PAGE:
            return at
        if kind == CANCEL:
            _cancel(draft, question)
        elif kind == PAUSE:
            letters.write(draft, letters.PauseRun(run_id=question.prompt))
        else:
            letters.write(draft, letters.ResumeRun(run_id=question.prompt))
    return len(questions)


def write_more(draft: Draft) -> None:
    """Write the next letters to children, within the current event, once few that were written are undelivered."""
    while (more := draft.run.letters.unwritten) and letters.undelivered(draft) < letters.PAGE:
        first = more[0]
        if first.kind == CANCEL:
            found = filter(withdraws(more[:1]), draft.open_questions(withdrawn=True))
        else:
            found = (one for one in draft.open_questions() if one.follow_pauses)
        questions = [
            one
            for one in sorted(found, key=_id_of)
            if one.question_id > first.after and one.created_us <= first.until_us
        ]
        done = _write_page(draft, first.kind, questions)
        is_over = done == len(questions)
        left = () if is_over else (replace(first, after=questions[done - 1].question_id),)
        draft.change_run(letters=replace(draft.run.letters, unwritten=(*left, *more[1:])))


def _id_of(question: Question) -> str:
    return question.question_id


def _end_waits(draft: Draft, task_id: str) -> None:
    for wait in waits_of(draft, task_id):
        if wait.kind is WaitKind.SLEEP:
            drop_timer(draft, sleep_timer(draft, task_id, wait.key))
    put_waits(draft, task_id, ())
