"""The executor: a shell around the loop. All state in its memory can be lost and loaded again. The
service, the embedded orchestrator and the simulator use `Executor` and nothing else of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from stepwell.core.loop.loss_allowance import name_of
from stepwell.core.loop.occurrences import (
    AnyCommand,
    AppendMessages,
    Begin,
    Delivery,
    Fork,
    LeaseExpired,
    SendSignal,
    Start,
    StartInThread,
)
from stepwell.core.loop.state import RunState
from stepwell.core.loop.thread_occurrences import ChangePlace, CopyMessages, RunLeft
from stepwell.core.loop.transition import Reply
from stepwell.core.port import (
    LeaseQuery,
    Presence,
    Record,
    Renewal,
    Runtime,
    Store,
    WorkerLease,
    WorkerPort,
)
from stepwell.core.records.errors import StoreStopped
from stepwell.core.records.journal_answers import JournalAnswer
from stepwell.core.records.model import Payload, Session
from stepwell.core.records.states import BlockedKind, ExecutionStatus, RunStatus, StepKind
from stepwell.engine.appender import AppendBatch, Appender
from stepwell.engine.assigner import Assigner
from stepwell.engine.claims import Claims, Timing
from stepwell.engine.clock import StoreTime
from stepwell.engine.committer import Committer
from stepwell.engine.demand import Demand
from stepwell.engine.journal_writer import JournalWriter, NewEntries
from stepwell.engine.journals import JournalReader
from stepwell.engine.key_types import RunKey
from stepwell.engine.last_heartbeat import with_last_heartbeats
from stepwell.engine.payloads import PayloadCache
from stepwell.engine.presence import PresenceReporter
from stepwell.engine.results import ResultReader, ResultsPage, ResultsQuery
from stepwell.engine.runs import Runs
from stepwell.engine.slots import QueueSlots
from stepwell.engine.thread_reader import ThreadPage, ThreadQuery, ThreadReader
from stepwell.engine.verdicts import CommitObserver
from stepwell.engine.worker_deaths import Deaths
from stepwell.engine.workers import WorkerConnection, Workers
from stepwell.logger import get_logger

log = get_logger(__name__)


class ExecutorConfig(Record, frozen=True, kw_only=True):
    """Settings of an executor; every duration is in milliseconds."""

    lease_ms: int = 30_000
    poll_ms: int = 1_000
    hold_ms: int = 2_000
    presence_ms: int = 5_000
    stickiness_ms: int = 500
    hot_runs_max: int = 10_000
    payload_cache_bytes_max: int = 64 * 1024 * 1024
    queue_limits: tuple[tuple[str, int], ...] = ()
    """Names of limited queues, each with the number of steps that a tenant may have leased at once."""

    @property
    def heartbeat_ms(self) -> int:
        """The interval of a worker's heartbeats: three of them may be lost."""
        return max(100, self.lease_ms // 4)


class Heartbeat(Record, frozen=True, kw_only=True):
    """A worker's heartbeat for one of its leases."""

    run_id: str
    execution_id: str
    token: str
    progress: Payload | None = None
    session: Session = Session()
    idle_ms: int | None = None
    """The time without activity of its function, by its worker's clock. None: since its lease began."""


class HeldLease(Record, frozen=True, kw_only=True):
    """A lease that a connecting worker says it holds."""

    run_id: str
    execution_id: str
    token: str


class Executor:
    """Runs the loop of every run that is sent to it, over one store."""

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
        self.runtime = runtime
        self._clock = StoreTime(runtime)
        self._committer = Committer(store, runtime)
        payloads = PayloadCache(store, bytes_max=self.config.payload_cache_bytes_max)
        demand = Demand(runtime, stickiness_ms=self.config.stickiness_ms)
        slots = QueueSlots(store, runtime, dict(self.config.queue_limits), demand.wake)
        self._demand = demand
        self._workers = Workers(runtime, demand, slots)
        assigner = Assigner(
            store,
            self._workers,
            payloads,
            runtime,
            self._clock,
            retry_pause_ms=self.config.poll_ms,
        )
        self._runs = Runs(
            store,
            self._committer,
            self._workers,
            assigner,
            slots,
            runtime,
            self._clock,
            lease_ms=self.config.lease_ms,
            retry_pause_ms=self.config.poll_ms,
            stickiness_ms=self.config.stickiness_ms,
            hot_max=self.config.hot_runs_max,
        )
        self._deaths = Deaths(
            store, self._runs, self._workers, runtime, presence_ms=self.config.presence_ms
        )
        timing = Timing(poll_ms=self.config.poll_ms, hold_ms=self.config.hold_ms)
        self._claims = Claims(
            store,
            self._runs,
            self._workers,
            demand,
            slots,
            runtime,
            self._clock,
            timing,
            self._deaths,
        )
        self._appender = Appender(store, self._runs, runtime, self._clock)
        self._results = ResultReader(store, self._runs, payloads)
        self._threads = ThreadReader(store, self._runs)
        self._journal_writer = JournalWriter(store, self._runs, runtime, self._clock)
        self.journals = JournalReader(store, self._runs, self._clock)
        """Reads journals of steps."""
        self._presence = PresenceReporter(
            store, self._workers, slots, runtime, interval_ms=self.config.presence_ms
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: Callable[[], None] | None = None

    # --- start and end
    # --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to claim and to report presence; all other methods also work without."""
        self._unsubscribe = self.store.subscribe(self._hint)
        self._tasks = [
            self.runtime.spawn(self._claims.run(), name="claim"),
            self.runtime.spawn(self._presence.run(), name="presence"),
        ]

    def _hint(self, tenant_id: str, run_id: str, version: int) -> None:
        self._claims.hint(tenant_id, run_id, version)
        self._runs.key_waits.hint(tenant_id, run_id, version)

    def observe(self, observer: CommitObserver) -> None:
        """Notify an observer of the verdicts on this replica's commits, from now on."""
        self._runs.verdicts.observer = observer

    def committing(self, tenant_id: str, run_id: str) -> int:
        """Return the version of a run that is being committed here, or 0."""
        return self._runs.committing((tenant_id, run_id))

    async def quiet(self) -> None:
        """Wait until no commit is in progress here."""
        await self._runs.quiet()

    async def drain(self) -> None:
        """Grant no more leases; deliver the letters that are under way, and finish every commit in progress."""
        self._stop_granting()
        await self._runs.letters.idle()
        await self._runs.quiet()

    async def close(self) -> None:
        """Stop at once; nothing uncommitted was acknowledged."""
        self._stop_granting()
        self._runs.close()
        self._committer.close()
        self._journal_writer.close()
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    def _stop_granting(self) -> None:
        self._workers.stop()
        self._claims.stop()

    @property
    def store_stopped(self) -> StoreStopped | None:
        """Return the error of a store that has stopped, or None."""
        return self._presence.store_stopped

    @property
    def stats(self) -> dict[str, int]:
        """Counts since the start, by name, for metrics."""
        return dict(self._runs.verdicts.stats)

    def blocked_counts(self) -> Mapping[BlockedKind, int]:
        """Return the number of runs in this replica's memory by the reason why they wait, for metrics."""
        return self._runs.blocked_counts()

    def run_counts(self) -> Mapping[tuple[str, RunStatus], int]:
        """Return the number of runs in this replica's memory by tenant and status."""
        return self._runs.run_counts()

    @property
    def connected(self) -> Sequence[Presence]:
        """The workers connected to this replica."""
        return [connection.presence for connection in self._workers.connections]

    def input_schema(self, worker: Presence) -> str:
        """Return the JSON schema of inputs that a worker gave when it connected to this replica; empty if none."""
        found = self._workers.find(worker.tenant_id, worker.worker_id)
        if found is None or found.presence.instance_id != worker.instance_id:
            return ""
        return found.input_schema

    # --- commands and deliveries ------------------------------------------------------------------

    async def send(
        self,
        tenant_id: str,
        run_id: str,
        command: Start | StartInThread | Fork | RunLeft | CopyMessages | ChangePlace | AnyCommand,
    ) -> Reply:
        """Execute a command; return its reply, with the run after the command, once that is committed.

        Raises:
            RunNotFound: there is no such run.
            StoreUnavailable: nothing was done.
        """
        reply = await self._runs.post((tenant_id, run_id), command)
        # A commit of these writes each step that it makes ready, and so wakes the claim loop itself.
        if not isinstance(command, Start | StartInThread | Fork | SendSignal):
            self._demand.wake()
        return reply

    def deliver(
        self, tenant_id: str, run_id: str, delivery: Delivery | AppendMessages | Begin
    ) -> asyncio.Future[Reply]:
        """Apply a delivery, messages, or the begin of an AT_MOST_ONCE step; return a future of the reply."""
        self._runs.verdicts.stats["deliveries"] += 1
        return self._runs.post((tenant_id, run_id), delivery)

    def pass_on(
        self,
        tenant_id: str,
        run_id: str,
        delivery: Delivery | Begin,
        answered: Callable[[Reply | Exception], None],
    ) -> None:
        """Apply a delivery or a begin; later call `answered` once with the reply, or an error."""
        self._runs.verdicts.stats["deliveries"] += 1
        self._runs.pass_on((tenant_id, run_id), delivery, answered)

    async def append(self, tenant_id: str, written: Sequence[AppendBatch]) -> Sequence[bool]:
        """Append the output of running steps; return False for each whose lease is lost."""
        return await self._appender.append(tenant_id, written)

    def write_journal(
        self,
        tenant_id: str,
        one: NewEntries,
        answered: Callable[[JournalAnswer | Exception], None],
    ) -> None:
        """Write journal entries of a step; later call `answered` once with the result, or an error."""
        self._journal_writer.write(tenant_id, one, answered)

    async def read_results(self, tenant_id: str, query: ResultsQuery) -> ResultsPage | None:
        """Return results that a running step reads, or None if its lease is lost."""
        return await self._results.read(tenant_id, query)

    async def read_thread(self, tenant_id: str, query: ThreadQuery) -> ThreadPage | None:
        """Return what a running step reads of its run's thread, or None if its lease is lost."""
        return await self._threads.read(tenant_id, query)

    def now_us(self) -> int:
        """Return this replica's estimate of the store's time."""
        return self._clock.now_us()

    async def heartbeat(self, tenant_id: str, beats: Sequence[Heartbeat]) -> Sequence[bool]:
        """Renew leases, and end those of functions that were idle for too long; return False for each lost lease."""
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
        renewed = await self.store.renew(renewals)
        for beat, live in zip(beats, renewed, strict=True):
            if live and beat.idle_ms != 0:
                await self._end_idle((tenant_id, beat.run_id), beat)
        return renewed

    async def _end_idle(self, key: RunKey, beat: Heartbeat) -> None:
        """End a lease whose function was idle for longer than its task allows; its worker is then notified."""
        state = await self._runs.state(key)
        row = state.open.get(beat.execution_id) if state is not None else None
        if state is None or row is None or row.execution.status is not ExecutionStatus.LEASED:
            return
        execution = row.execution
        spec = state.graph.specs[execution.task_id] if execution.kind is StepKind.TASK else None
        if spec is None or not spec.idle_timeout_ms:
            return
        idle_ms = beat.idle_ms
        if idle_ms is None:
            idle_ms = (self._clock.now_us() - execution.leased_us) // 1_000
        if idle_ms < spec.idle_timeout_ms:
            return
        expired = LeaseExpired(
            execution_id=beat.execution_id,
            token=beat.token,
            timed_out=True,
            reason=f"its function did nothing for {spec.idle_timeout_ms / 1_000:g} s",
        )
        for ended in await with_last_heartbeats(self.store, *key, [expired]):
            self._runs.post(key, ended.occurrence)

    async def _lease_ms(self, key: RunKey, execution_id: str) -> int:
        """Return a lease's length: the task's heartbeat time-out, or the configured length."""
        state = await self._runs.state(key)
        row = state.open.get(execution_id) if state is not None else None
        if state is None or row is None or row.execution.kind is not StepKind.TASK:
            return self.config.lease_ms
        spec = state.graph.specs[row.execution.task_id]
        return spec.heartbeat_timeout_ms or self.config.lease_ms

    def held(self, tenant_id: str, run_id: str) -> RunState | None:
        """Return a run's state if this replica holds it; it may be behind the store's."""
        return self._runs.held((tenant_id, run_id))

    async def deliver_letters(self, tenant_id: str, run_id: str) -> None:
        """Deliver the letters of a run, or of a thread, as far as that is possible now, as before it is deleted."""
        await asyncio.shield(self._runs.letters.deliver((tenant_id, run_id)))

    def forget(self, tenant_id: str, run_id: str) -> None:
        """Drop a deleted run from memory."""
        self._runs.forget((tenant_id, run_id))

    def wake(self) -> None:
        """Claim soon instead of at the next poll, because something may be due."""
        self._demand.wake()

    # --- workers --------------------------------------------------------------------------------------

    async def attach(
        self, port: WorkerPort, held: Sequence[HeldLease], *, input_schema: str = ""
    ) -> tuple[WorkerConnection, Sequence[bool]]:
        """Connect a worker; return its connection, and for each held lease whether it is still valid.

        The newest instance wins: an older instance's connection ends, and its leases that aren't
        listed end at once as losses, because their steps may have killed it. An unlisted lease of
        this instance never reached it and is released.

        `input_schema` is kept for requests to this replica; the presence that is written to the
        store every few seconds doesn't include it.
        """
        presence = port.presence
        self._evict(presence)
        connection = WorkerConnection(
            port, connected_us=self._clock.now_us(), input_schema=input_schema
        )
        leases = (
            await self.store.page(
                LeaseQuery(tenant_id=presence.tenant_id, worker_id=presence.worker_id)
            )
        ).items
        tokens = {one.token for one in held}
        connected: frozenset[str] | None = None
        for lease in leases:
            if lease.token in tokens:
                connection.leases[lease.run_id, lease.execution_id] = lease.token
            elif lease.instance_id == presence.instance_id:
                self._release_undelivered(presence, lease)
            else:
                old = name_of(presence.worker_id, lease.instance_id)
                if connected is None:
                    connected = await self._deaths.connected(presence.tenant_id) or frozenset()
                await self._lose_lease(presence, lease, connected - {old})
        # Another stream of this worker may have come during the read of the store.
        self._evict(presence)
        self._workers.add(connection)
        try:
            await self._presence.report([connection.presence])
        except BaseException:
            # The stream is gone already, so no caller has the connection to detach it.
            self._workers.remove(connection)
            raise
        live = {(lease.run_id, lease.execution_id, lease.token) for lease in leases}
        return connection, [(h.run_id, h.execution_id, h.token) in live for h in held]

    def _evict(self, presence: Presence) -> None:
        while (old := self._workers.find(presence.tenant_id, presence.worker_id)) is not None:
            self._workers.remove(old)
            old.port.replaced()

    def _release_undelivered(self, presence: Presence, lease: WorkerLease) -> None:
        log.info(
            "a step never reached its worker, and is given out again",
            worker_id=presence.worker_id,
            run_id=lease.run_id,
            execution_id=lease.execution_id,
        )
        undelivered = LeaseExpired(
            execution_id=lease.execution_id,
            token=lease.token,
            reason="it never reached its worker",
            undelivered=True,
        )
        self._runs.post_until_accepted((presence.tenant_id, lease.run_id), undelivered)

    async def _lose_lease(
        self, presence: Presence, lease: WorkerLease, connected: frozenset[str]
    ) -> None:
        key = (presence.tenant_id, lease.run_id)
        reason = f"worker {presence.worker_id!r} was restarted and does not hold it any more"
        expired = LeaseExpired(execution_id=lease.execution_id, token=lease.token, reason=reason)
        ended = await with_last_heartbeats(self.store, *key, [expired])
        for occurrence in await self._deaths.judged(key, ended, connected):
            self._runs.post(key, occurrence)

    def credit(self, connection: WorkerConnection, count: int) -> None:
        """Add to the number of steps that a worker may be assigned.

        `claim_for_free` comes after the outcomes of the same message: their commits lease the steps
        that follow, and a claim before them would give the worker's place to another run.
        """
        self._workers.credit(connection, count)

    def claim_for_free(self) -> None:
        """Claim READY steps for workers that have credits left after the decisions that were posted."""
        self._workers.claim_for_free()

    def revoke_credits(self, connection: WorkerConnection) -> None:
        """Assign a worker no more steps, because it drains. It may still report or hand back its steps."""
        self._workers.revoke_credits(connection)

    async def detach(self, connection: WorkerConnection) -> None:
        """Disconnect a worker whose stream is gone; its leases stay until they expire."""
        if connection.closed:
            return
        self._workers.remove(connection)
        await self._presence.withdraw(connection.port.presence)
