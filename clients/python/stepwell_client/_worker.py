"""The worker: serves an agent's steps over a Work stream, for as long as it takes.

    await Worker(agent).run()

What it promises: no more steps at once than `concurrency`; an outcome is kept until the server says
that it is committed, and sent again after a reconnect, or without a stream where none comes up; leases
live on while the event loop is busy or the stream is down; a step that isn't wanted any more is
cancelled; `drain` hands back what it doesn't finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from stepwell_client._agent import Agent
from stepwell_client._client import Client
from stepwell_client._enums import wire
from stepwell_client._errors import (
    DeadlineExceeded,
    LeaseLost,
    Misconfigured,
    ResourceExhausted,
    ServerError,
    StepwellClientError,
    Unauthenticated,
    Unavailable,
    WorkerReplaced,
)
from stepwell_client._heartbeats import Heartbeats
from stepwell_client._ledger import Held, Ledger
from stepwell_client._limits import CONCURRENCY_MAX
from stepwell_client._plans import seconds_of
from stepwell_client._runtime import full_jitter
from stepwell_client._services import WorkerServices
from stepwell_client._status import from_rpc_error
from stepwell_client._writer import Writer
from stepwell_client.execution import AgentRunner
from stepwell_client.v1 import worker_pb2, worker_pb2_grpc

BACKOFF_SECONDS = 0.05
BACKOFF_SECONDS_MAX = 1.0
WELCOME_SECONDS = 10.0
ACK_SECONDS = 5.0
"""How long a drain waits for the last acknowledgements, and how long Complete may take."""
GOODBYE_SECONDS = 1.0

_log = logging.getLogger("stepwell_client.worker")


def _default_id(agent: Agent) -> str:
    name = re.sub(r"[^A-Za-z0-9._:/@+-]", "-", f"{agent.name}@{socket.gethostname()}")
    return name.lstrip("._:/@+-")[:128] or "worker"


class Worker:
    """One process's part in doing an agent's steps."""

    def __init__(
        self,
        agent: Agent,
        client: Client | str | None = None,
        *,
        worker_id: str | None = None,
        queues: Sequence[str] = (),
        roles: Sequence[str] | None = None,
        concurrency: int = 8,
    ) -> None:
        """Take the agent and where to serve it: a client, a target, or the default target.

        `worker_id` says who this is, also after a restart: the server hands a newer instance at once
        what an older one of the same id held. Two processes need two ids, or the newer one ends the
        other with WorkerReplaced. Default: `agent-name@host`. `queues`: default `default`. `roles`:
        default those that the agent's functions name; `*`: all. `concurrency`: steps at once, 500 at
        most.
        """
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise Misconfigured(f"concurrency is 1 to {CONCURRENCY_MAX}, not {concurrency}")
        self.agent = agent
        self.worker_id = worker_id or _default_id(agent)
        self._owns_client = not isinstance(client, Client)
        self._client = client if isinstance(client, Client) else Client(client)
        self._runtime = self._client.runtime
        self.instance_id = self._runtime.new_id()
        self._queues = queues
        self._roles = agent.roles if roles is None else roles
        self._runner = AgentRunner(agent)
        self._ledger = Ledger(concurrency)
        self._beats = Heartbeats(
            self._ledger,
            self._client.connection,
            self._runtime,
            self._on_change,
            name=self.worker_id,
        )
        self._writer = Writer(
            self._beats.channel,
            self._client.connection,
            self._runtime,
            self._on_change,
            name=self.worker_id,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._call: grpc.aio.StreamStreamCall[Any, Any] | None = None
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._connected = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._background: asyncio.Task[None] | None = None
        self._services = WorkerServices(
            self._ledger, self._beats, self._writer, self._client, self._wake
        )

    async def __aenter__(self) -> Self:
        """Serve in the background until the context is left, which drains."""
        self._background = self._runtime.spawn(self.run(), name=f"worker {self.worker_id}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._background is None:
            return
        if not self._background.done():
            await self.drain(0.0 if error is not None else 30.0)
        await self._background

    @property
    def in_flight(self) -> int:
        """How many steps run here."""
        return len(self._ledger.running)

    async def connected(self) -> None:
        """Wait until a server has welcomed this worker, or `run` has ended."""
        await self._connected.wait()

    async def run(self) -> None:
        """Serve until drained. Raises WorkerReplaced, or what keeps it from ever being served."""
        if self._loop is not None:
            raise Misconfigured("a worker runs once; make another one")
        self._loop = asyncio.get_running_loop()
        self._beats.start()
        try:
            await self._serve()
        except asyncio.CancelledError:
            await self._hand_back()
            raise
        finally:
            self._stopping.set()
            self._abandon_all()
            self._writer.stop()
            self._beats.stop()
            self._runner.close()
            if self._owns_client:
                await self._client.close()
            for event in (self._ended, self._quiet, self._connected):
                event.set()

    async def drain(self, grace_seconds: float = 30.0) -> None:
        """Take no more steps, let those that run finish for so long, hand back the rest, and end."""
        self._ledger.draining = True
        if self._loop is None:
            return
        _log.info("worker %s drains: %d steps in flight", self.worker_id, self.in_flight)
        await self._until_quiet(grace_seconds, lambda: bool(self._ledger.running))
        for held in list(self._ledger.running.values()):
            self._release(held)
        self._wake.set()
        await self._until_quiet(ACK_SECONDS, lambda: bool(self._ledger.pending))
        if self._ledger.pending and not self._ended.is_set():
            await self._complete(GOODBYE_SECONDS)
        self._stopping.set()
        call = self._call
        if call is not None:
            await self._say_goodbye(call)
        await self._ended.wait()

    async def _until_quiet(self, seconds: float, busy: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(seconds):
                while busy() and not self._ended.is_set():
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            pass

    async def _say_goodbye(self, call: grpc.aio.StreamStreamCall[Any, Any]) -> None:
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await call.done_writing()
                await self._ended.wait()
        except (TimeoutError, grpc.RpcError, asyncio.InvalidStateError):
            pass
        call.cancel()

    # The stream, again and again.

    async def _serve(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            error: StepwellClientError | None = None
            self._connected.clear()
            try:
                reason = await self._stream()
                if reason == worker_pb2.WORK_END_REASON_REPLACED:
                    raise WorkerReplaced(
                        f"a newer process is connected as {self.worker_id}: two workers at once "
                        "need two ids (worker_id=…)"
                    )
            except grpc.RpcError as problem:
                error = from_rpc_error(problem)
            except TimeoutError:
                error = DeadlineExceeded("the server did not welcome the worker in time")
            if self._stopping.is_set():
                return
            if error is not None and not self._may_return(error):
                raise error
            failures = 1 if self._connected.is_set() else failures + 1
            _log.log(
                logging.INFO if failures == 1 else logging.WARNING,
                "worker %s connects again (%s)",
                self.worker_id,
                error.reason if error is not None else "the stream ended",
            )
            if failures > 1:
                await self._complete(ACK_SECONDS)
            await self._pause(failures)

    def _may_return(self, error: StepwellClientError) -> bool:
        if isinstance(error, Unauthenticated):
            return self._client.connection.access.reload()
        if isinstance(error, ServerError):
            return error.status is not grpc.StatusCode.UNIMPLEMENTED
        return isinstance(error, Unavailable | ResourceExhausted)

    async def _pause(self, failures: int) -> None:
        seconds = full_jitter(
            self._runtime, failures, base=BACKOFF_SECONDS, cap=BACKOFF_SECONDS_MAX
        )
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _stream(self) -> int:
        """Hold one stream; return why it ended."""
        stub = worker_pb2_grpc.WorkerStub(self._client.channel)
        call = stub.Work(metadata=self._client.connection.access.metadata)
        writer: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(WELCOME_SECONDS):
                if not await _write(call, worker_pb2.WorkRequest(hello=self._hello())):
                    await call.read()  # Raises why.
                response: Any = await call.read()
            if response is grpc.aio.EOF:
                return worker_pb2.WORK_END_REASON_UNSPECIFIED
            self._welcome(response.welcome)
            self._call = call
            writer = self._runtime.spawn(self._send(call))
            while response is not grpc.aio.EOF:
                self._take(response)
                if response.HasField("end"):
                    return response.end.reason
                response = await call.read()
            return worker_pb2.WORK_END_REASON_UNSPECIFIED
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not self._stopping.is_set():
                raise
            return worker_pb2.WORK_END_REASON_UNSPECIFIED  # Our own goodbye.
        finally:
            self._call = None
            call.cancel()
            if writer is not None:
                writer.cancel()

    async def _send(self, call: grpc.aio.StreamStreamCall[Any, Any]) -> None:
        """Write what the ledger has to say; while a message is on its way the next one grows."""
        while True:
            request = self._ledger.next_request()
            if request is not None:
                if not await _write(call, request):
                    return
                continue
            self._wake.clear()
            await self._wake.wait()

    def _hello(self) -> worker_pb2.Hello:
        return worker_pb2.Hello(
            worker_id=self.worker_id,
            instance_id=self.instance_id,
            queues=self._queues,
            roles=self._roles,
            kinds=[wire(kind) for kind in self.agent.kinds],
            stages=[wire(stage) for stage in self.agent.stages],
            held=self._ledger.held_leases(),
        )

    def _welcome(self, welcome: worker_pb2.Welcome) -> None:
        _log.info("worker %s serves replica %s", self.worker_id, welcome.replica_id)
        self._beats.set_terms(seconds_of(welcome.lease), seconds_of(welcome.heartbeat_interval))
        self._ledger.new_stream()
        self._connected.set()
        for state in welcome.held:
            if state.status == worker_pb2.LEASE_STATUS_LOST or state.cancel_requested:
                self._lease_changed(state)

    def _take(self, response: worker_pb2.WorkResponse) -> None:
        for ack in response.acks:
            self._settle(ack)
        for cancellation in response.cancellations:
            self._abandon(
                self._ledger.running.get((cancellation.run_id, cancellation.execution_id))
            )
        for assignment in response.assignments:
            self._start(assignment)
        if response.acks or response.assignments:
            self._wake.set()

    # Steps.

    def _start(self, assignment: worker_pb2.Assignment) -> None:
        held = Held(
            (assignment.run.spec.run_id, assignment.execution.execution_id),
            assignment.lease_token,
            interval=self._beats.interval(seconds_of(assignment.lease)),
            now=self._runtime.monotonic(),
        )
        if self._ledger.draining:
            self._ledger.report(held, _released(held, "the worker drains"))
        elif self._ledger.take(held):
            held.task = self._runtime.spawn(self._execute(held, assignment))

    async def _execute(self, held: Held, assignment: worker_pb2.Assignment) -> None:
        outcome: worker_pb2.Outcome | None = None
        try:
            outcome = await self._runner.run(assignment, self._services)
        except (asyncio.CancelledError, LeaseLost):
            pass
        except Exception as error:  # noqa: BLE001 - a fault of ours fails one step, not the worker
            _log.exception("execution %s of run %s broke the worker", held.key[1], held.key[0])
            outcome = _outcome(held)
            outcome.failed.failure.kind = "WORKER_FAULT"
            outcome.failed.failure.message = f"the worker's own fault: {type(error).__name__}"
        self._writer.forget(held.key)
        self._ledger.finish(held, outcome)
        self._wake.set()
        self._quiet.set()

    def _settle(self, ack: worker_pb2.Ack) -> None:
        held = self._ledger.settle(ack)
        self._quiet.set()
        if held is None or ack.status == worker_pb2.ACK_STATUS_ACCEPTED:
            return
        status = worker_pb2.AckStatus.Name(ack.status).removeprefix("ACK_STATUS_")
        kind = ack.failure.kind
        _log.warning("execution %s of run %s: %s %s", held.key[1], held.key[0], status, kind)

    def _abandon(self, held: Held | None) -> None:
        """Stop a step that nobody waits for."""
        if held is None:
            return
        held.abandoned = True
        self._writer.close(held.key)
        if held.task is not None:
            held.task.cancel()

    def _abandon_all(self) -> None:
        for held in list(self._ledger.running.values()):
            self._abandon(held)

    def _release(self, held: Held) -> None:
        """Hand a step back undone, unless that can't be said of it any more."""
        if held.abandoned:
            return
        if held.begin is None:
            self._ledger.report(held, _released(held, "the worker drains"))
        if held.task is not None:
            held.task.cancel()

    def _on_change(self, state: worker_pb2.LeaseState) -> None:
        """Hand a lease that changed to the event loop. Called in the heartbeats' thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # It is closed: nothing runs any more.
                self._loop.call_soon_threadsafe(self._lease_changed, state)

    def _lease_changed(self, state: worker_pb2.LeaseState) -> None:
        key = (state.run_id, state.execution_id)
        for pending in self._ledger.pending.values():
            if pending.held.key == key:
                pending.held.lost = True  # The outcome is sent all the same: its answer settles it.
        held = self._ledger.running.get(key)
        if held is None:
            return
        held.lost = True
        _log.warning("execution %s of run %s: the lease is lost", key[1], key[0])
        # An AT_MOST_ONCE step that has begun may still be settled by its late outcome.
        if held.begin is None or state.cancel_requested:
            self._abandon(held)

    # Without a stream.

    async def _complete(self, seconds: float) -> None:
        """Report outcomes by unary calls: a stream may fail where these work."""
        stub = worker_pb2_grpc.WorkerStub(self._client.channel)
        for request in self._ledger.complete_requests():
            try:
                response = await stub.Complete(
                    request, timeout=seconds, metadata=self._client.connection.access.metadata
                )
            except grpc.RpcError:
                return  # They stay in the ledger.
            for ack in response.acks:
                self._settle(ack)

    async def _hand_back(self) -> None:
        """The worker itself is cancelled: say so of its steps, as far as a moment allows."""
        self._ledger.draining = True
        for held in list(self._ledger.running.values()):
            self._release(held)
        if self._ledger.pending:
            await self._complete(GOODBYE_SECONDS)


async def _write(
    call: grpc.aio.StreamStreamCall[Any, Any], request: worker_pb2.WorkRequest
) -> bool:
    """Write a message; False: the stream is broken, and reading says why."""
    try:
        await call.write(request)
    except (grpc.RpcError, asyncio.InvalidStateError):
        return False
    return True


def _outcome(held: Held) -> worker_pb2.Outcome:
    return worker_pb2.Outcome(run_id=held.key[0], execution_id=held.key[1], lease_token=held.token)


def _released(held: Held, reason: str) -> worker_pb2.Outcome:
    """Hand back, with what the attempt has said of itself so far."""
    outcome = _outcome(held)
    outcome.released.reason = reason
    if held.progress is not None:
        outcome.progress.CopyFrom(held.progress)
    if held.session is not None:
        outcome.session.CopyFrom(held.session)
    return outcome
