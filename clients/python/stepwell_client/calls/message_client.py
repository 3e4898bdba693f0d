"""The asynchronous client that takes and returns the protocol's messages, for programs that build on them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc
import grpc.aio
from google.protobuf.message import Message

from stepwell_client.calls.base import RECONNECT_SECONDS
from stepwell_client.calls.commands import CommandCalls
from stepwell_client.calls.cursors import (
    Cursor,
    LogCursor,
    LogOptions,
    RunCursor,
    RunsCursor,
    WatchOptions,
    WatchRunsOptions,
)
from stepwell_client.calls.reads import ReadCalls
from stepwell_client.calls.streams import Watch
from stepwell_client.link.connect import Connection, CurrentChannel, Security
from stepwell_client.link.runtime import Runtime
from stepwell_client.link.status import from_rpc_error
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc, types_pb2

T = TypeVar("T")


def unchanged(message: T) -> T:
    """Return a stream's item as it came."""
    return message


class MessageCalls(ReadCalls, CommandCalls, ABC):
    """All calls of the Orchestrator service, with its messages."""

    def watch(
        self, run_id: str, after: int = 0, **options: Unpack[WatchOptions]
    ) -> Watch[types_pb2.Event, int]:
        """Return the events of a run from the one after `after`, each once, until it has ended."""
        return Watch(self, self.run_cursor(run_id, after, options), unchanged)

    def watch_runs(
        self, cursor: str = "", **options: Unpack[WatchRunsOptions]
    ) -> Watch[orchestrator_pb2.RunUpdate, str]:
        """Return the changes of all runs since a cursor; `now`: from the next commit on."""
        return Watch(self, self.runs_cursor(cursor, options), unchanged)

    def logs(
        self, run_id: str, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> Watch[types_pb2.LogEntry, str]:
        """Return the log entries of a run's steps, in order; with `follow` also later ones, until it ends."""
        return Watch(self, self.log_cursor(run_id, cursor, options, follow=follow), unchanged)

    def run_cursor(self, run_id: str, after: int, options: WatchOptions) -> RunCursor:
        return RunCursor(self._retries, run_id, after, options)

    def runs_cursor(self, cursor: str, options: WatchRunsOptions) -> RunsCursor:
        return RunsCursor(self._retries, cursor, options)

    def log_cursor(
        self, run_id: str, cursor: str, options: LogOptions, *, follow: bool
    ) -> LogCursor:
        return LogCursor(self._retries, run_id, cursor, options, follow=follow)


class MessageClient(MessageCalls):
    """A connection to the Orchestrator service, opened at the first call. Close it when done."""

    def __init__(
        self,
        target: str | None = None,
        *,
        token: str | None = None,
        token_file: str | Path | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        reconnect_seconds: float | None = RECONNECT_SECONDS,
        runtime: Runtime | None = None,
        **security: Unpack[Security],
    ) -> None:
        """Take the same as Client."""
        super().__init__(
            Connection(
                target, token=token, token_file=token_file, credentials=credentials, **security
            ),
            runtime or Runtime(),
            reconnect_seconds=reconnect_seconds,
        )
        self._channels = CurrentChannel(self.connection, self.connection.aio_channel)
        self._methods: dict[str, Callable[..., Any]] = {}
        self._methods_of: grpc.aio.Channel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Calls in flight end; a later call opens another one."""
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
