"""Answers a question by its token, without a credential of its tenant.

Whatever is wrong with a token, its holder is told the same: there is no such question. A token that
was right once still says how its question ended.
"""

from __future__ import annotations

import hmac
import json

from stepwell.app.questions import QUESTION_ANSWERED, give_answer
from stepwell.core.loop.occurrences import Answer
from stepwell.core.loop.question_tokens import TOKEN
from stepwell.core.records.errors import FailedPrecondition, NotFound
from stepwell.core.records.model import Payload, Question
from stepwell.engine.executor import Executor
from stepwell_client.answer_tokens import AnswerPlace, answer_place

BY_TOKEN = "token"  # noqa: S105 - a name, not a token
"""The name that stands for whoever answers by a token, who is not known."""


def unknown_token() -> NotFound:
    """Return the one error for all tokens that no question has."""
    return NotFound("no question has this token", reason="TOKEN_NOT_FOUND")


async def answer_by_token(executor: Executor, token: str, answer: Payload) -> bool:
    """Answer the token's question, and return once that is committed; False if it had the same answer.

    Raises:
        NotFound: no question has this token (TOKEN_NOT_FOUND).
        InvalidArgument: the answer doesn't fit (ANSWER_INVALID).
        FailedPrecondition: the question has another answer, or is no longer open.
    """
    place = answer_place(token)
    if place is None:
        raise unknown_token()
    question = await _find(executor, place)
    command = Answer(
        question_id=question.question_id, payload=answer, answered_by=BY_TOKEN, actor=BY_TOKEN
    )
    try:
        answered = await give_answer(executor, place.tenant_id, place.run_id, command)
    except NotFound:
        raise unknown_token() from None  # Its run was deleted meanwhile.
    except FailedPrecondition as error:
        if error.reason != QUESTION_ANSWERED:
            raise
        ended = await _find(executor, place)
        if ended.answer is None or not _is_same(ended.answer, answer):
            raise
        return False
    return answered.changed


async def _find(executor: Executor, place: AnswerPlace) -> Question:
    question_id = TOKEN + place.token_sha256
    rows = await executor.store.read_questions(place.tenant_id, place.run_id, [question_id])
    for one in rows:
        if hmac.compare_digest(one.question_id.encode(), question_id.encode()):
            return one
    raise unknown_token()


def _is_same(one: Payload, other: Payload) -> bool:
    """Return whether two answers are equal, as bytes or as JSON."""
    if one.data == other.data:
        return True
    try:
        forms = [json.dumps(json.loads(each.data), sort_keys=True) for each in (one, other)]
    except (ValueError, RecursionError):
        return False
    return forms[0] == forms[1]
