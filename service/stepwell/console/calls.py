"""Calls of the Orchestrator service by HTTP: from the request's head to the end of the answer.

The caller is known before a byte of the body is read. The backend executes the call: the server of
this process, or a server that is called by gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeAlias

from google.protobuf import message_factory
from google.protobuf.message import Message

from stepwell.console import wire
from stepwell.console.reply import IN_THREAD_BYTES, Ended, Reply, Response, Scope
from stepwell.core.port import Runtime
from stepwell.core.records.errors import InvalidArgument, StepwellError
from stepwell.rpc import status
from stepwell.rpc.admission import GateLimits, too_large
from stepwell_client.v1 import orchestrator_pb2

Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Metadata: TypeAlias = Sequence[tuple[str, str]]
Served: TypeAlias = Callable[[bytes, Reply], Awaitable[Message | bytes | None]]
"""A method, which returns one answer or writes several, and ends errors by `abort`."""

BODIES_BYTES_MAX = 64 * 1024 * 1024
"""The most bytes of all bodies that are being read, which have no place among the calls yet."""
SMALL_BYTES_MAX = 64 * 1024
"""The size up to which a body takes nothing of that, because the connection buffers it anyway, so
that small calls always proceed.
"""
_TIMEOUT_DIGITS_MAX = 10
_TIMEOUT_HEADER = "connect-timeout-ms"


class ClientGone(Exception):
    """The client has gone before its request was complete, or sends nothing more."""


class Method(NamedTuple):
    """A method of the service, from its description."""

    path: str
    request: type[Message]
    answer: type[Message]
    streams: bool
    """True if it answers with a stream."""


def _methods() -> Mapping[str, Method]:
    service = orchestrator_pb2.DESCRIPTOR.services_by_name["Orchestrator"]
    return {
        f"/{service.full_name}/{one.name}": Method(
            f"/{service.full_name}/{one.name}",
            message_factory.GetMessageClass(one.input_type),
            message_factory.GetMessageClass(one.output_type),
            one.server_streaming,
        )
        for one in service.methods
    }


METHODS = _methods()
PREFIX = "/stepwell.v1."
"""The prefix of calls' paths."""


class Backend(Protocol):
    """The methods that calls can reach."""

    def admit(self, path: str, metadata: Metadata) -> None:
        """Admit a call for the current task and those that it starts, or raise StepwellError."""
        ...

    def refused(self, path: str, error: StepwellError) -> None:
        """Count a call whose request could not be read."""
        ...

    def served(self, method: Method) -> Served:
        """Return the method."""
        ...


class Calls:
    """Answers calls."""

    def __init__(self, backend: Backend, runtime: Runtime, gate_limits: GateLimits) -> None:
        self._backend = backend
        self._runtime = runtime
        self._bytes_max = gate_limits.receive_bytes_max
        self.bodies = Bodies(gate_limits.stall_ms / 1_000)

    async def serve(self, scope: Scope, receive: Receive, response: Response) -> None:
        """Answer a POST to a path of a call."""
        path: str = scope["path"]
        metadata = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
        headers = dict(metadata)
        method = METHODS.get(path)
        content_type = headers.get("content-type", "")
        if method is None:
            form = wire.FORMS.get(content_type, wire.FORMS["application/json"])
        else:
            form = wire.form_of(content_type, streams=method.streams)
        if form is None:
            await _refuse_type(response, method)
            return
        reply = Reply(response, form, method.answer if method else Message)

        async def request(body: bytes) -> bytes:
            assert method is not None, "a call without a method is not admitted"
            return await self._request(form, body, headers, method)

        await self.carry_out(method, request, metadata, receive, reply)

    async def carry_out(
        self,
        method: Method | None,
        request: Callable[[bytes], Awaitable[bytes]],
        metadata: Metadata,
        receive: Receive,
        reply: Reply,
    ) -> None:
        """Make a call, None: of a missing method; `request` makes its message of the body."""
        # A method of another service counts as missing.
        path = method.path if method else ""
        try:
            self._backend.admit(path, metadata)
        except StepwellError as error:
            await reply.fail(status.answer_of(error))
            return
        assert method is not None, "a call without a method is not admitted"
        try:
            seconds = _timeout(dict(metadata))
            raw = await request(await self.bodies.read(receive, self._bytes_max))
        except StepwellError as error:
            self._backend.refused(path, error)
            await reply.fail(status.answer_of(error))
            return
        call = self._call(self._backend.served(method), raw, reply, seconds)
        await self._until_gone(call, receive, reply.response)

    async def _request(
        self, form: wire.Form, body: bytes, headers: Mapping[str, str], method: Method
    ) -> bytes:
        encoding = headers.get(form.encoding_header, "")
        given = (form, body, encoding, method.request, self._bytes_max)
        if form.is_json and (encoding or len(body) > IN_THREAD_BYTES):
            return await asyncio.to_thread(wire.request_bytes, *given)
        return wire.request_bytes(*given)

    async def _call(self, served: Served, raw: bytes, reply: Reply, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                answer = await served(raw, reply)
        except Ended as ended:
            await reply.fail(ended.answer)
        except TimeoutError:
            over = status.CallTimedOut("the time that the caller gave is over")
            await reply.fail(status.answer_of(over))
        else:
            await reply.answer(answer)

    async def _until_gone(self, call: Any, receive: Receive, response: Response) -> None:
        """Await a call to its end; cancel it once the client has gone."""
        work = self._runtime.spawn(call, name="call by HTTP")
        gone = self._runtime.spawn(_gone(receive), name="client by HTTP")
        try:
            await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            response.is_gone = gone.done()
            for task in (work, gone):
                if not task.done():
                    task.cancel()
            await asyncio.wait((work, gone))
        with suppress(asyncio.CancelledError):
            work.result()


class Bodies:
    """Reads the bodies of requests, within a total number of bytes."""

    def __init__(self, stall_s: float) -> None:
        """`stall_s` is the time for one body."""
        self._stall_s = stall_s
        self._bytes = 0

    async def read(self, receive: Receive, bytes_max: int) -> bytes:
        """Return the body of a request, of at most one message in its envelope.

        Raises:
            ClientGone: it isn't complete in time.
            ResourceExhausted: the message is too large, or other bodies leave it no room.
        """
        parts: list[bytes] = []
        size, taken, more = 0, 0, True
        try:
            async with asyncio.timeout(self._stall_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > bytes_max + wire.ENVELOPE_BYTES:
                        raise too_large(f"more than {bytes_max:,} bytes", bytes_max)
                    wanted = size if size > SMALL_BYTES_MAX else 0
                    if self._bytes + wanted - taken > BODIES_BYTES_MAX:
                        raise status.TooManyCalls(
                            "the bodies that this replica is being sent fill their room; call again"
                        )
                    self._bytes += wanted - taken
                    taken = wanted
                    more = message.get("more_body", False)
        except TimeoutError:
            raise ClientGone from None
        finally:
            self._bytes -= taken
        return b"".join(parts)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _timeout(headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which the caller stops waiting, or None."""
    text = headers.get(_TIMEOUT_HEADER, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _TIMEOUT_DIGITS_MAX):
        raise InvalidArgument(f"{_TIMEOUT_HEADER} is no time: {text[:20]!r}", reason="BODY_INVALID")
    return int(text) / 1_000


async def _refuse_type(response: Response, method: Method | None) -> None:
    streams = method is not None and method.streams
    kinds = [form.content_type for form in wire.FORMS.values() if form.is_stream == streams]
    message = f"send one of these as Content-Type: {', '.join(kinds)}"
    value = {"code": "invalid_argument", "message": message}
    await response.json(415, value, ("accept-post", ", ".join(kinds)))
