"""What runs ask of people, and what people answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from stepwell_client._parts import AsyncPart, SyncPart
from stepwell_client._payloads import encode
from stepwell_client._procedures import Procedure, Procedures
from stepwell_client.v1 import orchestrator_pb2, types_pb2

_NULL = types_pb2.Payload(data=b"null", media_type="application/json")


def inputs_page(
    procedures: Procedures, run_id: str | None, page_token: str
) -> Procedure[orchestrator_pb2.ListInputsResponse]:
    """Read a page of what is asked."""
    request = orchestrator_pb2.ListInputsRequest(run_id=run_id or "", page_token=page_token)
    return procedures.call("ListInputs", request)


def answer(
    procedures: Procedures,
    run_id: str,
    input_id: str,
    value: object,
    *,
    replan: bool,
    reason: str,
    answered_by: str,
    request_id: str,
) -> Procedure[orchestrator_pb2.AnswerInputResponse]:
    """Answer a request."""
    payload = encode(value)
    request = orchestrator_pb2.AnswerInputRequest(
        run_id=run_id,
        input_id=input_id,
        answer=_NULL if payload is None else payload,
        answered_by=answered_by,
        replan=replan,
        reason=reason,
        request_id=request_id or procedures.runtime.new_id(),
    )
    return procedures.call("AnswerInput", request)


class AsyncPeople(AsyncPart):
    """Of `Client`."""

    async def inputs(self, run_id: str | None = None) -> AsyncIterator[orchestrator_pb2.RunInput]:
        """Yield what a run has asked, answered or not; without a run what all runs wait for."""
        token = ""
        while True:
            page = await self._do(inputs_page(self._procedures, run_id, token))
            for one in page.inputs:
                yield one
            token = page.next_page_token
            if not token:
                return

    async def answer(
        self,
        run_id: str,
        input_id: str,
        value: object,
        *,
        replan: bool = False,
        reason: str = "",
        answered_by: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.AnswerInputResponse:
        """Answer what a run has asked, once; its task goes on with the answer.

        `replan`: have the run make another plan before anything else is dispatched; its planner is
        shown the `reason`.
        """
        procedure = answer(
            self._procedures,
            run_id,
            input_id,
            value,
            replan=replan,
            reason=reason,
            answered_by=answered_by,
            request_id=request_id,
        )
        return await self._do(procedure)


class SyncPeople(SyncPart):
    """Of `SyncClient`."""

    def inputs(self, run_id: str | None = None) -> Iterator[orchestrator_pb2.RunInput]:
        """Yield what a run has asked, answered or not; without a run what all runs wait for."""
        token = ""
        while True:
            page = self._do(inputs_page(self._procedures, run_id, token))
            yield from page.inputs
            token = page.next_page_token
            if not token:
                return

    def answer(
        self,
        run_id: str,
        input_id: str,
        value: object,
        *,
        replan: bool = False,
        reason: str = "",
        answered_by: str = "",
        request_id: str = "",
    ) -> orchestrator_pb2.AnswerInputResponse:
        """Answer what a run has asked, once; its task goes on with the answer."""
        procedure = answer(
            self._procedures,
            run_id,
            input_id,
            value,
            replan=replan,
            reason=reason,
            answered_by=answered_by,
            request_id=request_id,
        )
        return self._do(procedure)
