"""ListInputs, AnswerInput: what runs ask of people, and what people say."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.app.questions import give_answer
from stepwell.core.loop.signals import Answer, ReplyStatus
from stepwell.core.port import FoundInput, InputQuery
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, size_of, token_of
from stepwell.rpc.orchestrator.reads import the_run
from stepwell.rpc.orchestrator.requests import fingerprint_of
from stepwell.rpc.orchestrator.shown import Shown
from stepwell.rpc.parts import Parts
from stepwell.rpc.status import raise_refused
from stepwell.wire import fill, to_message, to_record
from stepwell_client.v1 import orchestrator_pb2 as pb


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
    """Answer a request, once."""
    run_id = request.run_id
    await the_run(parts, run_id)
    command = Answer(
        request_id=request.request_id,
        fingerprint=fingerprint_of(request),
        reason=request.reason,
        input_id=request.input_id,
        payload=to_record(request.answer),
        answered_by=request.answered_by or caller().subject,
        replan=request.replan,
    )
    answered = await give_answer(parts.store, parts.executor, tenant(), run_id, command)
    return pb.AnswerInputResponse(
        run=await shown.run(raise_refused(answered.reply)),
        input=to_message(answered.request),
        changed=answered.reply.status is ReplyStatus.ACCEPTED,
    )
