"""Deaths of workers: which of a worker's steps may have killed it, and which have not.

A lost lease alone doesn't tell whether its worker is alive. Presence is therefore read once for all
leases that expired together, and for an absent worker also its other leases. Before a step is
condemned, presence is read repeatedly for a while, by this replica's own time, so that a replica
that has just started, or whose store has just lost its presence rows, learns of all workers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from itertools import starmap
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.loss_allowance import losses_in, name_of
from stepwell.core.loop.occurrences import LeaseExpired
from stepwell.core.port import LeaseQuery, PresenceQuery, Runtime, Store
from stepwell.core.records.errors import StoreError
from stepwell.engine.key_types import LeaseKey, RunKey
from stepwell.engine.last_heartbeat import EndedLease
from stepwell.engine.presence import INTERVALS
from stepwell.engine.runs import Runs
from stepwell.engine.workers import Workers

REMEMBERED_MAX = 1_000
"""The number of dead instances whose suspects are remembered, because their leases may end one
after another. Also the number of leases whose workers are waited for."""


LOOKS_MAX = 10 * INTERVALS
"""The most reads of presence for one lease: by then one of the waiting replicas has claimed it again."""


class Found(NamedTuple):
    """The result of waiting for a worker: the instances that were connected meanwhile."""

    connected: frozenset[str] | None
    """The names of all instances that any read found connected. None: a read gave no answer."""
    at: float
    """The monotonic time of the last read."""


class Deaths:
    """Judges lost leases before their losses are counted."""

    def __init__(
        self, store: Store, runs: Runs, workers: Workers, runtime: Runtime, *, presence_ms: int
    ) -> None:
        """`presence_ms` is the interval at which replicas report their connected workers."""
        self._interval_s = presence_ms / 1_000
        self._waits: OrderedDict[str, asyncio.Task[None]] = OrderedDict()
        """The waits for the workers of expired leases, by the lease's token."""
        self._finds: dict[str, Found] = {}
        """The results of such waits that lasted long enough, by the lease's token."""
        self._store = store
        self._runs = runs
        self._workers = workers
        self._runtime = runtime
        self._suspects: OrderedDict[tuple[str, str], asyncio.Task[frozenset[LeaseKey]]] = (
            OrderedDict()
        )

    async def connected(self, tenant_id: str) -> frozenset[str] | None:
        """Return the names of a tenant's worker instances that are connected, here or elsewhere.

        None if that is unknown: the store lacks even the workers that are connected here, so its
        clock has jumped, or it accepted no writes for a while.

        Raises:
            StoreUnavailable: that is unknown.
        """
        here = {
            one.port.presence.worker_id: one.port.presence.instance_id
            for one in self._workers.connections
            if one.tenant_id == tenant_id
        }
        found = (await self._store.page(PresenceQuery(tenant_id=tenant_id))).items
        if here and not any(here.get(one.worker_id) == one.instance_id for one in found):
            return None
        # A newer instance that is connected here has ended the older ones of its worker.
        there = [(one.worker_id, one.instance_id) for one in found if one.worker_id not in here]
        return frozenset(starmap(name_of, (*here.items(), *there)))

    async def judged(
        self, key: RunKey, ended: Sequence[EndedLease], connected: frozenset[str] | None
    ) -> list[LeaseExpired]:
        """Return the occurrences that end these leases of a run, with what is known of their workers.

        If presence is unknown, no worker counts as dead; nor does a worker that was connected
        during the wait.

        Raises:
            StoreUnavailable: presence is unknown; the leases have ended nevertheless.
        """
        occurrences: list[LeaseExpired] = []
        for occurrence, worker_id, instance_id in ended:
            blameless = False
            instance = name_of(worker_id, instance_id)
            found = self._found(occurrence.token)
            if connected is None or (found is not None and found.connected is None):
                occurrences.append(replace(occurrence, connected=frozenset((instance,))))
                continue
            there = connected | found.connected if found and found.connected else connected
            if instance and instance not in there and not occurrence.timed_out:
                suspects = await self._suspects_of(key[0], worker_id, instance_id, there)
                blameless = bool(suspects) and (key[1], occurrence.execution_id) not in suspects
            waited = found is not None
            occurrences.append(
                replace(occurrence, connected=there, blameless=blameless, waited=waited)
            )
        return occurrences

    def wait_for(self, tenant_id: str, token: str) -> None:
        """Begin to wait for the worker of an expired lease, unless that has begun already."""
        wait = self._waits.get(token)
        if wait is not None and (not wait.done() or self._found(token) is not None):
            return
        self._waits[token] = self._runtime.spawn(
            self._watch_presence(tenant_id, token), name="wait for a worker"
        )
        if len(self._waits) > REMEMBERED_MAX:
            oldest, task = self._waits.popitem(last=False)
            task.cancel()
            self._finds.pop(oldest, None)

    def _found(self, token: str) -> Found | None:
        """Return the result of waiting for a lease's worker, or None if the wait isn't over, or was long ago."""
        found = self._finds.get(token)
        if found is None:
            return None
        recent = self._runtime.monotonic() - found.at <= INTERVALS * self._interval_s
        return found if recent else None

    async def _watch_presence(self, tenant_id: str, token: str) -> None:
        """Read presence until another replica has surely judged the lease, if this one doesn't."""
        connected = frozenset[str]()
        for look in range(1, LOOKS_MAX + 1):
            await self._runtime.sleep(self._interval_s)
            try:
                now = await self.connected(tenant_id)
            except StoreError:
                now = None
            if now is None:
                self._finds[token] = Found(None, self._runtime.monotonic())
                return
            connected |= now
            if look >= INTERVALS:
                self._finds[token] = Found(connected, self._runtime.monotonic())

    async def _suspects_of(
        self, tenant_id: str, worker_id: str, instance_id: str, connected: frozenset[str]
    ) -> frozenset[LeaseKey]:
        """Return the steps that a dead instance held and that had lost another worker before.

        They are looked up once, while all its leases still exist, because the end of each removes
        one.
        """
        key = (tenant_id, name_of(worker_id, instance_id))
        task = self._suspects.get(key)
        if task is None:
            work = self._find_suspects(tenant_id, worker_id, instance_id, connected)
            task = self._suspects[key] = self._runtime.spawn(work, name="suspects")
            if len(self._suspects) > REMEMBERED_MAX:
                self._suspects.popitem(last=False)
        try:
            return await asyncio.shield(task)
        except StoreError:
            self._suspects.pop(key, None)
            raise

    async def _find_suspects(
        self, tenant_id: str, worker_id: str, instance_id: str, connected: frozenset[str]
    ) -> frozenset[LeaseKey]:
        leases = await self._store.page(LeaseQuery(tenant_id=tenant_id, worker_id=worker_id))
        held = [one for one in leases.items if one.instance_id == instance_id]
        suspects: set[LeaseKey] = set()
        for lease in held if len(held) > 1 else ():
            state = await self._runs.state((tenant_id, lease.run_id))
            row = state.open.get(lease.execution_id) if state is not None else None
            if state is None or row is None:
                continue
            task = state.tasks.get(row.execution.task_id)
            losses = losses_in(state.run, task, row.execution.kind)
            if any(one not in connected for one in losses.gone):
                suspects.add((lease.run_id, lease.execution_id))
        return frozenset(suspects)
