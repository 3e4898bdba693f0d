"""The small synchronous client: for scripts and command lines.

Its calls are those of `Client`, over a transport that sends in the caller's thread and never awaits
anything, so that each of them ends at its first step.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, cast

import grpc
from google.protobuf.message import Message

from stepwell_client._calls import RECONNECT_SECONDS
from stepwell_client._commands import CommandCalls
from stepwell_client._connect import Connection, CurrentChannel, Security
from stepwell_client._cursors import Cursor, LogCursor, LogOptions, RunCursor, WatchOptions
from stepwell_client._errors import StepwellClientError
from stepwell_client._reads import ReadCalls
from stepwell_client._requests import ForkOptions, StartOptions
from stepwell_client._runtime import Runtime
from stepwell_client._status import from_rpc_error
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc, types_pb2

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")
CursorT = TypeVar("CursorT", bound="Cursor[Any, Any, Any]")

CLOSE_SECONDS = 2.0
"""The time that closing a connection may take."""


class BlockingCalls(ReadCalls, CommandCalls):
    """The calls of the Orchestrator service, sent in the caller's thread."""

    def __init__(
        self,
        connection: Connection,
        runtime: Runtime,
        channel: Callable[[], grpc.Channel],
        *,
        reconnect_seconds: float | None,
    ) -> None:
        """`channel` returns the one for the next call."""
        super().__init__(connection, runtime, reconnect_seconds=reconnect_seconds)
        self._channel = channel
        self._current: tuple[grpc.Channel, orchestrator_pb2_grpc.OrchestratorStub] | None = None

    async def start(
        self, goal: str = "", **options: Unpack[StartOptions]
    ) -> orchestrator_pb2.StartRunResponse:
        """Start a run; return when its first commit is durable. Waits for a server that is coming up."""
        return await self._start(goal, options)

    async def fork(
        self, run_id: str, **options: Unpack[ForkOptions]
    ) -> orchestrator_pb2.ForkRunResponse:
        """Start a run from a version of another one; completed tasks are kept."""
        return await self._fork(run_id, options)

    def watch(self, run_id: str, after: int, options: WatchOptions) -> RunCursor:
        return RunCursor(self._retries, run_id, after, options)

    def logs(self, run_id: str, cursor: str, options: LogOptions, *, follow: bool) -> LogCursor:
        return LogCursor(self._retries, run_id, cursor, options, follow=follow)

    def open_stream(self, cursor: Cursor[Any, Any, Any]) -> Any:
        """Open the next stream of a watch."""
        method = getattr(self._stub(), cursor.method)
        return method(cursor.request(), metadata=self.connection.access.metadata)

    async def _send(self, method: str, request: Message, timeout_seconds: float) -> Any:
        try:
            return getattr(self._stub(), method)(
                request, timeout=timeout_seconds, metadata=self.connection.access.metadata
            )
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    def _stub(self) -> orchestrator_pb2_grpc.OrchestratorStub:
        channel, current = self._channel(), self._current
        if current is None or current[0] is not channel:
            current = self._current = (channel, orchestrator_pb2_grpc.OrchestratorStub(channel))
        return current[1]

    async def _sleep(self, seconds: float) -> None:
        self.runtime.block(seconds)


def _finish(call: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing to its end."""
    try:
        call.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    raise RuntimeError("a synchronous call must not wait for an event loop")


def _blocking(
    method: Callable[Concatenate[BlockingCalls, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Return a call as a method of SyncClient."""

    @wraps(method)
    def call(self: SyncClient, *args: P.args, **kwargs: P.kwargs) -> T:
        return _finish(method(self.calls, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[BlockingCalls, P], AsyncIterator[T]],
) -> Callable[Concatenate[SyncClient, P], Iterator[T]]:
    """Return a listing as a method of SyncClient."""

    @wraps(method)
    def call(self: SyncClient, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = method(self.calls, *args, **kwargs)
        while True:
            try:
                item = _finish(cast("Coroutine[Any, Any, T]", items.__anext__()))
            except StopAsyncIteration:
                return
            yield item

    return call


class SyncClient:
    """A connection to the Orchestrator service, without asyncio. Close it when done."""

    def __init__(
        self,
        target: str | None = None,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        reconnect_seconds: float | None = RECONNECT_SECONDS,
        channel: grpc.Channel | None = None,
        runtime: Runtime | None = None,
        **security: Unpack[Security],
    ) -> None:
        """Take the same as Client, and for tests a channel of the caller's."""
        self.connection = Connection(
            target, token=token, token_file=token_file, credentials=credentials, **security
        )
        self._channels = CurrentChannel(
            self.connection,
            self.connection.sync_channel if channel is None else lambda: channel,
        )
        self.calls = BlockingCalls(
            self.connection,
            runtime or Runtime(),
            self._channels.get,
            reconnect_seconds=reconnect_seconds,
        )
        """The calls behind the methods."""

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
        # grpc would wait for ever for a call that was interrupted while it was being made.
        for channel in self._channels.opened:
            closing = threading.Thread(target=channel.close, daemon=True)
            closing.start()
            closing.join(CLOSE_SECONDS)

    get = _blocking(BlockingCalls.get)
    results = _blocking(BlockingCalls.results)
    wait = _blocking(BlockingCalls.wait)
    server_info = _blocking(BlockingCalls.server_info)
    list = _iterating(BlockingCalls.list)
    tasks = _iterating(BlockingCalls.tasks)
    executions = _iterating(BlockingCalls.executions)
    plans = _iterating(BlockingCalls.plans)
    checkpoints = _iterating(BlockingCalls.checkpoints)
    record = _blocking(BlockingCalls.record)
    messages = _iterating(BlockingCalls.messages)
    inputs = _iterating(BlockingCalls.inputs)
    journal = _iterating(BlockingCalls.journal)

    start = _blocking(BlockingCalls.start)
    fork = _blocking(BlockingCalls.fork)
    check_fork = _blocking(BlockingCalls.check_fork)
    resume = _blocking(BlockingCalls.resume)
    pause = _blocking(BlockingCalls.pause)
    cancel = _blocking(BlockingCalls.cancel)
    stop = _blocking(BlockingCalls.stop)
    retry_task = _blocking(BlockingCalls.retry_task)
    skip_task = _blocking(BlockingCalls.skip_task)
    raise_budget = _blocking(BlockingCalls.raise_budget)
    resolve = _blocking(BlockingCalls.resolve)
    answer = _blocking(BlockingCalls.answer)
    delete = _blocking(BlockingCalls.delete)
    purge = _blocking(BlockingCalls.purge)

    def watch(
        self, run_id: str, after: int = 0, **options: Unpack[WatchOptions]
    ) -> SyncWatch[types_pb2.Event, RunCursor]:
        """Return the events of a run from the one after `after`, each once, until it has ended."""
        return SyncWatch(self.calls, self.calls.watch(run_id, after, options))

    def logs(
        self, run_id: str, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> SyncWatch[types_pb2.LogEntry, LogCursor]:
        """Return the log entries of a run's steps, in order; with `follow` also later ones, until it ends."""
        return SyncWatch(self.calls, self.calls.logs(run_id, cursor, options, follow=follow))


class SyncWatch(Generic[Item, CursorT]):
    """Events or entries, one by one, over as many streams as needed. Iterate it once."""

    def __init__(self, calls: BlockingCalls, cursor: CursorT) -> None:
        self._calls = calls
        self._call: Any = None
        self._closed = False
        self.cursor = cursor
        """The position: `after` and, at the end, `run` for a run's events; else `cursor`."""

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
        """End the stream. Another thread may do it: the loop ends."""
        self._closed = True
        call = self._call
        if call is not None:
            call.cancel()

    def __iter__(self) -> Iterator[Item]:
        cursor = self.cursor
        while not cursor.over and not self._closed:
            cursor.opened()
            loss: StepwellClientError | None = None
            call = self._call = self._calls.open_stream(cursor)
            try:
                for message in call:
                    yield from cursor.accept(message)
                    if cursor.over or cursor.broken:
                        break
            except grpc.RpcError as error:
                loss = from_rpc_error(error)
            finally:
                self._call = None
                call.cancel()
            if not cursor.over and not self._closed:
                self._calls.runtime.block(cursor.lost(loss))
