"""Reservations of idempotency keys: each lies in the partition of its tenant, pipeline and key.

The keys that a deleted run's tasks held are listed in the run's remains (`held`), and are released
before the remains are removed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepwell.core.port import NOBODY, KeySwap, Reservation
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell_drivers.redis.base import Base
from stepwell_drivers.redis.keys import SEPARATOR, Partition, RunKeys, escape, unescape
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.rows import packed
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.wire import Reply

_names_of = msgspec.msgpack.Decoder(list[str]).decode


class Reservations:
    """Swaps of reservations, and their release when a run is deleted."""

    def __init__(self, base: Base) -> None:
        self._base = base

    async def swap(
        self, tenant_id: str, pipeline_id: str, swaps: Sequence[KeySwap]
    ) -> list[Reservation]:
        """Execute these swaps, in order within each partition; return the reservation after each.

        Raises:
            StoreUnavailable: any of them may have been done.
        """
        keys = self._base.keys
        places = [keys.reservation(tenant_id, pipeline_id, swap.key) for swap in swaps]
        groups: dict[Partition, list[int]] = {}
        for at, (partition, _) in enumerate(places):
            groups.setdefault(partition, []).append(at)
        if all(swap.before == swap.after for swap in swaps):
            replies = await self._base.network.ask_all(
                [
                    Ask(one.slot, ("HMGET", one.reservations, *[places[at][1] for at in group]))
                    for one, group in groups.items()
                ]
            )
        else:
            parts = [_part(name, swap) for (_, name), swap in zip(places, swaps, strict=True)]
            replies = await self._swapped(
                {one: [parts[at] for at in group] for one, group in groups.items()}
            )
        stands: dict[int, Reservation] = {}
        for group, reply in zip(groups.values(), replies, strict=True):
            stands.update(zip(group, map(_reservation, reply), strict=True))
        return [stands[at] for at in range(len(swaps))]

    async def _swapped(self, groups: dict[Partition, list[dict[str, str]]]) -> list[Reply]:
        store_id = self._base.store_id.encode()
        asks = [
            Ask(
                one.slot,
                Call(
                    self._base.scripts.swap,
                    (one.book, one.reservations),
                    (store_id, packed(parts)),
                ),
            )
            for one, parts in groups.items()
        ]
        # As durable as the commit that follows.
        replies = await self._base.network.commit_all(asks)
        for reply in replies:
            if isinstance(reply, OutcomeUnknown):
                raise StoreUnavailable(reply.message)
            if isinstance(reply, StoreError):
                raise reply
        return replies

    async def free(self, run: RunKeys) -> None:
        """Release the keys of a deleted run's tasks that the run still holds."""
        base = self._base
        groups: dict[Partition, list[bytes]] = {}
        held: bytes | None = await base.read(run, ("HGET", run.rubbish, "held"))
        for name in _names_of(held) if held else ():
            tenant_id, pipeline_id, key = map(unescape, name.split(SEPARATOR))
            partition, _ = base.keys.reservation(tenant_id, pipeline_id, key)
            groups.setdefault(partition, []).append(name.encode())
        own = run.name.encode().partition(b":")[2]
        await base.network.ask_all(
            [
                Ask(one.slot, Call(base.scripts.free, (one.reservations,), (own, *group)))
                for one, group in groups.items()
            ]
        )


def _part(name: str, swap: KeySwap) -> dict[str, str]:
    return {"name": name, "before": _text(swap.before), "after": _text(swap.after)}


def _text(reservation: Reservation) -> str:
    if reservation == NOBODY:
        return ""
    return SEPARATOR.join((escape(reservation.run_id), escape(reservation.commit_id)))


def _reservation(text: bytes | None) -> Reservation:
    if not text:
        return NOBODY
    run_id, commit_id = text.decode().split(SEPARATOR)
    return Reservation(run_id=unescape(run_id), commit_id=unescape(commit_id))
