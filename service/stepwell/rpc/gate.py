"""The gate that every RPC passes: metadata's size, the credential, its scope, the request's limits.

It is the one place that turns errors into statuses, too. Requests are read here rather than by gRPC,
so that one that is too large or no message at all gets the same kind of answer as any other bad
request, and nothing of it is parsed before the caller is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from typing import Any, NamedTuple, TypeAlias, cast

import grpc
from google.protobuf.message import DecodeError, Message

from stepwell.core.port import Authenticator, Runtime
from stepwell.core.records import limits
from stepwell.core.records.errors import (
    PermissionDenied,
    ResourceExhausted,
    StepwellError,
    StoreUnavailable,
)
from stepwell.logger import get_logger
from stepwell.rpc import scopes, status
from stepwell.rpc.caller import set_caller
from stepwell.rpc.metrics import RpcMetrics
from stepwell.rpc.writing import StreamWriter
from stepwell.wire.undecodable import read_rest
from stepwell.wire.validate import check

log = get_logger(__name__)

_METADATA_OVERHEAD_BYTES = 32
"""The bytes that HTTP/2 counts for each entry besides its key and value."""
_REPORTS = frozenset(
    {
        "/stepwell.v1.Worker/Complete",
        "/stepwell.v1.Worker/Heartbeat",
        "/stepwell.v1.Worker/Append",
        "/stepwell.v1.Worker/ReadResults",
        "/stepwell.v1.Worker/Record",
        "/stepwell.v1.Worker/ReadJournal",
    }
)
"""Reports of work that is done or under way, and what it reads: taken while draining, and always admitted."""
_WAITS = frozenset({"/stepwell.v1.Orchestrator/WaitRun"})
"""Methods of one answer that count as streams, because they may take minutes."""
_UNCHECKED = ("grpc.", "stepwell.v1.WorkRequest")
"""First parts of the names of requests that are not ours, or that are checked item by item."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
# In quotes, as what is generic in the stubs isn't at run time.
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Unary: TypeAlias = "Callable[[Any, Context], Awaitable[Any]]"
_Streaming: TypeAlias = "Callable[[Any, Context], AsyncGenerator[Any] | Awaitable[None]]"
"""A method that yields its messages, or writes them itself as health's Watch does."""
_Serializer: TypeAlias = "Callable[[Any], bytes]"
Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]]"


class GateLimits(NamedTuple):
    """The limits of what passes the gate."""

    stall_ms: int = 60_000
    """For how long a write may be blocked."""
    receive_bytes_max: int = limits.RECEIVE_BYTES_MAX
    """The size of a request."""
    calls_max: int = 2_000
    """Short calls at once."""
    streams_max: int = 4_000
    """Open streams, and calls of WaitRun."""


class Room:
    """Places for calls: `with room:` takes one and gives it back; TooManyCalls where none is free."""

    def __init__(self, places: int, kind: str) -> None:
        self.places = places
        self._kind = kind
        self._taken = 0

    def __enter__(self) -> None:
        if self._taken >= self.places:
            raise status.TooManyCalls(
                f"this replica serves {self.places:,} {self._kind} at once; call again"
            )
        self._taken += 1

    def __exit__(self, *_error: object) -> None:
        self._taken -= 1


class Gate(grpc.aio.ServerInterceptor):
    """Interceptor of all services of a server."""

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
        self._calls = Room(gate_limits.calls_max, "calls")
        self._streams = Room(gate_limits.streams_max, "streams and waits")
        self._handlers: dict[str, Handler] = {}
        self._writer = StreamWriter(runtime, stall_ms=gate_limits.stall_ms)
        self.draining = False

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Handler | None:
        """Return the method behind the gate, or one that ends the call with an error."""
        method = handler_call_details.method
        try:
            self._admit(method, handler_call_details.invocation_metadata)
        except StepwellError as error:
            self._metrics.refused(method if method in scopes.SCOPES else "unknown", error)
            return _refuse(status.answer_of(error))
        known = self._handlers.get(method)
        if known is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return _refuse(status.answer_of(status.MethodUnknown(f"no method {method!r}")))
            known = self._handlers[method] = self._behind(method, handler)
        return known

    def _admit(self, method: str, metadata: Any) -> None:
        """Set the caller, or raise; runs in the RPC's own task, as its handler will."""
        size = 0
        texts: dict[str, str] = {}
        for key, value in metadata or ():
            size += len(key) + len(value) + _METADATA_OVERHEAD_BYTES
            if isinstance(value, str):
                texts[key] = value
        if size > limits.METADATA_BYTES_MAX:
            raise ResourceExhausted(
                f"the metadata has {size:,} bytes; limit: {limits.METADATA_BYTES_MAX:,}",
                reason="METADATA_TOO_LARGE",
            )
        scope = scopes.SCOPES.get(method)
        if scope == scopes.NONE:
            return
        principal = self._authenticator.authenticate(texts)
        if scope is None:
            raise status.MethodUnknown("there is no such method")
        if scope != scopes.ANY and scope not in principal.scopes:
            raise PermissionDenied(f"this needs a token with the scope {scope}")
        if self.draining and method not in _REPORTS:
            raise draining()
        set_caller(principal)

    # --- handlers ---------------------------------------------------------------------------------

    def _behind(self, method: str, handler: Handler) -> Handler:
        read = self._reader(cast("Callable[[bytes], Any]", handler.request_deserializer))
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

    def _room(self, method: str, *, stream: bool = False) -> AbstractContextManager[None]:
        """Return where the calls of a method take their places; reports and health need none."""
        if method in _REPORTS or scopes.SCOPES.get(method) == scopes.NONE:
            return nullcontext()
        return self._streams if stream or method in _WAITS else self._calls

    def _answers_one(
        self,
        method: str,
        inner: _Unary,
        read: Callable[[bytes], Any],
    ) -> Callable[[bytes, Context], Awaitable[Any]]:
        meter = self._metrics.meter(method)
        room = self._room(method)

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
                # The call keeps the exception that ends it, which keeps this frame: it must not keep the
                # call and its request, or they would live until the garbage collector comes.
                aborting = context.abort(*refusal)
                del raw, context
                # A caller that has gone can't be answered; grpc.aio would log a traceback for each.
                with suppress(grpc.aio.InternalError):
                    await aborting
            finally:
                meter.done(code, self._runtime.monotonic() - since)

        return serve

    def _answers_many(
        self, method: str, inner: _Streaming, read: Callable[[Any], Any]
    ) -> Callable[[Any, Context], Awaitable[None]]:
        meter = self._metrics.meter(method, stream=True)
        room = self._room(method, stream=True)

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
                del raw, context  # As above.
                # The status waits behind unread messages, too; no task of ours waits with it.
                with suppress(TimeoutError, grpc.aio.InternalError):
                    async with asyncio.timeout(self._limits.stall_ms / 1_000):
                        await aborting
            finally:
                meter.done(code, self._runtime.monotonic() - since)

        return serve

    def _answer_to(self, method: str, error: Exception, context: Context) -> status.Answer:
        """Return the answer that the call ends with.

        Raises:
            asyncio.CancelledError: the caller has gone. gRPC ends such calls like this, and logs any other error.
        """
        if isinstance(error, grpc.aio.AbortError):
            raise error
        if isinstance(error, StepwellError):
            answer = status.answer_of(error)
            if answer.code is not grpc.StatusCode.INTERNAL:
                return answer
        elif isinstance(error, grpc.aio.InternalError) or context.done() or context.cancelled():
            # The first is raised by a write on a call that is over, before the context knows of its end.
            raise asyncio.CancelledError
        error_id = self._runtime.new_id()
        log.error("unexpected error", method=method, error_id=error_id, exc_info=error)
        return status.internal(error_id)

    def _reader(self, parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        bytes_max = self._limits.receive_bytes_max

        def read(raw: bytes) -> Any:
            if len(raw) > bytes_max:
                raise ResourceExhausted(
                    f"the message has {len(raw):,} bytes; limit: {bytes_max:,}",
                    reason="MESSAGE_TOO_LARGE",
                )
            try:
                request: Message = parse(raw)
            except DecodeError:
                request = read_rest(cast("Any", parse).__self__, raw)
            if not request.DESCRIPTOR.full_name.startswith(_UNCHECKED):
                check(request)
            return request

        return read


def _unless_bytes(serializer: _Serializer) -> _Serializer:
    """Return a serializer that leaves a message as it is that was serialized before."""

    def serialized(message: Any) -> bytes:
        return message if isinstance(message, bytes) else serializer(message)

    return serialized


def draining() -> StoreUnavailable:
    """Return the error of a replica that is going down: nothing was done, try another."""
    return StoreUnavailable("this replica is going down; call again", reason="DRAINING")


async def _each(raw: AsyncIterator[bytes], read: Callable[[bytes], Any]) -> AsyncGenerator[Any]:
    async for one in raw:
        yield read(one)


def _refuse(answer: status.Answer) -> Handler:
    """Return a method of any kind that reads nothing and ends the call."""

    async def end(_requests: Any, context: Context) -> None:
        await context.abort(*answer)

    return grpc.stream_stream_rpc_method_handler(cast("Any", end), None, None)
