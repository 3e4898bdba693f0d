"""Synchronous calls: the asynchronous ones, over a transport that sends in the caller's thread.

That transport awaits nothing, so each coroutine ends at its first step.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

import grpc
from google.protobuf.message import Message

from stepwell_client.calls.base import Caller
from stepwell_client.calls.cursors import Cursor
from stepwell_client.calls.streams import Watch
from stepwell_client.link.connect import Connection, CurrentChannel
from stepwell_client.link.runtime import Runtime
from stepwell_client.link.status import from_rpc_error
from stepwell_client.records.messages_pb2 import Run
from stepwell_client.v1 import orchestrator_pb2_grpc

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
PositionT = TypeVar("PositionT")
CallsT = TypeVar("CallsT")
CallsT_co = TypeVar("CallsT_co", covariant=True)

CLOSE_SECONDS = 2.0
"""The time that closing a connection may take."""


class BlockingCaller(Caller):
    """Sends calls of the Orchestrator service in the caller's thread."""

    def __init__(
        self,
        connection: Connection,
        runtime: Runtime | None,
        channel: grpc.Channel | None,
        *,
        reconnect_seconds: float | None,
    ) -> None:
        """`channel`: a channel of the caller, for tests."""
        super().__init__(connection, runtime or Runtime(), reconnect_seconds=reconnect_seconds)
        self._channels = CurrentChannel(
            connection, connection.sync_channel if channel is None else lambda: channel
        )
        self._current: tuple[grpc.Channel, orchestrator_pb2_grpc.OrchestratorStub] | None = None

    def close(self) -> None:
        """Close the connection."""
        # grpc would wait without limit for a call that was interrupted while it was being made.
        for channel in self._channels.opened:
            closing = threading.Thread(target=channel.close, daemon=True)
            closing.start()
            closing.join(CLOSE_SECONDS)

    def open_stream(self, cursor: Cursor[Any, Any, Any], timeout_seconds: float | None) -> Any:
        return getattr(self._stub(), cursor.method)(
            cursor.request(), timeout=timeout_seconds, metadata=self.connection.access.metadata
        )

    async def next_message(self, call: Any) -> Any:
        return next(call, None)

    async def sleep(self, seconds: float) -> None:
        self.runtime.block(seconds)

    async def _send(self, method: str, request: Message, timeout_seconds: float) -> Any:
        try:
            return getattr(self._stub(), method)(
                request, timeout=timeout_seconds, metadata=self.connection.access.metadata
            )
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    def _stub(self) -> orchestrator_pb2_grpc.OrchestratorStub:
        channel, current = self._channels.get(), self._current
        if current is None or current[0] is not channel:
            current = self._current = (channel, orchestrator_pb2_grpc.OrchestratorStub(channel))
        return current[1]


def finish(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing to its end."""
    try:
        call.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    raise RuntimeError("a synchronous call must not wait for an event loop")


def finish_each(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an iterator that awaits nothing; both are closed together."""
    try:
        while True:
            try:
                item = finish(cast("Coroutine[Any, Any, T]", items.__anext__()))
            except StopAsyncIteration:
                return
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            finish(close())


class SyncWatch(Generic[Item, PositionT]):
    """Events, updates or log entries, one by one, over as many streams as needed. Iterate it once."""

    def __init__(self, watch: Watch[Item, PositionT]) -> None:
        self._watch = watch

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the stream. Another thread may call; the loop then ends."""
        self._watch.cancel()

    @property
    def cursor(self) -> Cursor[Any, Any, Any]:
        """The state of the watch: the position, and the time of the last message."""
        return self._watch.cursor

    @property
    def position(self) -> PositionT:
        """The position after the last item, from which another watch continues: as its `after`, or its `cursor`."""
        return self._watch.position

    @property
    def run(self) -> Run | None:
        """The run after its end; None before it, and for watches of more than one run's events."""
        return self._watch.run

    def __iter__(self) -> Iterator[Item]:
        return finish_each(aiter(self._watch))


class HasCalls(Protocol[CallsT_co]):
    """A synchronous object over an asynchronous one with the same methods."""

    @property
    def calls(self) -> CallsT_co: ...


def blocking(
    method: Callable[Concatenate[CallsT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[HasCalls[CallsT], P], T]:
    """Return a call as a synchronous method."""

    @wraps(method)
    def call(self: HasCalls[CallsT], *args: P.args, **kwargs: P.kwargs) -> T:
        return finish(method(self.calls, *args, **kwargs))

    return call


def iterating(
    method: Callable[Concatenate[CallsT, P], AsyncIterator[T]],
) -> Callable[Concatenate[HasCalls[CallsT], P], Iterator[T]]:
    """Return a listing as a synchronous method."""

    @wraps(method)
    def call(self: HasCalls[CallsT], *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return finish_each(method(self.calls, *args, **kwargs))

    return call


def watching(
    method: Callable[Concatenate[CallsT, P], Watch[Item, PositionT]],
) -> Callable[Concatenate[HasCalls[CallsT], P], SyncWatch[Item, PositionT]]:
    """Return a watch as a synchronous method."""

    @wraps(method)
    def call(
        self: HasCalls[CallsT], *args: P.args, **kwargs: P.kwargs
    ) -> SyncWatch[Item, PositionT]:
        return SyncWatch(method(self.calls, *args, **kwargs))

    return call
