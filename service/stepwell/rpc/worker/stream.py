"""The Work stream of one worker: a reader that never waits for a commit, and what is sent to it.

When the store can't take an outcome, nobody knows its fate: it is not acknowledged, and the stream
ends with UNAVAILABLE after the acknowledgements that are due. The worker connects again and sends what
it has no answer to.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress

import structlog

from stepwell.app.start import QUEUE_DEFAULT
from stepwell.core.port import Presence
from stepwell.core.records.errors import InvalidArgument, StepwellError, Violation
from stepwell.core.records.states import StepKind
from stepwell.engine.executor import HeldLease
from stepwell.rpc.caller import tenant
from stepwell.rpc.parts import Parts, server_version
from stepwell.rpc.step_kinds import step_kinds
from stepwell.rpc.validate import check
from stepwell.rpc.worker.intake import Answer, Intake, Item, Receipt
from stepwell.rpc.worker.outbox import Outbox
from stepwell_client.v1 import worker_pb2 as pb

log = structlog.get_logger(__name__)

_Take = Callable[[pb.WorkRequest], None]

UNWRITTEN_MAX = 10_000
"""Acknowledgements that a worker leaves unread before nothing more is read from it."""


class Stream:
    """One worker's connection, from its Hello to its end."""

    def __init__(self, parts: Parts, hello: pb.Hello) -> None:
        self._parts = parts
        self._hello = hello
        tenant_id = tenant()
        presence = Presence(
            tenant_id=tenant_id,
            worker_id=hello.worker_id,
            instance_id=hello.instance_id,
            replica_id=parts.executor.replica_id,
            queues=tuple(hello.queues) or (QUEUE_DEFAULT,),
            roles=tuple(hello.roles),
            kinds=step_kinds(hello.kinds) or tuple(StepKind),
        )
        self.outbox = Outbox(
            presence,
            step_kinds(hello.stages),
            message_bytes_max=parts.settings.watch.message_bytes_max,
        )
        self._intake = Intake(parts.executor, tenant_id)
        self._pending = 0
        self._room = asyncio.Event()
        self._half_closed = False
        self.ended = asyncio.Event()

    async def run(
        self, first: pb.WorkRequest, requests: AsyncIterator[pb.WorkRequest]
    ) -> AsyncGenerator[pb.WorkResponse]:
        """Serve it: yields what is to be sent."""
        executor, runtime = self._parts.executor, self._parts.runtime
        held = [
            HeldLease(run_id=one.run_id, execution_id=one.execution_id, token=one.lease_token)
            for one in self._hello.held
        ]
        session, live = await executor.attach(self.outbox, held)
        reader: asyncio.Task[None] | None = None
        try:
            yield self._welcome(live)

            def take(request: pb.WorkRequest) -> None:
                for outcome in request.outcomes:
                    self._take(outcome)
                for begin in request.begins:
                    self._take(begin)
                if request.credits:
                    executor.credit(session, request.credits)

            take(first)
            reader = runtime.spawn(self._read(requests, take), name="work reader")
            async with aclosing(self.outbox.messages()) as messages:
                async for message in messages:
                    yield message
                    self._room.set()
        finally:
            self.ended.set()
            if reader is not None:
                reader.cancel()
                with suppress(asyncio.CancelledError):
                    await reader
            await executor.detach(session)

    async def _read(self, requests: AsyncIterator[pb.WorkRequest], take: _Take) -> None:
        try:
            async for request in requests:
                _check_later(request)
                take(request)
                while self.outbox.unwritten > UNWRITTEN_MAX:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:  # noqa: BLE001 - the stream ends with it, whatever it is
            self.outbox.fail(error)
            return
        # The worker sends no more. It still learns what became of what it sent.
        self._half_closed = True
        self._close_if_done()

    def _take(self, item: Item) -> None:
        self._pending += 1
        self._intake.take(item, self._answered)

    def _answered(self, answer: Answer) -> None:
        self._pending -= 1
        if isinstance(answer, Receipt):
            self.outbox.acknowledge(answer)
        elif isinstance(answer, StepwellError):
            self.outbox.fail(answer)
        else:
            # The executor has logged it. One poisonous outcome must not end the stream of all: its
            # lease runs out and spends its attempt.
            log.warning("an outcome was not taken", worker_id=self._hello.worker_id)
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._half_closed and not self._pending:
            self.outbox.close()

    def _welcome(self, live: Sequence[bool]) -> pb.WorkResponse:
        config = self._parts.executor.config
        welcome = pb.Welcome(
            server_version=server_version(), replica_id=self._parts.executor.replica_id
        )
        welcome.lease.FromMilliseconds(config.lease_ms)
        welcome.heartbeat_interval.FromMilliseconds(config.heartbeat_ms)
        for held, alive in zip(self._hello.held, live, strict=True):
            welcome.held.add(
                run_id=held.run_id,
                execution_id=held.execution_id,
                status=pb.LEASE_STATUS_LIVE if alive else pb.LEASE_STATUS_LOST,
            )
        return pb.WorkResponse(welcome=welcome)


async def open_stream(
    parts: Parts, requests: AsyncIterator[pb.WorkRequest]
) -> tuple[Stream, pb.WorkRequest]:
    """Read the first message, which says who the worker is.

    Raises:
        InvalidArgument: it doesn't, or breaks a limit.
    """
    async for first in requests:
        if not first.HasField("hello"):
            raise _bad_hello("must be in the first message of a stream")
        check(first)
        return Stream(parts, first.hello), first
    raise _bad_hello("must be in the first message of a stream")


def _check_later(request: pb.WorkRequest) -> None:
    if request.HasField("hello"):
        raise _bad_hello("comes once, in the first message of a stream")
    check(request)


def _bad_hello(what: str) -> InvalidArgument:
    return InvalidArgument(f"hello {what}", (Violation("hello", what),))
