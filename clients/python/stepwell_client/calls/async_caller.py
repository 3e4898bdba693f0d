"""Makes the asynchronous client's calls, over a channel of the running event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from stepwell_client.calls.base import Caller
from stepwell_client.calls.cursors import Cursor
from stepwell_client.link.connect import Connection, CurrentChannel
from stepwell_client.link.runtime import Runtime
from stepwell_client.link.status import from_rpc_error
from stepwell_client.v1 import orchestrator_pb2_grpc


class AsyncCaller(Caller):
    """Sends calls of the Orchestrator service with await. The first call opens the connection."""

    def __init__(
        self, connection: Connection, runtime: Runtime | None, *, reconnect_seconds: float | None
    ) -> None:
        super().__init__(connection, runtime or Runtime(), reconnect_seconds=reconnect_seconds)
        self._channels = CurrentChannel(connection, connection.aio_channel)
        self._methods: dict[str, Callable[..., Any]] = {}
        self._methods_of: grpc.aio.Channel | None = None

    async def close(self) -> None:
        """Close the connection. Running calls end; a later call opens a new connection."""
        for channel in self._channels.take():
            await channel.close()

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of the running event loop."""
        return self._channels.get()

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method of the Orchestrator's stub."""
        channel = self.channel
        if channel is not self._methods_of:
            self._methods_of = channel
            self._methods.clear()
        if name not in self._methods:
            stub = orchestrator_pb2_grpc.OrchestratorStub(channel)
            self._methods[name] = getattr(stub, name)
        return self._methods[name]

    def open_stream(self, cursor: Cursor[Any, Any, Any], timeout_seconds: float | None) -> Any:
        return self.method(cursor.method)(
            cursor.request(), timeout=timeout_seconds, metadata=self.connection.access.metadata
        )

    async def next_message(self, call: Any) -> Any:
        message = await call.read()
        return None if message is grpc.aio.EOF else message

    async def sleep(self, seconds: float) -> None:
        await self.runtime.sleep(seconds)

    async def _send(self, method: str, request: Message, timeout_seconds: float) -> Any:
        try:
            return await self.method(method)(
                request, timeout=timeout_seconds, metadata=self.connection.access.metadata
            )
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
