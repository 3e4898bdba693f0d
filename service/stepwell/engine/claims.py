"""Claims ready steps and due items:

READY steps, expired leases and timers. There is no other scan. Most steps are leased in the commit
that makes them ready. The claim finds the others: steps for which no worker was free, and steps
that other replicas made ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepwell.core.loop.idempotency import MORE_TIMER
from stepwell.core.loop.leases import SUSPECT
from stepwell.core.loop.letters import TIMER as LETTERS_TIMER
from stepwell.core.loop.loss_allowance import AWAITED
from stepwell.core.loop.occurrences import LeaseExpired, Occurrence, TimerDue
from stepwell.core.loop.slots import NO_SLOT
from stepwell.core.loop.transition import Reply
from stepwell.core.port import Claim, Due, ReadyStep, Runtime, Store, Want
from stepwell.core.records.errors import StepwellError, StoreError
from stepwell.core.records.states import DueKind
from stepwell.engine.clock import StoreTime
from stepwell.engine.demand import Demand
from stepwell.engine.isolation import SuspectSteps
from stepwell.engine.key_types import QueueKey, RunKey
from stepwell.engine.last_heartbeat import expired_of
from stepwell.engine.runs import Runs
from stepwell.engine.slots import QueueSlots
from stepwell.engine.worker_deaths import Deaths
from stepwell.engine.workers import WorkerConnection, Workers
from stepwell.logger import get_logger

log = get_logger(__name__)

HINT_PAUSE_SECONDS = 0.01
"""The minimum pause between hint-triggered claims after an empty claim; doubles up to
HINT_PAUSE_SECONDS_MAX. If several replicas work on a run, each commit of one is a hint to all."""
HINT_PAUSE_SECONDS_MAX = 0.08


class Timing(NamedTuple):
    """Intervals of the claim loop, in milliseconds."""

    poll_ms: int = 1_000
    """The longest time between two claims; hints and due times shorten it."""
    hold_ms: int = 2_000
    """No replica claims the same step or expired lease again within this time."""


class _Unleased(NamedTuple):
    """A claimed step whose worker got another step during the claim, or whose slot another run got."""

    step: ReadyStep
    connections: Sequence[WorkerConnection]
    queue: str
    held_until: float


class Claims:
    """Claims for the connected workers, repeatedly."""

    def __init__(
        self,
        store: Store,
        runs: Runs,
        workers: Workers,
        demand: Demand,
        slots: QueueSlots,
        runtime: Runtime,
        clock: StoreTime,
        timing: Timing,
        deaths: Deaths,
    ) -> None:
        self._store = store
        self._runs = runs
        self._workers = workers
        self._demand = demand
        self._slots = slots
        self._runtime = runtime
        self._clock = clock
        self._timing = timing
        self._deaths = deaths
        self._suspects = SuspectSteps(store, runs, workers, deaths, runtime, poll_ms=timing.poll_ms)
        self._unleased: list[_Unleased] = []
        self._stopping = False
        self._last_error = ""
        self._hinted = False
        self._hints_count_from = 0.0
        self._hint_pause_s = HINT_PAUSE_SECONDS

    def stop(self) -> None:
        """Stop claiming."""
        self._stopping = True
        self._demand.wake_idle()

    def hint(self, tenant_id: str, run_id: str, version: int) -> None:
        """Note a hint of the store; this replica's own changes cause no claim."""
        if self._runs.is_news((tenant_id, run_id), version):
            self._slots.hint((tenant_id, run_id))
            self._hinted = True
            self._demand.more_ready = True
            if self._runtime.monotonic() >= self._hints_count_from:
                self._demand.wake()

    async def run(self) -> None:
        """Claim whenever there is a reason to, until stopped."""
        while not self._stopping:
            self._demand.clear()
            self._hinted = False
            wait_ms = self._timing.poll_ms
            try:
                wait_ms = await self._claim()
            except StoreError as error:
                self._log_failure(error)
            else:
                self._log_success()
            await self._rest(wait_ms)

    async def _rest(self, wait_ms: float) -> None:
        """Wait for a reason to claim: a due time, a wake, or a hint."""
        early_ms = (self._hints_count_from - self._runtime.monotonic()) * 1_000
        if 0 < early_ms < wait_ms:
            if await self._demand.wait(early_ms, self._any_free) or self._hinted:
                return
            wait_ms -= early_ms
        if not await self._demand.wait(wait_ms, self._any_free):
            self._demand.more_ready = True

    def _any_free(self) -> bool:
        return self._workers.any_free

    def _log_failure(self, error: StoreError) -> None:
        # Logged once for each cause instead of once a second.
        if error.message != self._last_error:
            log.warning("claims fail; they are tried again", error=error.message)
        self._last_error = error.message

    def _log_success(self) -> None:
        if self._last_error:
            log.info("claims work again")
        self._last_error = ""

    async def _claim(self) -> int:
        """Claim once; return the milliseconds until the next claim, unless something happens before."""
        for stuck in await self._slots.scan(self._wanted_queues()):
            self._post(stuck, TimerDue(name=MORE_TIMER))
        self._lease_held()
        groups = self._groups() if self._demand.more_ready else []
        request = Claim(wants=tuple(want for want, _ in groups), hold_ms=self._timing.hold_ms)
        held_until = self._runtime.monotonic() + self._timing.hold_ms / 1_000
        claimed = await self._store.claim(request)
        self._clock.observe(claimed.now_us)
        if self._stopping:
            return 0
        self._post_due(claimed.due)
        self._pace_hints(empty=not claimed.due and not any(claimed.ready))
        more = False
        for (want, connections), steps in zip(groups, claimed.ready, strict=True):
            full = len(steps) >= want.limit
            more = more or full
            for queue in want.queues:
                self._demand.claimed((want.tenant_id, queue), full=full)
                if self._slots.limit(queue):
                    self._slots.claimed((want.tenant_id, queue), full=full)
            for step in steps:
                self._lease(step, connections, want.queues[0], held_until)
        if groups:
            self._demand.more_ready = more
        if len(claimed.due) >= request.due_limit or (more and self._slots.any):
            return 0
        poll_ms = self._timing.poll_ms
        return poll_ms if claimed.next_due_ms < 0 else min(poll_ms, max(1, claimed.next_due_ms))

    def _pace_hints(self, *, empty: bool) -> None:
        if not empty:
            self._hint_pause_s = HINT_PAUSE_SECONDS
            return
        self._hints_count_from = self._runtime.monotonic() + self._hint_pause_s
        self._hint_pause_s = min(2 * self._hint_pause_s, HINT_PAUSE_SECONDS_MAX)

    # --- ready steps --------------------------------------------------------------------------------

    def _groups(self) -> list[tuple[Want, list[WorkerConnection]]]:
        """Return one want for all workers that take the same steps."""
        by_offer: dict[tuple[object, ...], list[WorkerConnection]] = {}
        for connection in sorted(self._workers.connections, key=lambda one: one.lapses):
            if connection.is_free:
                p = connection.port.presence
                offer = (p.tenant_id, p.queues, p.kinds, p.tasks, p.version)
                by_offer.setdefault(offer, []).append(connection)
        groups: list[tuple[Want, list[WorkerConnection]]] = []
        for connections in by_offer.values():
            p = connections[0].port.presence
            want = Want(
                tenant_id=p.tenant_id,
                queues=p.queues,
                kinds=p.kinds,
                tasks=p.tasks,
                version=p.version,
                limit=sum(connection.credits for connection in connections),
            )
            groups.append((want, connections))
        # A claim asks for at most as many steps of a limited queue as it has free slots.
        asked = self._slots.ask([want for want, _ in groups])
        return [(want, groups[position][1]) for want, position in asked]

    def _wanted_queues(self) -> set[QueueKey]:
        """Return the limited queues of free workers, if steps may be waiting."""
        if not (self._slots.any and (self._demand.more_ready or self._unleased)):
            return set()
        free = [one.port.presence for one in self._workers.connections if one.is_free]
        named = ((p.tenant_id, queue) for p in free for queue in p.queues)
        return {key for key in named if self._slots.limit(key[1])}

    def _lease_held(self) -> None:
        """Lease the steps of earlier claims that are still held for this replica."""
        unleased, self._unleased = self._unleased, []
        now = self._runtime.monotonic()
        for step, connections, queue, held_until in unleased:
            if now < held_until:
                self._lease(step, connections, queue, held_until)

    def _lease(
        self,
        step: ReadyStep,
        connections: Sequence[WorkerConnection],
        queue: str,
        held_until: float,
    ) -> None:
        key = (step.tenant_id, step.run_id)
        grant = None
        if free := [one for one in connections if one.is_free]:
            connection = max(free, key=lambda one: (-one.lapses, one.credits))
            # A limited queue is claimed separately, so the step is known to be of this queue.
            grant = self._workers.grant_claimed(connection, key, step.execution_id, queue)
        if grant is None:
            # Steps that keep their places may have been leased since the claim asked for as many as
            # there were free places.
            self._unleased.append(_Unleased(step, connections, queue, held_until))
            self._demand.more_ready = True
            return
        reply = self._runs.post_claimed(key, grant)

        def settle(done: asyncio.Future[Reply]) -> None:
            # An assigned lease is no longer an open grant. All other grants return their credit,
            # whatever the reply: the lease may have ended in the same commit that granted it.
            answered = not done.cancelled() and done.exception() is None
            self._workers.return_grants([grant.token], uncertain=not answered)
            if answered and done.result().reason == SUSPECT and not self._stopping:
                self._suspects.place(step, connections, queue)
            elif answered and done.result().reason == NO_SLOT:
                self._unleased.append(_Unleased(step, connections, queue, held_until))
                self._demand.wake()

        reply.add_done_callback(settle)

    # --- due items --------------------------------------------------------------------------------

    def _post_due(self, due: Sequence[Due]) -> None:
        """Post timers to their runs, and expired leases once their last heartbeats were read."""
        expired: dict[RunKey, list[Due]] = {}
        for one in due:
            key = (one.tenant_id, one.run_id)
            if one.kind is DueKind.TIMER and one.name == LETTERS_TIMER:
                self._runs.letters.deliver(key)
            elif one.kind is DueKind.TIMER:
                self._post(key, TimerDue(name=one.name))
            else:
                expired.setdefault(key, []).append(one)
        if expired:
            self._runtime.spawn(self._expire_all(expired), name="expire")

    async def _expire_all(self, expired: Mapping[RunKey, Sequence[Due]]) -> None:
        try:
            connected = {
                tenant_id: await self._deaths.connected(tenant_id)
                for tenant_id in dict.fromkeys(key[0] for key in expired)
            }
        except StoreError as error:
            log.warning("expired leases are left for now", error=error.message)
            return
        for key, leases in expired.items():
            self._runtime.spawn(self._expire(key, leases, connected[key[0]]), name="expire")

    async def _expire(
        self, key: RunKey, leases: Sequence[Due], connected: frozenset[str] | None
    ) -> None:
        try:
            ended = await expired_of(self._store, *key, leases)
            occurrences = await self._deaths.judged(key, ended, connected)
        except StoreError as error:
            # The claim returns them again when its hold is over.
            log.warning("expired leases are left for now", run_id=key[1], error=error.message)
            return
        if not self._stopping:
            for lease in ended:
                if not lease.occurrence.timed_out:
                    self._workers.lapsed((key[0], lease.worker_id, lease.instance_id))
            for one in occurrences:
                self._end_lease(key, one)

    def _end_lease(self, key: RunKey, expired: LeaseExpired) -> None:
        def wait_if_needed(done: asyncio.Future[Reply]) -> None:
            answered = not done.cancelled() and done.exception() is None
            if answered and done.result().reason == AWAITED and not self._stopping:
                self._deaths.wait_for(key[0], expired.token)

        self._post(key, expired).add_done_callback(wait_if_needed)

    def _post(self, key: RunKey, occurrence: Occurrence) -> asyncio.Future[Reply]:
        reply = self._runs.post(key, occurrence)

        def log_failure(done: asyncio.Future[Reply]) -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, StepwellError):
                log.warning("something due was left", run_id=key[1], error=error.message)

        reply.add_done_callback(log_failure)
        return reply
