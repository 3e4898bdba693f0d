"""The Work stream of one worker: a reader that never waits for a commit, and a queue of outgoing items.

When the store can't commit an outcome, it is not acknowledged, and the stream ends with UNAVAILABLE
after the pending acknowledgements. The worker reconnects and sends unanswered items again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress

from stepwell.app.start import QUEUE_DEFAULT
from stepwell.core.port import Presence
from stepwell.core.records.errors import InvalidArgument, StepwellError, Violation
from stepwell.core.records.states import StepKind
from stepwell.engine.executor import HeldLease
from stepwell.engine.workers import WorkerConnection
from stepwell.logger import get_logger
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.step_kinds import step_kinds
from stepwell.rpc.version import FEATURES, PROTOCOL_REVISION, server_version
from stepwell.rpc.worker.intake import Answer, Intake, Receipt
from stepwell.rpc.worker.journal_writes import Answer as JournalAnswer
from stepwell.rpc.worker.journal_writes import check_count, write_one
from stepwell.rpc.worker.outgoing import Outgoing
from stepwell.rpc.worker.worker_dependencies import WorkerDependencies
from stepwell.wire.leases import named
from stepwell.wire.plans import Item
from stepwell.wire.records import to_record
from stepwell.wire.validate import check
from stepwell_client.v1 import worker_pb2 as pb

log = get_logger(__name__)

UNWRITTEN_MAX = 10_000
"""The number of unread acknowledgements at which nothing more is read from a worker."""
UNANSWERED_BYTES_MAX = 64 * 1024 * 1024
"""The bytes of messages with unanswered items at which the loop must answer all before more is read."""


class Stream:
    """One worker's connection, from its Hello to its end."""

    def __init__(self, deps: WorkerDependencies, hello: pb.Hello, outgoing: Outgoing) -> None:
        self._deps = deps
        self._hello = hello
        self._tenant_id = tenant()
        self.outgoing = outgoing
        self._intake = Intake(deps.executor, deps.runtime, self._tenant_id)
        self._connection: WorkerConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._pending = 0
        self._unanswered_bytes = 0
        """The bytes of all messages read since the loop last had answered all items; 0: it has."""
        self._room = asyncio.Event()
        self._half_closed = False
        self.ended = asyncio.Event()

    async def open(self) -> pb.WorkResponse:
        """Connect the worker to the executor; return the first message to send."""
        held = [
            HeldLease(run_id=one.run_id, execution_id=one.execution_id, token=one.token)
            for one in self._hello.held
        ]
        self._connection, live = await self._deps.executor.attach(
            self.outgoing, held, input_schema=self._hello.input_schema
        )
        return self._welcome(live)

    def start_reading(self, first: pb.WorkRequest, requests: AsyncIterator[pb.WorkRequest]) -> None:
        """Apply the first request, and read the others in a task."""
        self.apply(first)
        self._reader = self._deps.runtime.spawn(self._read(requests), name="work reader")

    def written(self) -> None:
        """Continue reading if that had to wait for a message to be written."""
        self._room.set()

    async def close(self) -> None:
        """Stop reading, and disconnect the worker."""
        self.ended.set()
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        if self._connection is not None:
            await self._deps.executor.detach(self._connection)

    def apply(self, request: pb.WorkRequest) -> None:
        """Pass on the worker's items, without waiting."""
        if request.draining and self._connection is not None:
            # First, so that the steps that it hands back don't come to it again.
            self._deps.executor.revoke_credits(self._connection)
        # Before the items, so that the commit of an outcome can lease the next step, which comes
        # before any claim.
        if request.credits and self._connection is not None:
            self._deps.executor.credit(self._connection, request.credits)
        if request.journal_writes:
            check_count(request.journal_writes, "journal_writes")
        for write in request.journal_writes:
            self._pending += 1
            write_one(self._deps.executor, self._tenant_id, write, self._answered)
        for outcome in request.outcomes:
            self._accept(outcome)
        for begin in request.begins:
            self._accept(begin)
        if request.credits and self._connection is not None:
            self._deps.executor.claim_for_free()

    async def _read(self, requests: AsyncIterator[pb.WorkRequest]) -> None:
        try:
            async for request in requests:
                _check_later(request)
                self.apply(request)
                if self._pending:
                    self._unanswered_bytes += request.ByteSize()
                while self._has_no_room:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:  # noqa: BLE001 - the stream ends with it, whatever it is
            self.outgoing.fail(error)
            return
        self.half_close()

    def half_close(self) -> None:
        """Note that the worker sends no more; it still gets the answers to its items."""
        self._half_closed = True
        self._close_if_done()

    @property
    def _has_no_room(self) -> bool:
        return (
            self.outgoing.unwritten > UNWRITTEN_MAX or self._unanswered_bytes > UNANSWERED_BYTES_MAX
        )

    def _accept(self, item: Item) -> None:
        self._pending += 1
        self._intake.accept(item, self._answered)

    def _answered(self, answer: Answer | JournalAnswer) -> None:
        self._pending -= 1
        if not self._pending:
            self._unanswered_bytes = 0
            self._room.set()
        if isinstance(answer, Receipt):
            self.outgoing.acknowledge(answer)
        elif isinstance(answer, pb.JournalAck):
            self.outgoing.recorded(answer)
        elif isinstance(answer, StepwellError):
            self.outgoing.fail(answer)
        else:
            # The executor has logged it. One bad item must not end the stream for all: its lease
            # expires and spends its attempt.
            log.warning("an item was not taken", worker_id=self._hello.worker_id)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._half_closed and not self._pending:
            self.outgoing.close()

    def _welcome(self, live: Sequence[bool]) -> pb.WorkResponse:
        config = self._deps.executor.config
        welcome = pb.Welcome(
            server_version=server_version(),
            replica_id=self._deps.executor.replica_id,
            protocol_revision=PROTOCOL_REVISION,
            features=FEATURES,
        )
        welcome.lease_duration.FromMilliseconds(config.lease_ms)
        welcome.heartbeat_interval.FromMilliseconds(config.heartbeat_ms)
        for held, alive in zip(self._hello.held, live, strict=True):
            welcome.held.add(
                lease=named(held),
                status=pb.LEASE_STATUS_LIVE if alive else pb.LEASE_STATUS_LOST,
            )
        return pb.WorkResponse(welcome=welcome)


def presence_of(deps: WorkerDependencies, hello: pb.Hello) -> Presence:
    """Return the presence of a worker of the caller's tenant."""
    return Presence(
        tenant_id=tenant(),
        worker_id=hello.worker_id,
        instance_id=hello.instance_id,
        replica_id=deps.executor.replica_id,
        queues=tuple(hello.queues) or (QUEUE_DEFAULT,),
        tasks=tuple(to_record(one) for one in hello.tasks),
        kinds=step_kinds(hello.kinds) or tuple(StepKind),
        version=hello.version,
        subject=caller().subject,
    )


async def serve_stream(
    deps: WorkerDependencies,
    streams: set[Stream],
    requests: AsyncIterator[pb.WorkRequest],
    message_bytes_max: int,
    idle_ms: int | None,
) -> AsyncGenerator[pb.WorkResponse]:
    """Serve a worker's connection, which is in `streams` meanwhile; yield the messages to send.

    Raises:
        InvalidArgument: the first message names no worker, or a message breaks a limit.
    """
    first = await _first(requests)
    hello = first.hello
    outgoing = Outgoing(
        presence_of(deps, hello),
        step_kinds(hello.stages),
        message_bytes_max=message_bytes_max,
        idle_ms=idle_ms,
    )
    stream = Stream(deps, hello, outgoing)
    streams.add(stream)
    try:
        yield await stream.open()
        stream.start_reading(first, requests)
        while (message := await stream.outgoing.next_message()) is not None:
            yield message
            stream.written()
    finally:
        streams.discard(stream)
        await stream.close()


async def _first(requests: AsyncIterator[pb.WorkRequest]) -> pb.WorkRequest:
    async for first in requests:
        if not first.HasField("hello"):
            break
        check(first)
        return first
    raise _bad_hello("must be in the first message of a stream")


def _check_later(request: pb.WorkRequest) -> None:
    if request.HasField("hello"):
        raise _bad_hello("comes once, in the first message of a stream")
    check(request)


def _bad_hello(what: str) -> InvalidArgument:
    return InvalidArgument(f"hello {what}", (Violation("hello", what),))
