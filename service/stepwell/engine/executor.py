"""The executor: a stateless shell around the loop. What it holds, it can lose.

`Executor` is all that the service, the embedded orchestrator and the simulator see of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from stepwell.core.loop.signals import (
    AnyCommand,
    AppendMessages,
    Begin,
    Delivery,
    Fork,
    LeaseExpired,
    Reply,
    Start,
)
from stepwell.core.port import Presence, Record, Renewal, Runtime, Store, WorkerLease, WorkerPort
from stepwell.core.records.errors import StoreError
from stepwell.core.records.model import Payload, Session
from stepwell.core.records.states import BlockedKind, StepKind
from stepwell.engine.appender import AppendBatch, Appender
from stepwell.engine.clock import StoreTime
from stepwell.engine.committer import Committer
from stepwell.engine.dispatcher import Dispatcher, Timing, WorkerConnection
from stepwell.engine.last_heartbeat import with_last_words
from stepwell.engine.payloads import PayloadCache
from stepwell.engine.runs import RunKey, Runs
from stepwell.engine.shares import QueueShares


class ExecutorConfig(Record, frozen=True, kw_only=True):
    """How an executor behaves; every duration in milliseconds."""

    lease_ms: int = 30_000
    poll_ms: int = 1_000
    hold_ms: int = 2_000
    presence_ms: int = 5_000
    stickiness_ms: int = 100
    hot_runs_max: int = 10_000
    payload_cache_bytes_max: int = 64 * 1024 * 1024
    queue_limits: tuple[tuple[str, int], ...] = ()
    """Names of queues, and how many steps of each may be leased at once, for each tenant."""

    @property
    def heartbeat_ms(self) -> int:
        """How often a worker should send heartbeats: three may be lost."""
        return max(100, self.lease_ms // 4)


class Heartbeat(Record, frozen=True, kw_only=True):
    """A sign of life for one lease, as a worker gives it."""

    run_id: str
    execution_id: str
    token: str
    progress: Payload | None = None
    session: Session = Session()


class HeldLease(Record, frozen=True, kw_only=True):
    """A lease that a worker says it holds."""

    run_id: str
    execution_id: str
    token: str


class Executor:
    """Runs the loop of every run that comes its way, over one store."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        config: ExecutorConfig | None = None,
        *,
        replica_id: str = "",
    ) -> None:
        self.config = config or ExecutorConfig()
        self.replica_id = replica_id or runtime.new_id()
        self.store = store
        self._runtime = runtime
        self._clock = StoreTime(runtime)
        self._committer = Committer(store, runtime)
        self._payloads = PayloadCache(store, bytes_max=self.config.payload_cache_bytes_max)
        self._runs = Runs(
            store,
            self._committer,
            runtime,
            self._clock,
            lease_ms=self.config.lease_ms,
            hot_max=self.config.hot_runs_max,
        )
        timing = Timing(
            poll_ms=self.config.poll_ms,
            hold_ms=self.config.hold_ms,
            stickiness_ms=self.config.stickiness_ms,
        )
        self._shares = QueueShares(dict(self.config.queue_limits), self.replica_id)
        self._dispatcher = Dispatcher(
            store, self._runs, self._payloads, runtime, self._clock, timing, self._shares
        )
        self._runs.bind(self._dispatcher)
        self._writing = Appender(store, self._runs, runtime, self._clock)
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: Callable[[], None] | None = None

    # --- life ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to claim. Everything else works without."""
        self._unsubscribe = self.store.subscribe(self._dispatcher.hint)
        self._tasks = [
            self._runtime.spawn(self._dispatcher.run(), name="claim"),
            self._runtime.spawn(self._say_presence(), name="presence"),
        ]

    def on_run_end(self, ended: Callable[[str, str], None]) -> None:
        """Call `ended(tenant_id, run_id)` whenever this replica has committed a run's end."""
        self._runs.on_ended = ended

    async def quiet(self) -> None:
        """Wait until no commit is under way here."""
        await self._runs.quiet()

    async def drain(self) -> None:
        """Give out no more leases and finish every commit that was begun."""
        self._dispatcher.stop()
        await self._runs.quiet()

    async def close(self) -> None:
        """Stop at once; whatever isn't committed was never acknowledged."""
        self._dispatcher.stop()
        self._runs.close()
        self._committer.close()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    @property
    def stats(self) -> dict[str, int]:
        """Counts since the start, by name, for metrics."""
        return dict(self._runs.stats)

    def blocked_counts(self) -> Mapping[BlockedKind, int]:
        """Return the number of runs in this replica's memory by what they wait for, for metrics."""
        return self._runs.blocked_counts()

    @property
    def connected(self) -> Sequence[Presence]:
        """The workers connected to this replica."""
        return [
            replace(session.port.presence, credits=session.credits)
            for session in self._dispatcher.sessions
        ]

    # --- commands and deliveries ------------------------------------------------------------------

    async def send(self, tenant_id: str, run_id: str, command: Start | Fork | AnyCommand) -> Reply:
        """Carry out a command. The reply is true once this returns: it comes after the commit.

        Raises:
            RunNotFound: there is no such run.
            StoreUnavailable: nothing was done.
        """
        reply = await asyncio.shield(self._runs.post((tenant_id, run_id), command))
        if not isinstance(command, Start | Fork):
            self._dispatcher.wake()
        return reply

    def deliver(
        self, tenant_id: str, run_id: str, delivery: Delivery | AppendMessages | Begin
    ) -> asyncio.Future[Reply]:
        """Take an outcome, messages, or word that an AT_MOST_ONCE step begins. The future is the answer."""
        self._runs.stats["deliveries"] += 1
        key = (tenant_id, run_id)
        reply = self._runs.post(key, delivery)
        if isinstance(delivery, Delivery) and delivery.streamed:
            reply.add_done_callback(partial(self._writing.collapse, key, delivery))
        return reply

    async def append(self, tenant_id: str, written: Sequence[AppendBatch]) -> Sequence[bool]:
        """Keep what steps write while they work; False for each whose lease is lost."""
        return await self._writing.append(tenant_id, written)

    def now_us(self) -> int:
        """Return the store's time, about."""
        return self._clock.now_us()

    async def heartbeat(self, tenant_id: str, beats: Sequence[Heartbeat]) -> Sequence[bool]:
        """Renew leases; False for each that is lost."""
        renewals = [
            Renewal(
                tenant_id=tenant_id,
                run_id=beat.run_id,
                execution_id=beat.execution_id,
                token=beat.token,
                lease_ms=await self._lease_ms((tenant_id, beat.run_id), beat.execution_id),
                progress=beat.progress,
                session=beat.session,
            )
            for beat in beats
        ]
        return await self.store.renew(renewals)

    async def _lease_ms(self, key: RunKey, execution_id: str) -> int:
        """Return how long the lease is, by the task's own heartbeat time-out where it has one."""
        state = await self._runs.state(key)
        row = state.open.get(execution_id) if state is not None else None
        if state is None or row is None or row.execution.kind is not StepKind.TASK:
            return self.config.lease_ms
        spec = state.graph.specs[row.execution.task_id]
        return spec.heartbeat_timeout_ms or self.config.lease_ms

    def forget(self, tenant_id: str, run_id: str) -> None:
        """Let go of a run that was deleted."""
        self._runs.forget((tenant_id, run_id))

    def wake(self) -> None:
        """Claim soon rather than at the next poll: something may be due."""
        self._dispatcher.wake()

    # --- workers --------------------------------------------------------------------------------------

    async def attach(
        self, port: WorkerPort, held: Sequence[HeldLease]
    ) -> tuple[WorkerConnection, Sequence[bool]]:
        """Connect a worker; returns its session, and for each lease it holds whether it still is.

        The newest instance wins: an older one's session ends, and the leases it held that aren't
        listed are over at once, each with its attempt spent (it may have died of them). A lease of
        this very instance that isn't listed never reached it and is released.
        """
        presence = port.presence
        self._evict(presence)
        session = WorkerConnection(port)
        leases = await self.store.list_leases(presence.tenant_id, presence.worker_id)
        tokens = {one.token for one in held}
        for lease in leases:
            if lease.token in tokens:
                session.holds[lease.run_id, lease.execution_id] = lease.token
            else:
                await self._end_lease(presence, lease)
        await self._take_shares(presence, session)
        # Another stream of this worker may have come while the store was asked.
        self._evict(presence)
        self._dispatcher.add(session)
        try:
            await self._tell_presence([presence], ttl_ms=self._presence_ttl_ms)
            await self._divide_shares()
        except BaseException:
            # Its stream is gone already, and nobody else has the session to detach it.
            self._dispatcher.remove(session)
            raise
        live = {(lease.run_id, lease.execution_id, lease.token) for lease in leases}
        return session, [(h.run_id, h.execution_id, h.token) in live for h in held]

    def _evict(self, presence: Presence) -> None:
        for session in tuple(self._dispatcher.sessions):
            if (
                session.tenant_id == presence.tenant_id
                and session.port.presence.worker_id == presence.worker_id
            ):
                self._dispatcher.remove(session)
                session.port.replaced()

    async def _end_lease(self, presence: Presence, lease: WorkerLease) -> None:
        key = (presence.tenant_id, lease.run_id)
        if lease.instance_id == presence.instance_id:
            words = "it never reached its worker"
            never_came = LeaseExpired(
                execution_id=lease.execution_id, token=lease.token, reason=words, undelivered=True
            )
            self._runs.insist(key, never_came, pause_s=self.config.poll_ms / 1_000)
        else:
            words = f"worker {presence.worker_id!r} was restarted and does not hold it any more"
            expired = LeaseExpired(execution_id=lease.execution_id, token=lease.token, reason=words)
            for one in await with_last_words(self.store, *key, [expired]):
                self._runs.post(key, one)

    def credit(self, session: WorkerConnection, count: int) -> None:
        """Note that a worker has room for `count` more steps."""
        self._dispatcher.credit(session, count)

    async def detach(self, session: WorkerConnection) -> None:
        """Note that a worker's stream is gone; its leases stay until they expire."""
        if session.closed:
            return
        self._dispatcher.remove(session)
        await self._tell_presence([session.port.presence], ttl_ms=0)

    @property
    def _presence_ttl_ms(self) -> int:
        return 3 * self.config.presence_ms

    async def _say_presence(self) -> None:
        while True:
            await self._runtime.sleep(self.config.presence_ms / 1_000)
            await self._tell_presence(self.connected, ttl_ms=self._presence_ttl_ms)
            await self._divide_shares()

    async def _take_shares(self, presence: Presence, session: WorkerConnection) -> None:
        """Count what a worker brings along against the limits of its queues."""
        if not self._shares.any:
            return
        for run_id, execution_id in tuple(session.holds):
            state = await self._runs.state((presence.tenant_id, run_id))
            if state is not None:
                queue = state.run.spec.queue
                self._shares.take(presence.tenant_id, queue, (run_id, execution_id))

    async def _divide_shares(self) -> None:
        """Look who else serves the limited queues, and which leases are over that ended elsewhere."""
        if not self._shares.any:
            return
        for tenant_id in {session.tenant_id for session in self._dispatcher.sessions}:
            workers = {
                session.port.presence.worker_id
                for session in self._dispatcher.sessions
                if session.tenant_id == tenant_id
            }
            with suppress(StoreError):
                presences = await self.store.list_presence(tenant_id)
                self._shares.divide(tenant_id, presences, now_us=self._clock.now_us())
                before = self._shares.out(tenant_id) - self._dispatcher.uncommitted(tenant_id)
                leases = [await self.store.list_leases(tenant_id, worker) for worker in workers]
                live = frozenset(
                    (one.run_id, one.execution_id) for found in leases for one in found
                )
                # What was granted meanwhile, or was being committed, is not among those looked up.
                self._shares.drop(tenant_id, before - live)

    async def _tell_presence(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        """Presence is for people's eyes: that it can't be written now stops nothing."""
        if presences:
            with suppress(StoreError):
                await self.store.put_presence(presences, ttl_ms=ttl_ms)
