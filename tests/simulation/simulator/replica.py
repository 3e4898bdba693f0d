"""A replica: the real executor and watch over the shared store, and the calls it answers.

A crash takes the process away between two steps of any of its tasks: the store may have what it sent
last, or not. The next start has a new connection, a new executor and another skew of its wall clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from stepwell.app.threads import start_in_thread
from stepwell.core.loop.occurrences import (
    AnyCommand,
    AppendMessages,
    Begin,
    Delivery,
    Fork,
    Start,
    StartInThread,
)
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import Assignment, EntryWrite, JournalPage, Presence, Store
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.journal import Entry
from stepwell.core.records.journal_answers import JournalAnswer
from stepwell.core.records.model import Execution
from stepwell.core.records.states import StepKind
from stepwell.engine.executor import Executor, ExecutorConfig, HeldLease
from stepwell.engine.journal_writer import NewEntries
from stepwell.engine.journals import JournalAsked
from stepwell.engine.workers import WorkerConnection
from stepwell.watch.notifier import Notifier
from stepwell.watch.rings import Rings
from stepwell.wire.event_bytes import event_bytes
from stepwell_testkit.faults import Faults, FaultyStore
from tests.simulation.simulator.ledger import Ledger, WitnessedStore
from tests.simulation.simulator.network import Network, Stream, Unreachable
from tests.simulation.simulator.ports import HONEST, Ports
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime

T = TypeVar("T")
DRAIN_S_MAX = 2.0
CONFIG = ExecutorConfig(
    lease_ms=3_000, poll_ms=1_000, hold_ms=1_500, presence_ms=2_000, stickiness_ms=100
)


class Place(NamedTuple):
    """The parts that all replicas share."""

    store: Store
    network: Network
    ledger: Ledger
    rng: Rng
    skew_ms_max: int = 0
    ports: Ports = HONEST


class WorkerSide(Protocol):
    """The worker's end of a stream."""

    def accept(self, stream: Stream, assignment: Assignment) -> None:
        """Accept a step that was assigned."""
        ...

    def cancelled(self, execution_id: str, run_id: str) -> None:
        """Learn that a step is not wanted any more."""
        ...

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        """Learn that a call of a running step has ended."""
        ...

    def is_replaced(self, stream: Stream) -> None:
        """Learn that a newer instance is here."""
        ...


class StreamPort:
    """The executor's view of a worker behind a stream."""

    def __init__(self, presence: Presence, stages: tuple[StepKind, ...], side: WorkerSide) -> None:
        self._presence = presence
        self._stages = stages
        self._side = side
        self.stream: Stream | None = None
        self.session: WorkerConnection | None = None
        self.over = False
        """The stream broke, maybe before the session was made."""

    @property
    def presence(self) -> Presence:
        return self._presence

    @property
    def stages(self) -> tuple[StepKind, ...]:
        return self._stages

    def assign(self, assignment: Assignment) -> None:
        stream = self.stream
        if stream is not None:
            stream.to_worker.send(lambda: self._side.accept(stream, assignment), may_repeat=True)

    def cancel(self, execution_id: str, run_id: str, reason: str) -> None:
        del reason
        if self.stream is not None:
            self.stream.to_worker.send(
                lambda: self._side.cancelled(execution_id, run_id), may_repeat=True
            )

    def ended(self, execution_id: str, run_id: str, entry: Entry) -> None:
        if self.stream is not None:
            self.stream.to_worker.send(
                lambda: self._side.ended(execution_id, run_id, entry), may_repeat=True
            )

    def replaced(self) -> None:
        stream = self.stream
        if stream is not None:
            stream.to_worker.send(lambda: self._side.is_replaced(stream))


class Replica:
    """One process of the service."""

    runtime: SimRuntime
    executor: Executor
    store: FaultyStore
    door: Store
    """The store as the service in this process uses it."""
    notifier: Notifier

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.up = False
        self.starts = 0
        self.faults = Faults()
        self.draining = False
        self.awake = asyncio.Event()
        self.awake.set()
        self._ports: list[StreamPort] = []

    def start(self) -> None:
        """Start the process."""
        place = self.place
        self.starts += 1
        rng = place.rng.stream(f"{self.name}.{self.starts}")
        skew_us = rng.between(-place.skew_ms_max, place.skew_ms_max) * 1_000
        self.runtime = SimRuntime(place.network.runtime.loop, rng, skew_us=skew_us)
        witnessed = WitnessedStore(place.store, place.ledger, self.name)
        self.store = FaultyStore(witnessed, self.runtime, self.faults)
        name = f"{self.name}.{self.starts}"
        self.service_store = place.ports.replica(self.store, self.runtime)
        own_runtime = place.ports.runtime(self.runtime)
        self.executor = Executor(self.service_store, own_runtime, CONFIG, replica_id=name)
        rings = Rings(event_bytes, self.executor.committing, self.runtime)
        self.executor.observe(rings)
        self.notifier = Notifier(self.service_store, rings)
        self.executor.start()
        self.up, self.draining = True, False
        self.awake.set()

    def set_faults(self, faults: Faults) -> None:
        """Have the store behave like this towards this replica, now and after a restart."""
        self.faults = faults
        if self.starts:
            self.store.faults = faults

    def crash(self) -> None:
        """Be gone at once."""
        self.up = False
        self.place.ledger.history.note(f"{self.name} crashes")
        self.place.ledger.history.seen.update(self.store.seen)
        self.store.kill()
        self.runtime.kill()
        self._hang_up_on_all()

    def _hang_up_on_all(self) -> None:
        for port in self._ports:
            if port.stream is not None:
                port.stream.tear()
        self._ports.clear()

    def pause(self) -> Callable[[], None]:
        """Stand still, as under SIGSTOP; returns what lets it go on.

        Its timers still count, but nothing leaves it, and what comes waits.
        """
        store, starts = self.store, self.starts
        self.awake.clear()
        store.freeze()

        def go_on() -> None:
            store.thaw()
            if self.starts == starts:
                self.awake.set()

        return go_on

    async def drain(self) -> None:
        """Go down in good order: no more leases, finish what was begun, hang up, be gone."""
        history, starts = self.place.ledger.history, self.starts
        sessions = [port.session for port in self._ports if port.session is not None]
        history.seen["drain with leases out"] += any(session.leases for session in sessions)
        history.note(f"{self.name} drains")
        self.draining = True
        task = self.runtime.spawn(self.executor.drain(), name="drain")
        await asyncio.wait((task,), timeout=DRAIN_S_MAX)
        if self.up and self.starts == starts:
            self.crash()

    # --- what it answers; each runs in this process ---

    def _refuse_while_draining(self) -> None:
        """Refuse all but outcomes, heartbeats and logs while it drains."""
        if self.draining:
            raise StoreUnavailable("this replica is going down; call again")

    async def attach(self, port: StreamPort, held: Sequence[HeldLease]) -> Sequence[bool]:
        """Connect a worker; its assignments come by the port's stream."""
        self._refuse_while_draining()
        session, live = await self.executor.attach(self.place.ports.worker(port), held)
        port.session = session
        self._ports.append(port)
        if port.over:
            await self.executor.detach(session)
        return live

    def hang_up(self, port: StreamPort) -> None:
        """Notice that a worker's stream is gone."""
        port.over = True
        if port in self._ports:
            self._ports.remove(port)
        if port.session is not None and self.up and not self.runtime.dead:
            self.runtime.spawn(self.executor.detach(port.session), name="detach")

    async def deliver(
        self, tenant_id: str, run_id: str, delivery: Delivery | Begin | AppendMessages
    ) -> Reply:
        """Answer an outcome or a begin; the answer comes after the commit."""
        ledger = self.place.ledger
        invoked = ledger.history.order
        reply = await self.executor.deliver(tenant_id, run_id, delivery)
        ledger.replied((tenant_id, run_id), invoked, delivery, reply, self.name)
        return reply

    async def record(self, tenant_id: str, one: NewEntries) -> JournalAnswer:
        """Answer with the results of a step's journal entries."""
        over: asyncio.Future[JournalAnswer] = asyncio.get_running_loop().create_future()

        def answered(answer: JournalAnswer | Exception) -> None:
            if over.done():
                return
            if isinstance(answer, Exception):
                over.set_exception(answer)
            else:
                over.set_result(answer)

        self.executor.write_journal(tenant_id, one, answered)
        return await over

    async def read_journal(self, tenant_id: str, asked: JournalAsked) -> JournalPage | None:
        """Answer with a part of a step's journal; None: the lease is lost."""
        return await self.executor.journals.read(tenant_id, asked)

    async def begun(self, key: tuple[str, str], execution: Execution) -> tuple[EntryWrite, ...]:
        """Answer with the BEGINs of the call whose outcome is unknown."""
        name, call = execution.execution_id, execution.unknown_call
        return await self.executor.journals.begun(*key, name, call)

    async def send(
        self, tenant_id: str, run_id: str, command: Start | StartInThread | Fork | AnyCommand
    ) -> Reply:
        """Answer a command."""
        self._refuse_while_draining()
        if isinstance(command, StartInThread):
            started = await start_in_thread(self.executor, command)
            status = ReplyStatus.ACCEPTED if started.changed else ReplyStatus.UNCHANGED
            return Reply(status=status, run=started.run)
        return await self.executor.send(tenant_id, run_id, command)


class Service(NamedTuple):
    """All replicas and the way to them, as workers, callers and watchers share it."""

    network: Network
    ledger: Ledger
    replicas: list[Replica]

    def up(self) -> list[Replica]:
        """Return the replicas that are up."""
        return [replica for replica in self.replicas if replica.up]

    async def call(
        self, rng: Rng | None, name: str, work: Callable[[Replica], Coroutine[Any, Any, T]]
    ) -> T:
        """Have any replica that is up do something, without an `rng` the first of them.

        Raises:
            Unreachable: no answer came, or none is up.
            StepwellError: what it answered.
        """
        up = self.up()
        if not up:
            raise Unreachable
        replica = rng.pick(up) if rng is not None else up[0]
        return await self.network.call(replica, name, lambda: work(replica))
