"""ListInputs, AnswerInput: what runs ask of people, and what people say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from stepwell.core.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
    Violation,
)
from stepwell.core.inputs import Answer, ReplyStatus
from stepwell.core.model import InputRequest
from stepwell.core.people import NOT_OPEN
from stepwell.core.ports import FoundInput, InputQuery
from stepwell.core.states import InputStatus
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, size_of, token_of
from stepwell.rpc.orchestrator.reads import the_run
from stepwell.rpc.orchestrator.requests import fingerprint_of
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import Parts
from stepwell.rpc.status import raise_refused
from stepwell.schemas import answer_violations
from stepwell.wire import fill, to_message, to_record
from stepwell_client.v1 import orchestrator_pb2 as pb

_WORDS = {
    InputStatus.ANSWERED: ("INPUT_ANSWERED", "was answered already"),
    InputStatus.EXPIRED: ("INPUT_EXPIRED", "was not answered in time, and its task has failed"),
    InputStatus.CANCELLED: ("INPUT_CANCELLED", "is not asked any more"),
}


async def list_inputs(parts: Parts, request: pb.ListInputsRequest) -> pb.ListInputsResponse:
    """Return a page of a run's input requests, or of the open ones of all runs."""
    tenant_id = tenant()
    cursor = cursor_of(tenant_id, request)
    if request.run_id:
        await the_run(parts, request.run_id)

    async def read(limit: int) -> tuple[Sequence[FoundInput], str]:
        query = InputQuery(tenant_id=tenant_id, run_id=request.run_id, cursor=cursor, limit=limit)
        page = await parts.store.list_inputs(query)
        return page.inputs, page.cursor

    async def show(found: FoundInput) -> pb.RunInput:
        shown = pb.RunInput(run_id=found.run_id)
        fill(found.request, shown.request)
        return shown

    inputs, after = await read_page(read, show, size_of(request))
    return pb.ListInputsResponse(inputs=inputs, next_page_token=token_of(tenant_id, request, after))


async def answer_input(
    parts: Parts, shown: Shown, request: pb.AnswerInputRequest
) -> pb.AnswerInputResponse:
    """Answer a request, once. The loop decides who was first; the rows only say why not."""
    run_id = request.run_id
    await the_run(parts, run_id)
    asked = await _the_input(parts, run_id, request.input_id)
    command = Answer(
        request_id=request.request_id,
        fingerprint=fingerprint_of(request),
        reason=request.reason,
        input_id=request.input_id,
        payload=to_record(request.answer),
        answered_by=request.answered_by or caller().subject,
        replan=request.replan,
    )
    if asked.status is InputStatus.OPEN:
        found = await answer_violations(asked, command.payload)
        if found:
            first = found[0]
            raise InvalidArgument(
                f"{first.field}: {first.description}",
                tuple(Violation(one.field, one.description) for one in found),
                reason="ANSWER_INVALID",
            )
    reply = await parts.executor.send(tenant(), run_id, command)
    if reply.reason == NOT_OPEN:
        _raise_not_open(await _the_input(parts, run_id, request.input_id))
    raise_refused(reply)
    run = await the_run(parts, run_id)
    after = await _the_input(parts, run_id, request.input_id)
    return pb.AnswerInputResponse(
        run=await shown.run(run),
        input=to_message(after),
        changed=reply.status is ReplyStatus.ACCEPTED,
    )


async def _the_input(parts: Parts, run_id: str, input_id: str) -> InputRequest:
    found = await parts.store.read_inputs(tenant(), run_id, [input_id])
    if not found:
        raise NotFound(
            f"the run has no input request {input_id!r}; ListInputs has those that there are",
            reason="INPUT_NOT_FOUND",
        )
    return found[0]


def _raise_not_open(asked: InputRequest) -> NoReturn:
    if asked.status not in _WORDS:
        raise StoreUnavailable("the request changes just now; try again")
    reason, words = _WORDS[asked.status]
    raise FailedPrecondition(f"input request {asked.input_id!r} {words}", reason=reason)
