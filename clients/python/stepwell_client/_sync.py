"""The small synchronous client: for scripts and command lines.

It drives the same procedures and cursors as `Client`, in the caller's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

import grpc

from stepwell_client._connect import Connection
from stepwell_client._control import SyncControl
from stepwell_client._effects import SyncEffects
from stepwell_client._errors import StepwellClientError
from stepwell_client._forks import SyncForks
from stepwell_client._logs import LogCursor, LogOptions, SyncLogs
from stepwell_client._people import SyncPeople
from stepwell_client._procedures import (
    RECONNECT_SECONDS,
    Call,
    ListOptions,
    Pause,
    Procedure,
    Procedures,
    RunResults,
    StartOptions,
)
from stepwell_client._retention import SyncRetention
from stepwell_client._runtime import Runtime
from stepwell_client._status import from_rpc_error
from stepwell_client._watching import Cursor, RunCursor, WatchOptions
from stepwell_client.v1 import orchestrator_pb2, orchestrator_pb2_grpc, types_pb2

T = TypeVar("T")
Item = TypeVar("Item")
CursorT = TypeVar("CursorT", bound="Cursor[Any, Any, Any]")


CLOSE_SECONDS = 2.0
"""How long closing a connection may take."""


class SyncClient(SyncControl, SyncEffects, SyncForks, SyncLogs, SyncPeople, SyncRetention):
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
    ) -> None:
        """Take the same as Client, and for tests a channel of the caller's."""
        self.connection = Connection(
            target, token=token, token_file=token_file, credentials=credentials
        )
        self._runtime = runtime or Runtime()
        self._procedures = Procedures(
            self._runtime, self.connection.access, reconnect_seconds=reconnect_seconds
        )
        self._channel = channel or self.connection.sync_channel()
        self._stub = orchestrator_pb2_grpc.OrchestratorStub(self._channel)

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
        # A call that was interrupted while it was being made belongs to nobody: grpc would wait for it
        # for ever.
        closing = threading.Thread(target=self._channel.close, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def start(
        self, goal: str = "", **options: Unpack[StartOptions]
    ) -> orchestrator_pb2.StartRunResponse:
        """Start a run; return when its first commit is durable."""
        return self._do(self._procedures.start(goal, options))

    def get(self, run_id: str, *, version: int = 0) -> types_pb2.Run:
        """Return a run as of its last commit, or as of that version."""
        return self._do(self._procedures.get(run_id, version))

    def list(self, **options: Unpack[ListOptions]) -> Iterator[types_pb2.Run]:
        """Yield runs, newest first, page by page."""
        token = ""
        while True:
            page = self._do(self._procedures.runs(options, token))
            yield from page.runs
            token = page.next_page_token
            if not token:
                return

    def tasks(
        self, run_id: str, *, full_specs: bool = False, version: int = 0
    ) -> Iterator[orchestrator_pb2.TaskEntry]:
        """Yield a run's tasks, how each stands, or stood, and what it is, page by page."""
        token = ""
        while True:
            page = self._do(self._procedures.tasks(run_id, full_specs, token, version))
            yield from page.tasks
            token = page.next_page_token
            if not token:
                return

    def executions(self, run_id: str, *, task_id: str = "") -> Iterator[types_pb2.Execution]:
        """Yield every attempt at every step, in the order in which they were offered."""
        token = ""
        while True:
            page = self._do(self._procedures.executions(run_id, task_id, token))
            yield from page.executions
            token = page.next_page_token
            if not token:
                return

    def results(
        self, run_id: str, *, task_ids: Sequence[str] = (), execution_ids: Sequence[str] = ()
    ) -> RunResults:
        """Return the run's own result and those of its tasks, or of those asked for."""
        return self._do(self._procedures.results(run_id, task_ids, execution_ids))

    def wait(self, run_id: str, timeout_seconds: float | None = None) -> types_pb2.Run:
        """Wait until a run has ended, or the time is over, and return it: see its status."""
        return self._do(self._procedures.wait(run_id, timeout_seconds))

    def watch(
        self, run_id: str, after: int = 0, **options: Unpack[WatchOptions]
    ) -> SyncWatch[types_pb2.Event, RunCursor]:
        """Return the events of a run from the one after `after`, each once, until it has ended."""
        cursor = RunCursor(self._procedures, run_id, after, options)
        return SyncWatch(cursor, self._open, self._runtime)

    def logs(
        self, run_id: str, cursor: str = "", *, follow: bool = False, **options: Unpack[LogOptions]
    ) -> SyncWatch[types_pb2.LogEntry, LogCursor]:
        """Return what a run's steps wrote, in order; with `follow` also what they write until it ends."""
        place = LogCursor(self._procedures, run_id, cursor, options, follow=follow)
        return SyncWatch(place, self._open, self._runtime)

    def resume(
        self,
        run_id: str,
        *,
        retry_failed: bool = True,
        reason: str = "",
        request_id: str = "",
        validate_only: bool = False,
    ) -> orchestrator_pb2.ResumeRunResponse:
        """Make a PAUSED or FAILED run go on from its last checkpoint."""
        procedure = self._procedures.resume(
            run_id,
            retry_failed=retry_failed,
            reason=reason,
            request_id=request_id,
            validate_only=validate_only,
        )
        return self._do(procedure)

    def pause(
        self, run_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.PauseRunResponse:
        """Pause a run: it accepts outcomes of work in flight and dispatches nothing."""
        return self._do(self._procedures.pause(run_id, reason, request_id))

    def cancel(
        self, run_id: str, *, reason: str = "", request_id: str = ""
    ) -> orchestrator_pb2.CancelRunResponse:
        """Cancel a run for good."""
        return self._do(self._procedures.cancel(run_id, reason, request_id))

    def delete(self, run_id: str) -> None:
        """Remove a run that has ended, with all that belongs to it."""
        self._do(self._procedures.delete(run_id))

    def server_info(self) -> orchestrator_pb2.GetServerInfoResponse:
        """Return what the server is, what it promises, what its limits are and who calls."""
        return self._do(self._procedures.server_info())

    def _do(self, procedure: Procedure[T]) -> T:
        """Drive a procedure to its end."""
        resume: Callable[[], Call | Pause] = partial(procedure.send, None)
        while True:
            try:
                step = resume()
            except StopIteration as stop:
                return stop.value
            try:
                resume = partial(procedure.send, self._perform(step))
            except StepwellClientError as error:
                resume = partial(procedure.throw, error)

    def _perform(self, step: Call | Pause) -> Any:
        if isinstance(step, Pause):
            return self._runtime.block(step.seconds)
        try:
            return getattr(self._stub, step.method)(
                step.request,
                timeout=step.timeout_seconds,
                metadata=self.connection.access.metadata,
            )
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    def _open(self, cursor: Cursor[Any, Any, Any]) -> Any:
        method = getattr(self._stub, cursor.method)
        return method(cursor.request(), metadata=self.connection.access.metadata)


class SyncWatch(Generic[Item, CursorT]):
    """Events or entries, one by one, over as many streams as it takes. Iterate it once."""

    def __init__(
        self,
        cursor: CursorT,
        open_stream: Callable[[Cursor[Any, Any, Any]], Any],
        runtime: Runtime,
    ) -> None:
        self._open = open_stream
        self._runtime = runtime
        self._call: Any = None
        self._closed = False
        self.cursor = cursor
        """Where it stands: `after`, and at the end `run`."""

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
            call = self._call = self._open(cursor)
            try:
                for message in call:
                    yield from cursor.take(message)
                    if cursor.over or cursor.broken:
                        break
            except grpc.RpcError as error:
                loss = from_rpc_error(error)
            finally:
                self._call = None
                call.cancel()
            if not cursor.over and not self._closed:
                self._runtime.block(cursor.lost(loss))
