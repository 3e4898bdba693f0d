"""The transport of a worker: carries the Worker service's calls to the server.

`GrpcTransport` calls a server. An embedded run passes a transport that calls the same functions in
its own process. Every transport raises the client's errors for failed calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from stepwell_client.errors import StepwellClientError
from stepwell_client.link.runtime import WorkerRuntime
from stepwell_client.v1 import types_pb2, worker_pb2
from stepwell_client.worker.keeper import Keeper


class Receiver(NamedTuple):
    """Callbacks for a stream's messages that need not be read. Called on the event loop."""

    accept: Callable[[worker_pb2.WorkResponse], None]
    assign: Callable[[worker_pb2.Assignment], None]
    acknowledge: Callable[[worker_pb2.Ack], None]


class WorkStream(Protocol):
    """One Work stream, from its Hello to its end."""

    @property
    def take(self) -> Callable[[worker_pb2.WorkRequest], None] | None:
        """Return a function that takes a message after the Hello at once, or None if `write` must be awaited."""
        ...

    async def write(self, request: worker_pb2.WorkRequest) -> bool:
        """Send a message; return False if the stream is broken, in which case `read` raises the reason."""
        ...

    async def read(self) -> worker_pb2.WorkResponse | None:
        """Return the server's next message, or None at the end of the stream."""
        ...

    async def half_close(self) -> None:
        """Send nothing more; the server answers what it has received, and then ends the stream."""
        ...

    def cancel(self) -> None:
        """End the stream; a running `read` returns None or raises."""
        ...

    async def close(self) -> None:
        """Release the stream's resources. Called once, after the last `read`."""
        ...


class Background(Protocol):
    """The place where a worker sends heartbeats, or log entries: a thread, or the event loop."""

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the work, which awaits only methods of this object."""
        ...

    def stop(self) -> None:
        """End the work: `wait` returns False from now on. Blocks only for a moment."""
        ...

    def wake(self) -> None:
        """End the running `wait`, or else the next one. Any thread may call."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Wait for `wake`, at most this many seconds (None: without limit); return False if the work must end."""
        ...

    async def heartbeat(
        self, request: worker_pb2.HeartbeatRequest, seconds: float
    ) -> worker_pb2.HeartbeatResponse:
        """Call Heartbeat, with a time-out."""
        ...

    async def append(
        self, request: worker_pb2.AppendOutputRequest, seconds: float
    ) -> worker_pb2.AppendOutputResponse:
        """Call AppendOutput, with a time-out."""
        ...


class Transport(Protocol):
    """The calls of a worker, and the connection that they go over."""

    @property
    def runtime(self) -> WorkerRuntime:
        """The worker's clock, ids, random numbers and tasks."""
        ...

    @property
    def target(self) -> str:
        """The server's name for people."""
        ...

    @property
    def progress_seconds(self) -> float:
        """The longest that progress waits for a heartbeat, even if the interval is longer."""
        ...

    @property
    def outlived(self) -> bool:
        """True if a function in a thread can outlive the worker, so its step is lost instead of handed back."""
        ...

    def work(self, receiver: Receiver) -> WorkStream:
        """Open a Work stream. After the Welcome, messages passed to the receiver are not returned by `read`."""
        ...

    def keeper(self) -> Keeper | None:
        """Return what renews leases while no thread of this process runs, or None if nothing does."""
        ...

    def background(self, name: str) -> Background:
        """Return a background, not started yet, for heartbeats or log entries."""
        ...

    async def complete(
        self, request: worker_pb2.ReportOutcomesRequest, seconds: float
    ) -> worker_pb2.ReportOutcomesResponse:
        """Call ReportOutcomes, with a time-out."""
        ...

    async def write_journal(
        self, request: worker_pb2.WriteJournalRequest, seconds: float
    ) -> worker_pb2.WriteJournalResponse:
        """Call WriteJournal, with a time-out."""
        ...

    async def append(
        self, request: worker_pb2.AppendOutputRequest, seconds: float
    ) -> worker_pb2.AppendOutputResponse:
        """Call AppendOutput, with a time-out."""
        ...

    async def read_results(
        self, request: worker_pb2.ReadResultsRequest, seconds: float
    ) -> worker_pb2.ReadResultsResponse:
        """Call ReadResults, with a time-out."""
        ...

    async def read_journal(
        self, request: worker_pb2.ReadJournalRequest, seconds: float
    ) -> worker_pb2.ReadJournalResponse:
        """Call ReadJournal, with a time-out."""
        ...

    async def read_thread(
        self, request: worker_pb2.ReadThreadRequest, seconds: float
    ) -> worker_pb2.ReadThreadResponse:
        """Call ReadThread, with a time-out."""
        ...

    def messages(self, run_id: str, task_id: str) -> AsyncIterator[types_pb2.Message]:
        """Yield the messages of a task, in the order of their commits."""
        ...

    def renews(self, error: StepwellClientError) -> bool:
        """Return whether the error was about an outdated token, and there is a new one now."""
        ...

    def may_return(self, error: StepwellClientError) -> bool:
        """Return whether another stream may work after this error."""
        ...

    async def wait_to_return(self, stopping: asyncio.Event, failures: int) -> None:
        """Back off after `failures` failed streams in a row, or until the worker stops."""
        ...

    async def close(self) -> None:
        """Close what this transport opened for itself."""
        ...
