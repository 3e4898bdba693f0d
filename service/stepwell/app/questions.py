"""Questions of a run: lists the open ones, and answers them.

The loop has only the open questions, and it alone decides which answer was first. The rows are read
for the schema that the answer must fit, and afterwards for the reason why a question was no longer
open.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from stepwell.app.commands import accepted, decide
from stepwell.core.loop.occurrences import Answer
from stepwell.core.loop.questions import NOT_OPEN
from stepwell.core.port import QuestionQuery, Store, every_row
from stepwell.core.records.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
    Violation,
)
from stepwell.core.records.model import Question, Run
from stepwell.core.records.states import NO_PERSON, QuestionStatus
from stepwell.engine.executor import Executor
from stepwell.schemas import answer_violations

QUESTION_ANSWERED = "QUESTION_ANSWERED"


class _Closed(NamedTuple):
    reason: str
    message: str


_CLOSED = {
    QuestionStatus.ANSWERED: _Closed(reason="QUESTION_ANSWERED", message="was answered already"),
    QuestionStatus.EXPIRED: _Closed(
        reason="QUESTION_EXPIRED", message="was not answered in time, and its task has failed"
    ),
    QuestionStatus.CANCELLED: _Closed(reason="QUESTION_CANCELLED", message="is not asked any more"),
}


class Answered(NamedTuple):
    """A question that was answered."""

    run: Run
    changed: bool
    """False if an earlier call with the same request id answered it."""
    question: Question
    """The current question."""


async def give_answer(
    executor: Executor, tenant_id: str, run_id: str, command: Answer, *, validate_only: bool = False
) -> Answered:
    """Answer a question if the answer fits, and return once that is committed; or only check it.

    Raises:
        NotFound: the run has no such question (QUESTION_NOT_FOUND), or doesn't exist.
        InvalidArgument: the answer doesn't fit (ANSWER_INVALID).
        FailedPrecondition: the question is no longer open.
    """
    question = await _read_question(executor.store, tenant_id, run_id, command.question_id)
    if question.status is QuestionStatus.OPEN:
        violations = await answer_violations(question, command.payload)
        if violations:
            first = violations[0]
            raise InvalidArgument(
                f"{first.field}: {first.description}",
                tuple(Violation(one.field, one.description) for one in violations),
                reason="ANSWER_INVALID",
            )
    before: Run | None = None
    if validate_only:
        before, reply = await decide(executor, tenant_id, run_id, command)
    else:
        reply = await executor.send(tenant_id, run_id, command)
    after = await _read_question(executor.store, tenant_id, run_id, command.question_id)
    if reply.reason == NOT_OPEN:
        _raise_not_open(after)
    run, changed = accepted(reply)
    return Answered(before or run, changed and not validate_only, after)


async def open_questions(store: Store, tenant_id: str, run_id: str) -> tuple[Question, ...]:
    """Return the questions of a run that wait for an answer, oldest first."""
    query = QuestionQuery(tenant_id=tenant_id, run_id=run_id)
    questions = [one.question async for one in every_row(store, query)]
    is_open = QuestionStatus.OPEN
    return tuple(one for one in questions if one.status is is_open and one.kind not in NO_PERSON)


async def _read_question(store: Store, tenant_id: str, run_id: str, question_id: str) -> Question:
    rows = await store.read_questions(tenant_id, run_id, [question_id])
    if not rows or rows[0].kind in NO_PERSON:
        raise NotFound(
            f"the run has no question {question_id!r}; list its questions to see their ids",
            reason="QUESTION_NOT_FOUND",
        )
    return rows[0]


def _raise_not_open(question: Question) -> NoReturn:
    if question.status not in _CLOSED:
        raise StoreUnavailable("the question is being changed concurrently; try again")
    reason, message = _CLOSED[question.status]
    raise FailedPrecondition(f"question {question.question_id!r} {message}", reason=reason)
