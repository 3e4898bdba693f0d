"""POST /answers/TOKEN: the answer to a question by whoever has its token, for callers without a client.

The body is the answer, as JSON. The path is a secret: it is in no log and in no response. As
everywhere on this port, a page of another origin may not call; a program sends no origin. There
are no cookies, so a browser adds no right to what it is made to send.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from stepwell.app.question_tokens import unknown_token
from stepwell.console import wire
from stepwell.console.calls import METHODS, Calls, Metadata, Receive
from stepwell.console.reply import Reply, Response
from stepwell.rpc import status
from stepwell_client.answer_tokens import answer_place
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

PREFIX = "/answers/"
_METHOD = METHODS["/stepwell.v1.Orchestrator/AnswerByToken"]
_FORM = wire.FORMS["application/json"]
_NO_STORE = ("cache-control", "no-store")
_RETRY_AFTER = ("retry-after", "1")
_CODES = {"FAILED_PRECONDITION": 409, "MESSAGE_TOO_LARGE": 413}
"""HTTP statuses by reason or code, where they differ from those of calls."""


async def serve(
    calls: Calls, path: str, metadata: Metadata, receive: Receive, response: Response
) -> None:
    """Answer a POST to such a path: 200, or an error in JSON with its reason and the fields at fault."""
    reply = _Reply(response, _FORM, _METHOD.answer)
    token = path.removeprefix(PREFIX)
    content_type = dict(metadata).get("content-type", "")
    if wire.form_of(content_type, streams=False) is not _FORM:
        await response.json(415, {"message": "send the answer as Content-Type: application/json"})
        return
    if answer_place(token) is None:
        await reply.fail(status.answer_of(unknown_token()))
        return

    async def request(body: bytes) -> bytes:
        answer = types_pb2.Payload(data=body)
        return pb.AnswerByTokenRequest(token=token, answer=answer).SerializeToString()

    await calls.carry_out(_METHOD, request, metadata, receive, reply)


class _Reply(Reply):
    """The answer in a form that needs no knowledge of calls."""

    async def answer(self, message: Message | bytes | None) -> None:  # noqa: ARG002 - a callback, whose answer says no more
        """Say that the question is answered; the same for an answer that came again."""
        await self.response.json(200, {"answered": True}, _NO_STORE)

    async def fail(self, answer: status.Answer) -> None:
        """Say why it is not."""
        details = [one.get("debug", {}) for one in wire.error_of(answer)["details"]]
        name, reason = answer.code.name, next((one["reason"] for one in details), "")
        code = _CODES.get(reason) or _CODES.get(name) or wire.HTTP_STATUSES[name]
        value: dict[str, Any] = {"reason": reason, "message": answer.message}
        if fields := [one for each in details for one in each.get("fieldViolations", ())]:
            value["fields"] = fields
        again = (_RETRY_AFTER,) if code in (429, 503) else ()
        await self.response.json(code, value, _NO_STORE, *again)
