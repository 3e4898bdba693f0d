"""Calls to another server: passes on by gRPC what came by HTTP, byte for byte, with this process's credential."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from stepwell.console.calls import Metadata, Method, Served
from stepwell.console.reply import Reply
from stepwell.console.sessions import Sessions
from stepwell.core.port import Runtime
from stepwell.core.records.errors import StepwellError, StoreUnavailable
from stepwell.rpc import status
from stepwell.rpc.auth import texts_of
from stepwell.rpc.scopes import QUESTION, SCOPES
from stepwell.rpc.writing import StreamWriter


class Access(Protocol):
    """A token for forwarded calls."""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of every call."""
        ...

    def reload(self) -> bool:
        """Read its file again after a refusal; return whether the token has changed."""
        ...


class ForwardingBackend:
    """The methods of a server that is called by gRPC."""

    def __init__(
        self,
        target: str,
        channel: Callable[[], grpc.aio.Channel],
        access: Access,
        sessions: Sessions,
        runtime: Runtime,
        *,
        stall_ms: int,
    ) -> None:
        """`access` is the credential of forwarded calls, whichever session makes them."""
        self._target = target
        self._channel = channel
        self._access = access
        self._sessions = sessions
        self._writer = StreamWriter(runtime, stall_ms=stall_ms)

    def admit(self, path: str, metadata: Metadata) -> None:
        """Admit a session, or a call that needs none; the server decides what it may do."""
        if SCOPES.get(path) == QUESTION:
            return
        self._sessions.authenticate(texts_of(metadata))
        if not path:
            raise status.MethodUnknown("there is no such method")

    def refused(self, path: str, error: StepwellError) -> None:
        """Do nothing: this process has no metrics."""

    def served(self, method: Method) -> Served:
        """Return the method."""
        serve = self._stream if method.streams else self._answer

        async def served(raw: bytes, reply: Reply) -> Message | bytes | None:
            try:
                try:
                    return await serve(method.path, raw, reply)
                except grpc.aio.AioRpcError as error:
                    # A call that isn't admitted has done nothing.
                    if (
                        error.code() is not grpc.StatusCode.UNAUTHENTICATED
                        or not self._access.reload()
                    ):
                        raise
                    return await serve(method.path, raw, reply)
            except grpc.aio.AioRpcError as error:
                answer = self._passed_on(error)
            except StepwellError as error:
                answer = status.answer_of(error)
            return await reply.abort(*answer)

        return served

    async def _answer(self, path: str, raw: bytes, _reply: Reply) -> bytes:
        channel: Any = self._channel()
        return await channel.unary_unary(path)(raw, metadata=self._access.metadata)

    async def _stream(self, path: str, raw: bytes, reply: Reply) -> None:
        channel: Any = self._channel()
        call = channel.unary_stream(path)(raw, metadata=self._access.metadata)
        try:
            # They come once the server has admitted the call.
            await call.initial_metadata()
            await reply.send_initial_metadata(())
            async with aclosing(_messages(call)) as messages:
                await self._writer.write(messages, cast("Any", reply))
        finally:
            call.cancel()

    def _passed_on(self, error: grpc.aio.AioRpcError) -> status.Answer:
        for key, value in error.trailing_metadata() or ():
            if key == status.DETAILS_KEY and isinstance(value, bytes):
                return status.Answer(error.code(), error.details() or "", ((key, value),))
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            message = f"{self._target} can't be reached: {error.details()}"
            return status.answer_of(StoreUnavailable(message, reason="SERVER_UNREACHABLE"))
        return status.Answer(error.code(), error.details() or "", ())


async def _messages(call: Any) -> AsyncGenerator[bytes]:
    async for message in call:
        yield message
