"""The worker: serves an agent's steps over a Work stream, and reconnects whenever it breaks.

    await Worker(agent).run()

It runs at most `concurrency` steps at once. It keeps an outcome until the server acknowledges it,
and repeats it after a reconnect, or by unary calls without a stream. Leases are renewed also while
the event loop is blocked or the stream is broken. Steps that the server cancels are cancelled;
`drain` hands back unfinished steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Self

from stepwell_client.agent.agent import Agent
from stepwell_client.agent.execution import AgentRunner
from stepwell_client.calls.client import Client
from stepwell_client.enums import to_wire
from stepwell_client.errors import (
    DeadlineExceeded,
    LeaseLost,
    Misconfigured,
    StepwellClientError,
    WorkerReplaced,
)
from stepwell_client.link.outages import StreamLosses
from stepwell_client.records.limits import CONCURRENCY_MAX
from stepwell_client.records.plans import seconds_of
from stepwell_client.v1 import worker_pb2
from stepwell_client.worker.grpc_transport import GrpcTransport
from stepwell_client.worker.heartbeats import Heartbeats
from stepwell_client.worker.log_sender import LogSender
from stepwell_client.worker.services import WorkerServices
from stepwell_client.worker.slots import WorkerSlots, base_id
from stepwell_client.worker.state import ExecutionKey, StepLease, WorkerState
from stepwell_client.worker.transport import Receiver, Transport, WorkStream

WELCOME_SECONDS = 10.0
ACK_SECONDS = 5.0
"""The time that a drain waits for the last acknowledgements, and that ReportOutcomes may take."""
GOODBYE_SECONDS = 1.0

_log = logging.getLogger("stepwell_client.worker")


class Worker:
    """A worker: runs steps of an agent in this process."""

    def __init__(
        self,
        agent: Agent,
        client: Client | str | Transport | None = None,
        *,
        worker_id: str | None = None,
        queues: Sequence[str] = (),
        roles: Sequence[str] | None = None,
        version: str = "",
        concurrency: int = 8,
        runner: AgentRunner | None = None,
        keeper: bool | None = None,
    ) -> None:
        """Prepare to serve the agent: over a client, at a target, at the default target, or over a transport.

        `worker_id` identifies the worker, also after a restart: the server at once gives the leases
        of an older instance with the same id to a newer one, and ends the older with
        WorkerReplaced. Default: the first of `agent-name@host`, `agent-name@host-2` … that is free
        on this machine when `run` begins. `queues`: default those of the agent, else
        `default`. `roles`: default those of the agent's functions; `*`: all. `version`: the agent's, for runs that ask for one.
        `concurrency`: the most steps at once, up to 500. The worker gets only steps that a function
        is registered for. `runner` runs the steps, and is closed with the worker. `keeper`: whether
        another process renews its leases while a function holds the interpreter. Default: yes,
        unless `STEPWELL_KEEPER` is false; never on Windows, or with `credentials` of the client's.
        """
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise Misconfigured(f"concurrency is 1 to {CONCURRENCY_MAX}, not {concurrency}")
        self.agent = agent
        self.worker_id = worker_id or base_id(agent.name)
        self._transport: Transport = (
            GrpcTransport(client, keeper=keeper)
            if client is None or isinstance(client, Client | str)
            else client
        )
        self._runtime = self._transport.runtime
        self._slots = None if worker_id else WorkerSlots(self.worker_id, self._runtime)
        self.instance_id = self._runtime.new_id()
        self._queues = queues or agent.queues
        self._roles = agent.roles if roles is None else roles
        self._version = version
        self._input_schema = agent.input_schema
        self._runner = runner or AgentRunner(agent)
        self._state = WorkerState(concurrency)
        self._heartbeats = Heartbeats(
            self._state, self._transport, self._on_change, name=self.worker_id
        )
        self._logs = LogSender(self._transport, self._on_change, name=self.worker_id)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stream: WorkStream | None = None
        self._take: Callable[[worker_pb2.WorkRequest], None] | None = None
        self._wake = asyncio.Event()
        self._is_idle = False
        """True if the server has sent an empty message, which is answered by another."""
        self._quiet = asyncio.Event()
        self._connected = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._background: asyncio.Task[None] | None = None
        self._losses = StreamLosses()
        self._services = WorkerServices(
            self._state, self._heartbeats, self._logs, self._transport, self._send
        )

    async def __aenter__(self) -> Self:
        """Serve in the background until the context is left, and then drain."""
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
        """The number of steps that run here."""
        return len(self._state.running)

    @property
    def is_busy(self) -> bool:
        """True while steps run here, or outcomes are unacknowledged."""
        return bool(self._state.running or self._state.pending)

    async def idle(self) -> None:
        """Wait until no step runs here and all outcomes are acknowledged, or `run` has ended."""
        await self._until_quiet(None, lambda: self.is_busy)

    async def connected(self) -> None:
        """Wait until a server has welcomed this worker, or `run` has ended."""
        await self._connected.wait()

    async def run(self) -> None:
        """Serve until drained. Raises WorkerReplaced, or an error that no reconnect can fix."""
        if self._loop is not None:
            raise Misconfigured("a worker runs once; make another one")
        self._loop = asyncio.get_running_loop()
        if self._slots is not None:
            self.worker_id = self._slots.take()
        try:
            if not self._state.draining:
                await self._serve()
        except asyncio.CancelledError:
            await self._release_all()
            raise
        finally:
            self._stopping.set()
            self._abandon_all()
            self._logs.stop()
            self._heartbeats.stop()
            self._runner.close()
            if self._slots is not None:
                self._slots.release()
            await self._transport.close()
            for event in (self._ended, self._quiet, self._connected):
                event.set()

    async def drain(self, grace_seconds: float = 30.0) -> None:
        """Accept no more steps, let running steps finish within this time, hand back the others, and end."""
        self._state.draining = True
        if self._loop is None:
            return
        self._send()  # Credits are revoked before anything is handed back.
        _log.info("worker %s drains: %d steps in flight", self.worker_id, self.in_flight)
        await self._until_quiet(grace_seconds, lambda: bool(self._state.running))
        for lease in list(self._state.running.values()):
            self._release(lease)
        if self._transport.outlived:
            await self._until_quiet(GOODBYE_SECONDS, lambda: bool(self._state.running))
        self._send()
        await self._until_quiet(ACK_SECONDS, lambda: bool(self._state.pending))
        if self._state.pending and not self._ended.is_set():
            await self._complete(GOODBYE_SECONDS)
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            await self._close_stream(stream)
        await self._ended.wait()

    async def _until_quiet(self, seconds: float | None, busy: Callable[[], bool]) -> None:
        if not busy():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while busy() and not self._ended.is_set():
                    self._quiet.clear()
                    await self._quiet.wait()

    async def _close_stream(self, stream: WorkStream) -> None:
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await stream.half_close()
                await self._ended.wait()
        except TimeoutError:
            pass
        stream.cancel()

    # Streams.

    async def _serve(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            error: StepwellClientError | None = None
            reason = worker_pb2.WORK_END_REASON_UNSPECIFIED
            self._connected.clear()
            try:
                reason = await self._run_stream()
            except StepwellClientError as problem:
                error = problem
            except TimeoutError:
                error = DeadlineExceeded("the server did not welcome the worker in time")
            if reason == worker_pb2.WORK_END_REASON_REPLACED:
                self._replaced()
            if self._stopping.is_set():
                return
            if error is not None and not self._transport.may_return(error):
                raise error
            failures = 1 if self._connected.is_set() else failures + 1
            self._log_loss(error, first=failures == 1)
            if failures > 1:
                await self._complete(ACK_SECONDS)
            await self._transport.wait_to_return(self._stopping, failures)

    def _log_loss(self, error: StepwellClientError | None, *, first: bool) -> None:
        """Log the loss of the server, ever more rarely while it lasts."""
        if not self._losses.due(self._runtime.monotonic(), first=first):
            return
        target = self._transport.target
        cause = f"{target}: the stream ended" if error is None else error.explain(target)
        _log.warning("worker %s connects again: %s", self.worker_id, cause)

    def _replaced(self) -> None:
        """Continue under another id, or raise if the caller chose the id."""
        if self._slots is None:
            raise WorkerReplaced(
                f"a newer process is connected as {self.worker_id}: two workers at once "
                "need two ids (worker_id=…)"
            )
        # This process has the id's lock, so the other worker uses another state folder, as in a
        # container.
        before, self.worker_id = self.worker_id, self._slots.take()
        _log.warning(
            "worker %s goes on as %s: another process is connected by its id",
            before,
            self.worker_id,
        )

    async def _run_stream(self) -> int:
        """Run one stream; return the reason for its end."""
        stream = self._transport.work(Receiver(self._accept, self._assign, self._acknowledge))
        writer: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(WELCOME_SECONDS):
                # A broken stream raises the reason when it is read.
                await stream.write(worker_pb2.WorkRequest(hello=self._hello()))
                response = await stream.read()
            if response is None or self._stopping.is_set():  # It was drained while it connected.
                return worker_pb2.WORK_END_REASON_UNSPECIFIED
            self._welcome(response.welcome)
            self._stream, self._take = stream, stream.take
            if self._take is None:
                writer = self._runtime.spawn(self._write(stream), name="work writer")
            else:
                self._send()
            while response is not None:
                self._accept(response)
                if response.HasField("end"):
                    return response.end.reason
                response = await stream.read()
            return worker_pb2.WORK_END_REASON_UNSPECIFIED
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling() or not self._stopping.is_set():
                raise
            return worker_pb2.WORK_END_REASON_UNSPECIFIED  # This worker ended the stream.
        finally:
            self._stream = self._take = None
            if writer is not None:
                writer.cancel()
            await stream.close()

    def _send(self) -> None:
        """Send what is unsent: at once if the stream allows it, or else by a task."""
        if self._take is None:
            self._wake.set()
            return
        while (request := self._state.next_request()) is not None:
            self._take(request)

    async def _write(self, stream: WorkStream) -> None:
        """Write what is unsent; anything new meanwhile goes into the next message."""
        while True:
            request = self._state.next_request()
            if request is None and self._is_idle:
                # Proxies measure idleness in this direction, too.
                request = worker_pb2.WorkRequest()
            if request is not None:
                self._is_idle = False
                if not await stream.write(request):
                    return
                continue
            self._wake.clear()
            await self._wake.wait()

    def _hello(self) -> worker_pb2.Hello:
        tasks = self.agent.patterns(self._roles)
        return worker_pb2.Hello(
            worker_id=self.worker_id,
            instance_id=self.instance_id,
            queues=self._queues,
            tasks=tasks,
            version=self._version,
            kinds=[to_wire(kind) for kind in self.agent.kinds_of(tasks)],
            stages=[to_wire(stage) for stage in self.agent.stages],
            held=self._state.held_leases(),
            input_schema=self._input_schema,
        )

    def _welcome(self, welcome: worker_pb2.Welcome) -> None:
        if self._losses.end(self._runtime.monotonic()):
            _log.info("worker %s serves replica %s", self.worker_id, welcome.replica_id)
        self._heartbeats.set_terms(
            seconds_of(welcome.lease_duration), seconds_of(welcome.heartbeat_interval)
        )
        self._state.new_stream()
        self._connected.set()
        for state in welcome.held:
            if state.status == worker_pb2.LEASE_STATUS_LOST or state.cancel_requested:
                self._lease_changed(state)

    def _accept(self, response: worker_pb2.WorkResponse) -> None:
        for ack in response.acks:
            self._settle(ack)
        for written in response.journal_acks:
            self._state.journal_writer.settle(written)
        cancelled = {(one.lease.run_id, one.lease.execution_id) for one in response.cancellations}
        for key in cancelled:
            self._abandon(self._state.running.get(key))
        for assignment in response.assignments:
            self._start(assignment, cancelled)
        self._state.end_calls(response.ended_calls)
        if response.acks or response.assignments:
            self._send()
        elif not response.ListFields():
            self._is_idle = True
            self._wake.set()

    def _assign(self, assignment: worker_pb2.Assignment) -> None:
        self._start(assignment, ())
        self._send()

    def _acknowledge(self, ack: worker_pb2.Ack) -> None:
        self._settle(ack)
        if self._state.holds_back:
            self._send()

    # Steps.

    def _start(
        self, assignment: worker_pb2.Assignment, cancelled: Collection[ExecutionKey]
    ) -> None:
        """Start a step, unless the message that brought it also cancels it."""
        idle_timeout = seconds_of(assignment.task.idle_timeout)
        lease = StepLease(
            (assignment.run.run_id, assignment.execution.execution_id),
            assignment.lease.token,
            interval=self._heartbeats.interval(seconds_of(assignment.lease_duration), idle_timeout),
            now=self._runtime.monotonic(),
            idle_timeout=idle_timeout,
        )
        if self._state.draining:
            self._state.report(lease, lease.released("the worker drains"))
        elif not self._state.accept(lease):
            return
        elif lease.key in cancelled:
            self._state.finish(lease, None)
        else:
            self._heartbeats.keep(lease, assignment.lease)
            lease.task = self._runtime.spawn(
                self._execute(lease, assignment), name=f"step {lease.key[1]}"
            )

    async def _execute(self, lease: StepLease, assignment: worker_pb2.Assignment) -> None:
        outcome: worker_pb2.Outcome | None = None
        try:
            outcome = await self._runner.run(assignment, self._services)
        except (asyncio.CancelledError, LeaseLost):
            if lease.returns and not self._ended.is_set():
                outcome = lease.released("the worker drains")
        except Exception as error:  # noqa: BLE001 - a bug here fails one step, not the worker
            _log.exception("execution %s of run %s broke the worker", lease.key[1], lease.key[0])
            outcome = lease.outcome()
            outcome.failed.failure.kind = "WORKER_FAULT"
            outcome.failed.failure.message = f"the worker's own fault: {type(error).__name__}"
        self._logs.remove(lease.key)
        self._state.finish(lease, outcome)
        self._send()
        self._quiet.set()

    def _settle(self, ack: worker_pb2.Ack) -> None:
        lease = self._state.settle(ack)
        self._quiet.set()
        if lease is None or ack.status == worker_pb2.ACK_STATUS_ACCEPTED:
            return
        status = worker_pb2.AckStatus.Name(ack.status).removeprefix("ACK_STATUS_")
        kind = ack.failure.kind
        _log.warning("execution %s of run %s: %s %s", lease.key[1], lease.key[0], status, kind)

    def _abandon(self, lease: StepLease | None) -> None:
        """Cancel a step whose outcome nobody waits for."""
        if lease is None:
            return
        lease.abandoned = True
        lease.let_go()
        self._state.journal_writer.give_up(lease.key)
        self._logs.close(lease.key)
        if lease.task is not None:
            lease.task.cancel()

    def _abandon_all(self) -> None:
        for lease in list(self._state.running.values()):
            self._abandon(lease)

    def _release(self, lease: StepLease) -> None:
        """Hand a step back undone, unless it or one of its calls has begun its effect."""
        if lease.abandoned:
            return
        if not lease.has_begun:
            if self._transport.outlived:
                lease.returns = True
            else:
                self._state.report(lease, lease.released("the worker drains"))
        if lease.task is not None:
            lease.task.cancel()

    def _on_change(self, state: worker_pb2.LeaseState) -> None:
        """Notify the event loop of a changed lease. Called in the heartbeats' thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # The event loop is closed, so no step runs.
                self._loop.call_soon_threadsafe(self._lease_changed, state)

    def _lease_changed(self, state: worker_pb2.LeaseState) -> None:
        key = (state.lease.run_id, state.lease.execution_id)
        for pending in self._state.pending.values():
            if pending.lease.key == key:
                pending.lease.lost = (
                    True  # The outcome is sent all the same, and its answer settles the step.
                )
        lease = self._state.running.get(key)
        if lease is None:
            return
        lease.lost = True
        lease.let_go()
        _log.warning("execution %s of run %s: the lease is lost", key[1], key[0])
        # An AT_MOST_ONCE step that has begun may still be settled by its late outcome.
        if lease.begin is None or state.cancel_requested:
            self._abandon(lease)

    # Without a stream.

    async def _complete(self, seconds: float) -> None:
        """Send outcomes and journal writes by unary calls, which may work when streams fail."""
        try:
            for request in self._state.complete_requests():
                response = await self._transport.complete(request, seconds)
                for ack in response.acks:
                    self._settle(ack)
            for request in self._state.journal_writer.requests():
                response = await self._transport.write_journal(request, seconds)
                for written in response.acks:
                    self._state.journal_writer.settle(written)
        except StepwellClientError:
            return  # They stay pending.

    async def _release_all(self) -> None:
        """When the worker itself is cancelled, release all steps as far as possible in a moment."""
        self._state.draining = True
        for lease in list(self._state.running.values()):
            self._release(lease)
        if self._state.pending:
            await self._complete(GOODBYE_SECONDS)
