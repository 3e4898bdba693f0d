"""Answering what a run asks: by whom it was asked and what fits, before the loop decides.

The loop holds what is open and nothing else, and it alone decides who was first. The rows are read for
two things: the schema that the answer must fit, and afterwards why a request was not open any more.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from stepwell.core.loop.questions import NOT_OPEN
from stepwell.core.loop.signals import Answer, Reply
from stepwell.core.port import Store
from stepwell.core.records.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
    Violation,
)
from stepwell.core.records.model import InputRequest
from stepwell.core.records.states import InputStatus
from stepwell.engine.executor import Executor
from stepwell.schemas import answer_violations


class _Closed(NamedTuple):
    reason: str
    words: str


_WORDS = {
    InputStatus.ANSWERED: _Closed(reason="INPUT_ANSWERED", words="was answered already"),
    InputStatus.EXPIRED: _Closed(
        reason="INPUT_EXPIRED", words="was not answered in time, and its task has failed"
    ),
    InputStatus.CANCELLED: _Closed(reason="INPUT_CANCELLED", words="is not asked any more"),
}


class Answered(NamedTuple):
    """What came of it."""

    reply: Reply
    request: InputRequest
    """As it is now."""


async def give_answer(
    store: Store, executor: Executor, tenant_id: str, run_id: str, command: Answer
) -> Answered:
    """Answer a request, if the answer fits; the reply is true once this returns.

    Raises:
        NotFound: the run has no such request (INPUT_NOT_FOUND), or isn't there.
        InvalidArgument: the answer doesn't fit (ANSWER_INVALID).
        FailedPrecondition: the request is not open any more.
    """
    asked = await _the_input(store, tenant_id, run_id, command.input_id)
    if asked.status is InputStatus.OPEN:
        found = await answer_violations(asked, command.payload)
        if found:
            first = found[0]
            raise InvalidArgument(
                f"{first.field}: {first.description}",
                tuple(Violation(one.field, one.description) for one in found),
                reason="ANSWER_INVALID",
            )
    reply = await executor.send(tenant_id, run_id, command)
    after = await _the_input(store, tenant_id, run_id, command.input_id)
    if reply.reason == NOT_OPEN:
        _raise_not_open(after)
    return Answered(reply, after)


async def _the_input(store: Store, tenant_id: str, run_id: str, input_id: str) -> InputRequest:
    found = await store.read_inputs(tenant_id, run_id, [input_id])
    if not found:
        raise NotFound(
            f"the run has no input request {input_id!r}; list its requests to see their ids",
            reason="INPUT_NOT_FOUND",
        )
    return found[0]


def _raise_not_open(asked: InputRequest) -> NoReturn:
    if asked.status not in _WORDS:
        raise StoreUnavailable("the request changes just now; try again")
    reason, words = _WORDS[asked.status]
    raise FailedPrecondition(f"input request {asked.input_id!r} {words}", reason=reason)
