"""The transport of a worker over gRPC: a channel of the event loop, and another for its threads.

Neither a blocked event loop nor a broken stream may cost a lease. Heartbeats and log entries are
therefore sent by threads that don't need the event loop, over a separate connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import grpc
import grpc.aio

from stepwell_client.calls.client import Client
from stepwell_client.errors import (
    ResourceExhausted,
    ServerError,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
)
from stepwell_client.link.backoff import STREAMS
from stepwell_client.link.connect import Connection, CurrentChannel
from stepwell_client.link.runtime import Runtime
from stepwell_client.link.status import from_rpc_error
from stepwell_client.v1 import types_pb2, worker_pb2, worker_pb2_grpc
from stepwell_client.worker.keeper import Keeper, is_wanted
from stepwell_client.worker.transport import Receiver

LOOK_SECONDS = 0.02
"""The time between two checks of a lost connection."""
PROGRESS_SECONDS = 1.0
JOIN_SECONDS = 0.5
"""The time that stopping a thread may take; a running call is then aborted."""


class GrpcTransport:
    """The `Transport` over a client's connection."""

    progress_seconds = PROGRESS_SECONDS
    outlived = False

    def __init__(self, client: Client | str | None, *, keeper: bool | None = None) -> None:
        """`client`: a client, which the caller closes; or a target; or None for the default target."""
        self._keeps = is_wanted(keeper)
        self._owns_client = not isinstance(client, Client)
        self._client = client if isinstance(client, Client) else Client(client)
        self._connection = self._client.connection
        self.runtime: Runtime = self._client.runtime
        self.target = self._connection.target
        self._channels = CurrentChannel(self._connection, self._connection.sync_channel)

    @property
    def _stub(self) -> Any:
        return worker_pb2_grpc.WorkerStub(self._client.channel)

    def work(self, receiver: Receiver) -> GrpcStream:
        """Open a Work stream, whose messages are read."""
        del receiver
        return GrpcStream(self._stub.Work(metadata=self._connection.access.metadata))

    def keeper(self) -> Keeper | None:
        """Return a keeper, not started yet, unless it is not wanted, or another process can't connect."""
        arguments = self._connection.arguments
        return Keeper(arguments, self.runtime) if self._keeps and arguments is not None else None

    def background(self, name: str) -> Thread:
        """Return a thread that sends over the threads' connection."""
        return Thread(self._connection, self._channels, name)

    async def complete(
        self, request: worker_pb2.ReportOutcomesRequest, seconds: float
    ) -> worker_pb2.ReportOutcomesResponse:
        """Call ReportOutcomes."""
        return await self._call(self._stub.ReportOutcomes, request, seconds)

    async def write_journal(
        self, request: worker_pb2.WriteJournalRequest, seconds: float
    ) -> worker_pb2.WriteJournalResponse:
        """Call WriteJournal."""
        return await self._call(self._stub.WriteJournal, request, seconds)

    async def append(
        self, request: worker_pb2.AppendOutputRequest, seconds: float
    ) -> worker_pb2.AppendOutputResponse:
        """Call AppendOutput."""
        return await self._call(self._stub.AppendOutput, request, seconds)

    async def read_results(
        self, request: worker_pb2.ReadResultsRequest, seconds: float
    ) -> worker_pb2.ReadResultsResponse:
        """Call ReadResults."""
        return await self._call(self._stub.ReadResults, request, seconds)

    async def read_journal(
        self, request: worker_pb2.ReadJournalRequest, seconds: float
    ) -> worker_pb2.ReadJournalResponse:
        """Call ReadJournal."""
        return await self._call(self._stub.ReadJournal, request, seconds)

    async def read_thread(
        self, request: worker_pb2.ReadThreadRequest, seconds: float
    ) -> worker_pb2.ReadThreadResponse:
        """Call ReadThread."""
        return await self._call(self._stub.ReadThread, request, seconds)

    async def messages(self, run_id: str, task_id: str) -> AsyncIterator[types_pb2.Message]:
        """Yield the messages of a task."""
        async for one in self._client.run(run_id).messages(task_id=task_id):
            yield one.source

    async def _call(
        self, method: Callable[..., Awaitable[Any]], request: object, seconds: float
    ) -> Any:
        try:
            metadata = self._connection.access.metadata
            return await method(request, timeout=seconds, metadata=metadata)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    def renews(self, error: StepwellClientError) -> bool:
        """Return whether the token's file now has another token than the refused one."""
        return isinstance(error, Unauthenticated) and self._connection.access.reload()

    def may_return(self, error: StepwellClientError) -> bool:
        """Return whether another stream may work after this error."""
        if isinstance(error, ServerError):
            return error.status is not grpc.StatusCode.UNIMPLEMENTED
        return isinstance(error, Unavailable | ResourceExhausted) or self.renews(error)

    async def wait_to_return(self, stopping: asyncio.Event, failures: int) -> None:
        """Back off, but end early when a lost connection is back, or the worker stops."""
        now = self.runtime.monotonic
        until = now() + STREAMS.seconds(self.runtime, failures)
        was_lost = not self._is_connected()
        while (left := until - now()) > 0:
            if was_lost and self._is_connected():
                return
            try:
                async with asyncio.timeout(min(left, LOOK_SECONDS) if was_lost else left):
                    await stopping.wait()
                    return
            except TimeoutError:
                pass

    def _is_connected(self) -> bool:
        """Return whether the channel is connected; start connecting if it isn't."""
        state = self._client.channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.READY

    async def close(self) -> None:
        """Close the client, unless it is the caller's."""
        if self._owns_client:
            await self._client.close()


class GrpcStream:
    """The `WorkStream` over a call of gRPC."""

    take = None

    def __init__(self, call: grpc.aio.StreamStreamCall[Any, Any]) -> None:
        self._call = call

    async def write(self, request: worker_pb2.WorkRequest) -> bool:
        """Send a message."""
        try:
            await self._call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return False
        return True

    async def read(self) -> worker_pb2.WorkResponse | None:
        """Return the server's next message."""
        try:
            response: Any = await self._call.read()
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        return None if response is grpc.aio.EOF else response

    async def half_close(self) -> None:
        """Send nothing more; does nothing if the stream is already broken."""
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await self._call.done_writing()

    def cancel(self) -> None:
        """End the call; a running read is cancelled."""
        self._call.cancel()

    async def close(self) -> None:
        """End the call."""
        self._call.cancel()


class Thread:
    """The `Background` in a thread. Its calls block, so a coroutine that awaits them is never suspended."""

    def __init__(
        self, connection: Connection, channels: CurrentChannel[grpc.Channel], name: str
    ) -> None:
        """`channels` are shared by all threads of the worker, which end together."""
        self._connection = connection
        self._channels = channels
        self._name = name
        self._woken = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, args=(work(),), name=self._name, daemon=True
        )
        self._thread.start()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            work.send(None)
        except StopIteration:
            pass
        finally:
            work.close()
            self._close_channels()

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(timeout=JOIN_SECONDS)
        self._close_channels()

    def _close_channels(self) -> None:
        for channel in self._channels.opened:
            channel.close()

    def wake(self) -> None:
        """End a wait."""
        self._woken.set()

    async def wait(self, seconds: float | None) -> bool:
        """Wait in the thread."""
        self._woken.wait(seconds)
        self._woken.clear()
        return not self._stopped

    async def heartbeat(
        self, request: worker_pb2.HeartbeatRequest, seconds: float
    ) -> worker_pb2.HeartbeatResponse:
        """Call Heartbeat."""
        return self._call(lambda stub: stub.Heartbeat, request, seconds)

    async def append(
        self, request: worker_pb2.AppendOutputRequest, seconds: float
    ) -> worker_pb2.AppendOutputResponse:
        """Call AppendOutput."""
        return self._call(lambda stub: stub.AppendOutput, request, seconds)

    def _call(self, method: Callable[[Any], Any], request: object, seconds: float) -> Any:
        try:
            call = method(worker_pb2_grpc.WorkerStub(self._channels.get()))
            return call(request, timeout=seconds, metadata=self._connection.access.metadata)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        except ValueError as error:
            raise Unavailable("the channel was closed: the worker stops") from error
