"""Reports the workers of this replica to the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from stepwell.core.port import Presence, PresenceQuery, Runtime, Store
from stepwell.core.records.errors import StoreError, StoreStopped
from stepwell.engine.slots import QueueSlots
from stepwell.engine.workers import Workers

INTERVALS = 3
"""The number of intervals that presence lasts: two reports may be lost."""


class PresenceReporter:
    """Writes presence at an interval, and reads which limited queues other replicas serve.

    Presence informs people, and tells which workers with lost leases are alive. Its
    readers allow for missing entries, so an unavailable store stops nothing.
    """

    def __init__(
        self,
        store: Store,
        workers: Workers,
        slots: QueueSlots,
        runtime: Runtime,
        *,
        interval_ms: int,
    ) -> None:
        self._store = store
        self._workers = workers
        self._slots = slots
        self._runtime = runtime
        self._interval_ms = interval_ms
        self.store_stopped: StoreStopped | None = None
        """The error of a store that has stopped, which is noticed as long as a worker is connected."""

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._runtime.sleep(self._interval_ms / 1_000)
            await self.report([connection.presence for connection in self._workers.connections])
            if self._slots.any:
                await self._read_shared()

    async def _read_shared(self) -> None:
        connected = [one.port.presence for one in self._workers.connections]
        own = {one.replica_id for one in connected}
        with suppress(StoreError):
            self._slots.shared = {
                (tenant_id, queue)
                for tenant_id in {one.tenant_id for one in connected}
                for one in (await self._store.page(PresenceQuery(tenant_id=tenant_id))).items
                if one.replica_id not in own
                for queue in one.queues
                if self._slots.limit(queue)
            }

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
