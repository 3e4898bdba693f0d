"""The gate that every RPC passes: admission, the request's limits, a place, and an answer to every error.

It is the only place that turns errors into statuses. Requests are parsed here instead of by gRPC,
so that one that is too large or malformed gets the same kind of answer as any other bad request,
and nothing is parsed before the caller is known. gRPC and the console's port call the wrapped
methods with the request's bytes and a context.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeAlias, cast

import grpc

from stepwell.core.port import Authenticator, Runtime
from stepwell.core.records.errors import StepwellError
from stepwell.logger import get_logger
from stepwell.rpc import status
from stepwell.rpc.admission import Admission, GateLimits
from stepwell.rpc.metrics import RpcMetrics
from stepwell.rpc.writing import StreamWriter

log = get_logger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
# In quotes, because what is generic in the stubs isn't at run time.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Unary: TypeAlias = "Callable[[Any, Context], Awaitable[Any]]"
_Streaming: TypeAlias = "Callable[[Any, Context], AsyncGenerator[Any] | Awaitable[None]]"
"""A method that yields its messages, or writes them itself like health's Watch."""
_Serializer: TypeAlias = "Callable[[Any], bytes]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class Gate(grpc.aio.ServerInterceptor):
    """The interceptor of all services of a server."""

    def __init__(
        self,
        authenticator: Authenticator,
        runtime: Runtime,
        metrics: RpcMetrics,
        gate_limits: GateLimits,
    ) -> None:
        self._authenticator = authenticator
        self._runtime = runtime
        self._metrics = metrics
        self._limits = gate_limits
        self.admission = Admission(metrics, gate_limits)
        self._handlers: dict[str, Handler] = {}
        self._writer = StreamWriter(runtime, stall_ms=gate_limits.stall_ms)

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Return the method behind the gate, or one that ends the call with an error."""
        method = handler_call_details.method
        try:
            # gRPC's stubs type the metadata's values as text, but some are bytes.
            metadata: Any = handler_call_details.invocation_metadata or ()
            self.admission.admit(method, metadata, self._authenticator)
        except StepwellError as error:
            return _refuse(status.answer_of(error))
        known = self._handlers.get(method)
        if known is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return _refuse(status.answer_of(status.MethodUnknown(f"no method {method!r}")))
            known = self._handlers[method] = self.behind(method, handler)
        return known

    # --- handlers ---------------------------------------------------------------------------------

    def behind(self, method: str, handler: Handler) -> Handler:
        """Return the method behind the gate, which takes the bytes of requests, with the caller set."""
        read = self.admission.reader(cast("Callable[[bytes], Any]", handler.request_deserializer))
        serializer = handler.response_serializer
        if handler.stream_stream is not None:
            inner = cast("_Streaming", handler.stream_stream)
            work = self._answers_many(method, inner, lambda raw: _each(raw, read))
            return grpc.stream_stream_rpc_method_handler(cast("Any", work), None, serializer)
        if handler.unary_stream is not None:
            inner = cast("_Streaming", handler.unary_stream)
            work = self._answers_many(method, inner, read)
            return grpc.unary_stream_rpc_method_handler(
                cast("Any", work), None, _unless_bytes(cast("_Serializer", serializer))
            )
        if handler.unary_unary is None:
            raise TypeError(f"{method} is of a kind that no service here has")
        work = self._answers_one(method, cast("_Unary", handler.unary_unary), read)
        return grpc.unary_unary_rpc_method_handler(cast("Any", work), None, serializer)

    def _answers_one(
        self,
        method: str,
        inner: _Unary,
        read: Callable[[bytes], Any],
    ) -> Callable[[bytes, Context], Awaitable[Any]]:
        meter = self._metrics.meter(method)
        room = self.admission.room(method)

        async def serve(raw: bytes, context: Context) -> Any:
            since = self._runtime.monotonic()
            code = grpc.StatusCode.CANCELLED
            try:
                try:
                    with room:
                        answer = await inner(read(raw), context)
                    code = grpc.StatusCode.OK
                    return answer
                except Exception as error:  # noqa: BLE001 - it is logged unless it is expected
                    refusal = self._answer_to(method, error, context)
                code = refusal.code
                # The call keeps the exception that ends it, which keeps this frame. The frame must
                # not keep the call and its request, or they would live until the garbage collector
                # runs.
                aborting = context.abort(*refusal)
                del raw, context
                # A caller that has gone can't be answered, and grpc.aio would log a traceback for
                # each.
                with suppress(grpc.aio.InternalError):
                    await aborting
            finally:
                meter.done(code, self._runtime.monotonic() - since)

        return serve

    def _answers_many(
        self, method: str, inner: _Streaming, read: Callable[[Any], Any]
    ) -> Callable[[Any, Context], Awaitable[None]]:
        meter = self._metrics.meter(method, stream=True)
        room = self.admission.room(method, stream=True)

        async def serve(raw: Any, context: Context) -> None:
            meter.begun()
            since = self._runtime.monotonic()
            code = grpc.StatusCode.CANCELLED
            try:
                try:
                    with room:
                        answers = inner(read(raw), context)
                        if isinstance(answers, AsyncGenerator):
                            async with aclosing(answers) as messages:
                                await self._writer.write(messages, context)
                        else:
                            await answers
                    code = grpc.StatusCode.OK
                    return
                except Exception as error:  # noqa: BLE001 - it is logged unless it is expected
                    refusal = self._answer_to(method, error, context)
                code = refusal.code
                aborting = context.abort(*refusal)
                del raw, context  # For the same reason.
                # The status is queued behind unread messages, but no task of ours waits with it.
                with suppress(TimeoutError, grpc.aio.InternalError):
                    async with asyncio.timeout(self._limits.stall_ms / 1_000):
                        await aborting
            finally:
                meter.done(code, self._runtime.monotonic() - since)

        return serve

    def _answer_to(self, method: str, error: Exception, context: Context) -> status.Answer:
        """Return the answer that the call ends with.

        Raises:
            asyncio.CancelledError: the caller has gone. gRPC ends such calls like this, and logs
                any other error.
        """
        if isinstance(error, grpc.aio.AbortError):
            raise error
        if isinstance(error, StepwellError):
            answer = status.answer_of(error)
            if answer.code is not grpc.StatusCode.INTERNAL:
                return answer
        elif isinstance(error, grpc.aio.InternalError) or context.done() or context.cancelled():
            # The first is raised by a write on an ended call, before the context knows of its end.
            raise asyncio.CancelledError
        error_id = self._runtime.new_id()
        log.error("unexpected error", method=method, error_id=error_id, exc_info=error)
        return status.internal(error_id)


def _unless_bytes(serializer: _Serializer) -> _Serializer:
    """Return a serializer that leaves already serialized messages unchanged."""

    def serialized(message: Any) -> bytes:
        return message if isinstance(message, bytes) else serializer(message)

    return serialized


async def _each(raw: AsyncIterator[bytes], read: Callable[[bytes], Any]) -> AsyncGenerator[Any]:
    async for one in raw:
        yield read(one)


def _refuse(answer: status.Answer) -> Handler:
    """Return a method, of any kind, that reads nothing and ends the call."""

    async def end(_requests: Any, context: Context) -> None:
        await context.abort(*answer)

    return grpc.stream_stream_rpc_method_handler(cast("Any", end), None, None)
