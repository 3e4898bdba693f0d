"""The answer to a call, written into an HTTP response; the gate's handlers use it as the call's context.

A write waits while the reader's side is full. The gate's writer bounds that for messages. Here the
last bytes of a response are bounded, and a connection that doesn't take them is cut.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import Message

from stepwell.console import wire
from stepwell.rpc import status

Scope: TypeAlias = dict[str, Any]
Send: TypeAlias = Callable[[dict[str, Any]], Any]
Headers: TypeAlias = list[tuple[bytes, bytes]]

IN_THREAD_BYTES = 64 * 1024
"""The size from which on a message is converted to JSON in a thread, so that the event loop can continue."""


class Ended(Exception):
    """The end of a call with an error, as raised by `abort` of gRPC's contexts."""

    def __init__(self, answer: status.Answer) -> None:
        super().__init__(answer.message)
        self.answer = answer


class Response:
    """An HTTP response that is written in parts, the last of them within a time limit."""

    def __init__(self, scope: Scope, send: Send, stall_s: float) -> None:
        """`stall_s` is the longest that the end of the response may be unread."""
        self._scope = scope
        self._send = send
        self._stall_s = stall_s
        self.is_started = False
        self.is_gone = False
        """True if the client has closed the connection."""

    @property
    def peer(self) -> str:
        """The client's address, in the form of gRPC's peers."""
        host, port = self._scope.get("client") or ("", 0)
        return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"

    async def start(self, code: int, headers: Headers) -> None:
        """Send status and headers."""
        self.is_started = True
        await self._send({"type": "http.response.start", "status": code, "headers": headers})

    async def part(self, data: bytes) -> None:
        """Send a part of the body, once the previous one was accepted."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        """Send the last part of the body, and wait until nearly all is taken, or cut the connection off."""
        try:
            async with asyncio.timeout(self._stall_s):
                await self.part(data)
                await self._send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            self.cut()

    async def whole(
        self, code: int, content_type: str, data: bytes, *more: tuple[str, str]
    ) -> None:
        """Send a response of one part."""
        length = ("content-length", str(len(data)))
        pairs = (("content-type", content_type), length, *more)
        await self.start(code, [(key.encode(), value.encode()) for key, value in pairs])
        await self.end(data)

    async def json(self, code: int, value: object, *more: tuple[str, str]) -> None:
        """Send a value as JSON."""
        await self.whole(code, "application/json", json.dumps(value).encode(), *more)

    def cut(self) -> None:
        """Close the connection now, with any unread data."""
        abort = self._scope.get("state", {}).get("abort")
        if abort is not None:
            abort()


class Reply:
    """The context of a call: the part of gRPC's context that the gate and the methods use."""

    def __init__(self, response: Response, form: wire.Form, kind: type[Message]) -> None:
        """`kind` is the class of the answers."""
        self.response = response
        self._form = form
        self._kind = kind

    # --- for the gate and the methods behind it ---------------------------------------------------

    async def send_initial_metadata(self, _metadata: object) -> None:
        """Send the headers, which tell the client that its stream works."""
        if not self.response.is_started:
            kind = self._form.content_type.encode()
            await self.response.start(200, [(b"content-type", kind)])

    async def write(self, message: Message | bytes) -> None:
        """Send a message of a stream."""
        await self.send_initial_metadata(())
        await self.response.part(wire.enveloped(await self._encoded(message)))

    async def abort(
        self,
        code: grpc.StatusCode,
        message: str = "",
        metadata: tuple[tuple[str, bytes], ...] = (),
    ) -> NoReturn:
        """End the call with an error."""
        raise Ended(status.Answer(code, message, metadata))

    def peer(self) -> str:
        """Return the client's address."""
        return self.response.peer

    def cancelled(self) -> bool:
        """Return whether the client has gone."""
        return self.response.is_gone

    done = cancelled

    # --- the end ----------------------------------------------------------------------------------

    async def answer(self, message: Message | bytes | None) -> None:
        """End the call successfully; None: all messages have been written."""
        if not self._form.is_stream:
            assert message is not None
            data = await self._encoded(message)
            await self.response.whole(200, self._form.content_type, data)
            return
        last = b"" if message is None else wire.enveloped(await self._encoded(message))
        await self.send_initial_metadata(())
        await self.response.end(last + wire.end_of(None))

    async def fail(self, answer: status.Answer) -> None:
        """End the call with an error."""
        if not self._form.is_stream:
            code = wire.HTTP_STATUSES[answer.code.name]
            await self.response.json(code, wire.error_of(answer))
            return
        await self.send_initial_metadata(())
        await self.response.end(wire.end_of(answer))

    async def _encoded(self, message: Message | bytes) -> bytes:
        size = len(message) if isinstance(message, bytes) else message.ByteSize()
        if self._form.is_json and size > IN_THREAD_BYTES:
            return await asyncio.to_thread(wire.encoded, self._form, message, self._kind)
        return wire.encoded(self._form, message, self._kind)
