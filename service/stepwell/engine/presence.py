"""Reports the workers of this replica to the store, and divides limited queues by the connected workers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from stepwell.core.port import LeaseQuery, Presence, PresenceQuery, Runtime, Store
from stepwell.core.records.errors import StoreError, StoreStopped
from stepwell.engine.clock import StoreTime
from stepwell.engine.runs import Runs
from stepwell.engine.shares import QueueShares
from stepwell.engine.workers import WorkerConnection, Workers

INTERVALS = 3
"""The number of intervals that presence lasts: two reports may be lost."""


class PresenceReporter:
    """Writes presence at an interval, and then divides the limited queues.

    Presence informs people, divides queues, and tells which workers with lost leases are alive. Its
    readers allow for missing entries, so an unavailable store stops nothing.
    """

    def __init__(
        self,
        store: Store,
        runs: Runs,
        workers: Workers,
        shares: QueueShares,
        runtime: Runtime,
        clock: StoreTime,
        *,
        interval_ms: int,
    ) -> None:
        self._store = store
        self._runs = runs
        self._workers = workers
        self._shares = shares
        self._runtime = runtime
        self._clock = clock
        self._interval_ms = interval_ms
        self.store_stopped: StoreStopped | None = None
        """The error of a store that has stopped, which is noticed as long as a worker is connected."""

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._runtime.sleep(self._interval_ms / 1_000)
            await self.report([connection.presence for connection in self._workers.connections])
            await self.divide_shares()

    async def report(self, presences: Sequence[Presence]) -> None:
        """Write the presence of these workers, for a few intervals."""
        await self._write(presences, ttl_ms=INTERVALS * self._interval_ms)

    async def withdraw(self, presence: Presence) -> None:
        """Remove the presence of a worker that has left."""
        await self._write([presence], ttl_ms=0)

    async def _write(self, presences: Sequence[Presence], *, ttl_ms: int) -> None:
        if not presences:
            return
        try:
            await self._store.put_presence(presences, ttl_ms=ttl_ms)
        except StoreStopped as error:
            self.store_stopped = error
        except StoreError:
            pass  # It is written again soon.

    async def count_leases(self, connection: WorkerConnection) -> None:
        """Count the leases that a connecting worker holds against the limits of their queues."""
        if not self._shares.any:
            return
        for run_id, execution_id in tuple(connection.leases):
            state = await self._runs.state((connection.tenant_id, run_id))
            if state is not None:
                queue = state.run.spec.queue
                self._shares.count(connection.tenant_id, queue, (run_id, execution_id))

    async def divide_shares(self) -> None:
        """Divide the limited queues by presence; stop counting leases that ended elsewhere."""
        if not self._shares.any:
            return
        for tenant_id in {connection.tenant_id for connection in self._workers.connections}:
            with suppress(StoreError):
                presences = (await self._store.page(PresenceQuery(tenant_id=tenant_id))).items
                self._shares.divide(tenant_id, presences, now_us=self._clock.now_us())
                await self._discount_ended(tenant_id)

    async def _discount_ended(self, tenant_id: str) -> None:
        # A lease that is granted or committed during the reads is not among the leases read.
        counted = self._shares.all_counted(tenant_id) - self._workers.uncommitted(tenant_id)
        workers = {
            connection.port.presence.worker_id
            for connection in self._workers.connections
            if connection.tenant_id == tenant_id
        }
        leases = [
            (await self._store.page(LeaseQuery(tenant_id=tenant_id, worker_id=worker))).items
            for worker in workers
        ]
        live = frozenset((one.run_id, one.execution_id) for page in leases for one in page)
        self._shares.discount_all(tenant_id, counted - live)
