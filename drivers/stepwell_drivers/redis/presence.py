"""Workers: which are connected, and the leases that each holds."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.port import LeaseQuery, Page, Presence, PresenceQuery, WorkerLease
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.keys import SEPARATOR, RunKeys, escape, unescape, worker_leases
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.packing import micros
from stepwell_drivers.redis.rows import packed, payload_of, presence_of


class PresenceRows:
    """Rows of workers; no commit writes them."""

    def __init__(self, base: Base) -> None:
        self._base = base

    async def put_presence(self, presences: Sequence[Presence], ttl_ms: int) -> None:
        """Keep workers for a while.

        Raises:
            StoreFull, StoreUnavailable: nothing answers; for a replica's own presence also if a
                partition refuses commits.
        """
        if any(not presence.tenant_id for presence in presences):
            # Presence is written to one partition only, and even when its memory is full.
            await self._base.probe()
        tenants: dict[str, list[Presence]] = {}
        for presence in presences:
            tenants.setdefault(presence.tenant_id, []).append(presence)
        for tenant_id, group in tenants.items():
            partition, untils, workers = self._base.keys.presence(tenant_id)
            arguments = [
                part
                for one in group
                for part in (
                    SEPARATOR.join(map(escape, (one.worker_id, one.instance_id))).encode(),
                    packed(one),
                )
            ]
            keys = (partition.book, untils, workers)
            ttl = number(micros(max(ttl_ms, 0)))
            await self._base.call(partition, self._base.scripts.present, keys, ttl, *arguments)

    async def workers(self, query: PresenceQuery) -> Page[Presence]:
        """Return the workers that are connected."""
        partition, untils, workers = self._base.keys.presence(query.tenant_id)
        keys = (partition.book, untils, workers)
        found = await self._base.call(partition, self._base.scripts.presence, keys)
        return Page(items=tuple(presence_of(row) for row in found if row is not None))

    async def leases(self, query: LeaseQuery) -> Page[WorkerLease]:
        """Return the leases that workers hold, of all runs or of one."""
        of = (
            worker_leases(query.tenant_id, query.worker_id)
            if query.worker_id
            else escape(query.tenant_id) + SEPARATOR
        )
        start = f"[{of}".encode()
        run = self._base.run(query.tenant_id, query.run_id) if query.run_id else None
        partitions = self._base.keys.partitions if run is None else (run.partition,)
        asks = [
            Ask(one.slot, ("ZRANGEBYLEX", one.holders, start, start + b"\xff"))
            for one in partitions
        ]
        replies = await self._base.network.ask_all(asks)
        held = [_lease(one.decode()) for found in replies for one in found]
        held.sort(key=lambda one: (one.run_id, one.execution_id))
        if run is not None:
            held = [one for one in held if one.run_id == query.run_id]
            held = await self._with_progress(run, held)
        return Page(items=tuple(held))

    async def _with_progress(self, run: RunKeys, held: Sequence[WorkerLease]) -> list[WorkerLease]:
        if not held:
            return []
        fields = [f"lp:{one.execution_id}".encode() for one in held]
        found = await self._base.read(run, ("HMGET", run.rows, *fields))
        return [
            one if row is None else replace(one, progress=payload_of(row))
            for one, row in zip(held, found, strict=True)
        ]


def _lease(held: str) -> WorkerLease:
    _, worker_id, instance_id, name, token = held.split(SEPARATOR, 4)
    _, run_id, execution_id = name.split(":")
    return WorkerLease(
        run_id=unescape(run_id),
        execution_id=unescape(execution_id),
        token=token,
        instance_id=unescape(instance_id),
        worker_id=unescape(worker_id),
    )
