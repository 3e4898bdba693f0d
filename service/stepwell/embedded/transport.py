"""The transport of an embedded run's worker: calls the Worker service's functions in this process.

Messages are passed as objects. Where gRPC takes a turn of the event loop in each direction, this
takes a call: the worker's messages go to the stream's server side, and assignments and
acknowledgements to the worker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from stepwell.core.port import Assignment, MessageQuery, Principal, Runtime, every_row
from stepwell.core.records.errors import InvalidArgument, StepwellError, StoreError
from stepwell.core.records.journal import Entry
from stepwell.engine.executor import Executor
from stepwell.rpc.caller import set_caller
from stepwell.rpc.status import code_of
from stepwell.rpc.step_kinds import step_kinds
from stepwell.rpc.worker.intake import Receipt
from stepwell.rpc.worker.outgoing import Outgoing
from stepwell.rpc.worker.servicer import Servicer
from stepwell.rpc.worker.stream import Stream, presence_of
from stepwell.rpc.worker.worker_dependencies import WorkerDependencies
from stepwell.wire.leases import ended_call, put_assignment
from stepwell.wire.records import to_message
from stepwell.wire.validate import check
from stepwell_client import StepwellClientError, Unavailable
from stepwell_client.errors import DeadlineExceeded, Violation
from stepwell_client.internal import STREAMS, Details, Receiver, error_of
from stepwell_client.v1 import types_pb2, worker_pb2

T = TypeVar("T")

PROGRESS_SECONDS = 0.2
"""The shortest interval between writes of progress."""
_MESSAGES_AT_ONCE = 64
_BYTES_MAX = 1 << 62


class InProcessTransport:
    """The `Transport` of a worker for an executor in this process."""

    progress_seconds = PROGRESS_SECONDS
    outlived = True
    target = "this process"

    def __init__(self, executor: Executor, runtime: Runtime, tenant_id: str) -> None:
        self.runtime = runtime
        self._executor = executor
        self._principal = Principal(subject="", tenant_id=tenant_id, scopes=frozenset())
        self._deps = WorkerDependencies(executor, runtime)
        servicer: Any = Servicer(self._deps, _BYTES_MAX)
        self.complete = partial(self._call, servicer.ReportOutcomes)
        self.write_journal = partial(self._call, servicer.WriteJournal)
        self.append = partial(self._call, servicer.AppendOutput)
        self.heartbeat = partial(self._call, servicer.Heartbeat)
        self.read_results = partial(self._call, servicer.ReadResults)
        self.read_journal = partial(self._call, servicer.ReadJournal)
        self.read_thread = partial(self._call, servicer.ReadThread)
        self._stops = asyncio.Event()
        self.severed = False
        """True if nothing is passed on any more."""

    def stop(self) -> None:
        """Have no other stream wait for a store that is away: the run stops."""
        self._stops.set()

    def sever(self) -> None:
        """Pass nothing on any more, as if the process were killed."""
        self.severed = True

    def work(self, receiver: Receiver) -> InProcessStream:
        """Open a Work stream."""
        return InProcessStream(self, receiver)

    def keeper(self) -> None:
        """Nothing speaks for a worker that ends with its server."""

    def background(self, name: str) -> LoopTask:
        """Return a task of the event loop, not started yet."""
        return LoopTask(self, name)

    async def messages(self, run_id: str, task_id: str) -> AsyncIterator[types_pb2.Message]:
        """Yield the messages of a task."""
        tenant_id = self._principal.tenant_id
        query = MessageQuery(
            tenant_id=tenant_id, run_id=run_id, task_id=task_id, limit=_MESSAGES_AT_ONCE
        )
        try:
            async for message in every_row(self._executor.store, query):
                yield to_message(message)
        except StepwellError as error:
            raise client_error(error) from error

    async def _call(
        self, method: Callable[..., Awaitable[Any]], request: Any, seconds: float
    ) -> Any:
        self.check()
        try:
            async with asyncio.timeout(seconds):
                return await self.ask(self._checked(method, request))
        except TimeoutError as error:
            raise DeadlineExceeded("the store has not answered in time") from error

    async def _checked(self, method: Callable[..., Awaitable[Any]], request: Any) -> Any:
        # As the gate does. What a stream brings is checked item by item, whoever brings it.
        check(request)
        return await method(request, None)

    async def ask(self, answering: Awaitable[T]) -> T:
        """Await an answer of the server's side. Raises errors of the client's tree."""
        set_caller(self._principal)
        try:
            return await answering
        except StepwellError as error:
            raise client_error(error) from error

    def check(self) -> None:
        """Raise Unavailable if nothing is passed on any more."""
        if self.severed:
            raise Unavailable("the process stops")

    def open(self, hello: worker_pb2.Hello, receiver: Receiver) -> Stream:
        """Return the server's side of a stream, for any step: a step without a function fails with a message."""
        set_caller(self._principal)
        for field in ("tasks", "kinds", "input_schema"):
            hello.ClearField(field)
        return Stream(self._deps, hello, _Handover(self, self._deps, hello, receiver))

    def renews(self, error: StepwellClientError) -> bool:
        """Return False: there are no tokens."""
        del error
        return False

    def may_return(self, error: StepwellClientError) -> bool:
        """Return whether the store was away, and the run goes on."""
        return isinstance(error, Unavailable) and not self._stops.is_set()

    async def wait_to_return(self, stopping: asyncio.Event, failures: int) -> None:
        """Back off, or until the run stops."""
        del stopping  # `stop` comes before.
        with suppress(TimeoutError):
            async with asyncio.timeout(STREAMS.seconds(self.runtime, failures)):
                await self._stops.wait()

    async def close(self) -> None:
        """Close nothing: executor and store belong to the caller."""


class _Handover(Outgoing):
    """Passes everything to the worker at once; only the end of the stream is awaited."""

    def __init__(
        self,
        transport: InProcessTransport,
        deps: WorkerDependencies,
        hello: worker_pb2.Hello,
        receiver: Receiver,
    ) -> None:
        super().__init__(
            presence_of(deps, hello), step_kinds(hello.stages), message_bytes_max=_BYTES_MAX
        )
        self._transport = transport
        self._receiver = receiver

    def assign(self, assignment: Assignment) -> None:
        if not self._transport.severed:
            message = worker_pb2.Assignment()
            put_assignment(assignment, message)
            self._receiver.assign(message)

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        response = worker_pb2.WorkResponse()
        lease = worker_pb2.Lease(run_id=run_id, execution_id=execution_id)
        response.cancellations.add(lease=lease, reason=reason)
        self._receiver.accept(response)

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        ended = ended_call(execution_id, run_id, entry)
        self._receiver.accept(worker_pb2.WorkResponse(ended_calls=[ended]))

    def acknowledge(self, receipt: Receipt) -> None:
        ack = worker_pb2.Ack()
        receipt.write(ack)
        self._receiver.acknowledge(ack)

    def recorded(self, answer: worker_pb2.JournalAck) -> None:
        self._receiver.accept(worker_pb2.WorkResponse(journal_acks=[answer]))


class InProcessStream:
    """The `WorkStream` by calls."""

    def __init__(self, transport: InProcessTransport, receiver: Receiver) -> None:
        self._transport = transport
        self._receiver = receiver
        self._stream: Stream | None = None
        self._welcomed = False

    async def write(self, request: worker_pb2.WorkRequest) -> bool:
        """Receive the Hello."""
        self._stream = self._transport.open(request.hello, self._receiver)
        return True

    def take(self, request: worker_pb2.WorkRequest) -> None:
        """Apply a message."""
        if self._stream is None or self._transport.severed:
            return
        try:
            self._stream.apply(request)
        except Exception as error:  # noqa: BLE001 - the stream ends with it, as it does over gRPC
            self._stream.outgoing.fail(error)

    async def read(self) -> worker_pb2.WorkResponse | None:
        """Connect, and return the Welcome; then wait for the end."""
        if self._stream is None:
            return None
        if not self._welcomed:
            self._welcomed = True
            self._transport.check()
            return await self._transport.ask(self._stream.open())
        return await self._transport.ask(self._stream.outgoing.next_message())

    async def half_close(self) -> None:
        """Send nothing more."""
        if self._stream is not None:
            self._stream.half_close()

    def cancel(self) -> None:
        """End the stream."""
        if self._stream is not None:
            self._stream.outgoing.close()

    async def close(self) -> None:
        """Disconnect the worker, if the store is available."""
        stream, self._stream = self._stream, None
        if stream is not None and not self._transport.severed:
            with suppress(StepwellError):
                await stream.close()


class LoopTask:
    """The `Background` of an event loop."""

    def __init__(self, transport: InProcessTransport, name: str) -> None:
        self._transport = transport
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._woken = asyncio.Event()
        self._stopped = False
        self.heartbeat = transport.heartbeat
        self.append = transport.append

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start the task. Any thread may call."""
        self._on_loop(self._start, work)

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        if threading.get_ident() == self._thread:
            call(*arguments)  # To wake the event loop from outside takes system calls.
        else:
            self._loop.call_soon_threadsafe(call, *arguments)

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._stopped:
            self._transport.runtime.spawn(work(), name=self._name)

    def stop(self) -> None:
        """End the task at its next wait."""
        self._stopped = True
        self._woken.set()

    def wake(self) -> None:
        """End a wait."""
        self._on_loop(self._woken.set)

    async def wait(self, seconds: float | None) -> bool:
        """Wait in the event loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
        return not self._stopped


def client_error(error: StepwellError) -> StepwellClientError:
    """Return the error that a client gets for one of the server's side."""
    if isinstance(error, StoreError):
        return Unavailable(error.message, reason=error.reason)
    found = error.violations if isinstance(error, InvalidArgument) else ()
    violations = tuple(Violation(one.field, one.description) for one in found)
    return error_of(code_of(error), error.message, Details(error.reason, {}, violations))
