"""The transport of a worker: how the calls of the Worker service reach the server's side of them.

`GrpcTransport` calls a server. An embedded run passes a transport that calls the same functions in its own process.
A failed call raises an error of the client's error tree, whatever the transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from stepwell_client.errors import StepwellClientError
from stepwell_client.link.runtime import WorkerRuntime
from stepwell_client.v1 import types_pb2, worker_pb2


class Receiver(NamedTuple):
    """The worker's side of a stream that needs not be read. Called on the event loop."""

    accept: Callable[[worker_pb2.WorkResponse], None]
    assign: Callable[[worker_pb2.Assignment], None]
    acknowledge: Callable[[worker_pb2.Ack], None]


class WorkStream(Protocol):
    """One Work stream, from its Hello to its end."""

    @property
    def take(self) -> Callable[[worker_pb2.WorkRequest], None] | None:
        """Take a message after the Hello at once; None: this stream has to be waited for, by `write`."""
        ...

    async def write(self, request: worker_pb2.WorkRequest) -> bool:
        """Send a message. False: the stream is broken, and `read` raises the reason."""
        ...

    async def read(self) -> worker_pb2.WorkResponse | None:
        """Return the server's next message; None: the stream has ended."""
        ...

    async def half_close(self) -> None:
        """Send nothing more; the server still answers what it has, and ends the stream then."""
        ...

    def cancel(self) -> None:
        """End the stream; a `read` under way returns None or raises."""
        ...

    async def close(self) -> None:
        """Give back what the stream holds. Called once, after the last `read`."""
        ...


class Background(Protocol):
    """The place where a worker sends heartbeats, or log entries: a thread, or the event loop."""

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin the work, which awaits the methods of this object and nothing else."""
        ...

    def stop(self) -> None:
        """End the work: `wait` returns False from now on. Waits for a moment at most."""
        ...

    def wake(self) -> None:
        """End a `wait`, or the next one where none is under way. Any thread may call."""
        ...

    async def wait(self, seconds: float | None) -> bool:
        """Wait for `wake`, so many seconds at most; None: without end. False: the work is to end."""
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
        """The clock, ids, chance and tasks of the worker."""
        ...

    @property
    def target(self) -> str:
        """The server, for people."""
        ...

    @property
    def progress_seconds(self) -> float:
        """The longest that progress waits for a heartbeat, though the interval may be longer."""
        ...

    @property
    def outlived(self) -> bool:
        """True: a function in a thread can outlive the worker, so its step is left to be lost, not handed back."""
        ...

    def work(self, receiver: Receiver) -> WorkStream:
        """Open a Work stream. What it passes to the receiver after the Welcome, `read` doesn't return."""
        ...

    def background(self, name: str) -> Background:
        """Return a place for heartbeats or log entries, which has not started yet."""
        ...

    async def complete(
        self, request: worker_pb2.ReportOutcomesRequest, seconds: float
    ) -> worker_pb2.ReportOutcomesResponse:
        """Call ReportOutcomes, with a time-out."""
        ...

    async def record(
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

    def messages(self, run_id: str, task_id: str) -> AsyncIterator[types_pb2.Message]:
        """Yield the messages of a task, in the order of their commits."""
        ...

    def renews(self, error: StepwellClientError) -> bool:
        """Return whether the error was an outdated token, in whose place there is another one now."""
        ...

    def may_return(self, error: StepwellClientError) -> bool:
        """Return whether another stream may work after this error."""
        ...

    async def wait_to_return(self, stopping: asyncio.Event, failures: int) -> None:
        """Back off after so many failed streams in a row, or until the worker stops."""
        ...

    async def close(self) -> None:
        """Close what this transport opened for itself."""
        ...
