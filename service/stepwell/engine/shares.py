"""How many steps of a limited queue may be leased here at once.

A queue's `max_parallel` counts for each tenant by itself. Replicas divide it among those that have
workers of the queue, by what presence says: so nothing is asked of the store before a lease. While
replicas come or go, and for a lease after one was killed, it can be exceeded by what they had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.port import Presence, Want

ROUND_US = 10_000_000
"""How long a replica has its part of what can't be divided evenly."""

QueueKey = tuple[str, str]
"""(tenant_id, queue)."""
LeaseKey = tuple[str, str]
"""(run_id, execution_id)."""


class Asked(NamedTuple):
    """The part of a want that is asked for now, and where that want stands in its list."""

    want: Want
    position: int


class QueueShares:
    """This replica's part of each limited queue, and what it has of it."""

    def __init__(self, limits: Mapping[str, int], replica_id: str) -> None:
        self._limits = dict(limits)
        self._replica_id = replica_id
        self._shares: dict[QueueKey, int] = {}
        self._held: dict[QueueKey, set[LeaseKey]] = {}
        self._turn = 0

    def limits(self, queue: str) -> bool:
        """Whether this queue has a limit."""
        return queue in self._limits

    @property
    def any(self) -> bool:
        """Whether any queue has one."""
        return bool(self._limits)

    def divide(self, tenant_id: str, presences: Sequence[Presence], *, now_us: int) -> None:
        """Take this replica's part anew, by who is connected where.

        What can't be divided evenly goes round, by the store's time: a replica without a part would
        else starve steps that only its workers do.
        """
        for queue, limit in self._limits.items():
            replicas = {one.replica_id for one in presences if queue in one.queues}
            replicas.add(self._replica_id)
            turn = now_us // ROUND_US
            rank = (sorted(replicas).index(self._replica_id) + turn) % len(replicas)
            share, rest = divmod(limit, len(replicas))
            self._shares[tenant_id, queue] = share + (rank < rest)

    def room(self, tenant_id: str, queue: str) -> int:
        """Return how many more may be leased; only for a queue that has a limit."""
        share = self._shares.get((tenant_id, queue), self._limits[queue])
        return max(0, share - len(self._held.get((tenant_id, queue), ())))

    def take(self, tenant_id: str, queue: str, lease: LeaseKey) -> None:
        """Note a lease that is given, or about to be."""
        if queue in self._limits:
            self._held.setdefault((tenant_id, queue), set()).add(lease)

    def has(self, tenant_id: str, queue: str, lease: LeaseKey) -> bool:
        """Whether it is among those that are out here."""
        return lease in self._held.get((tenant_id, queue), ())

    def give(self, tenant_id: str, queue: str, lease: LeaseKey) -> bool:
        """Note that it is over; tell whether it was out here."""
        was_out = self.has(tenant_id, queue, lease)
        if was_out:
            self._held[tenant_id, queue].discard(lease)
        return was_out

    def out(self, tenant_id: str) -> frozenset[LeaseKey]:
        """Return all leases of a tenant that count here."""
        return frozenset(
            lease for (whose, _), held in self._held.items() if whose == tenant_id for lease in held
        )

    def drop(self, tenant_id: str, over: frozenset[LeaseKey]) -> None:
        """Forget what ended without this replica: another one took it from its worker."""
        for (whose, _), held in self._held.items():
            if whose == tenant_id:
                held -= over

    def ask(self, wants: Sequence[Want]) -> list[Asked]:
        """Return wants that together take no more than there is room for in any limited queue.

        A limited queue is asked for by itself, in turns with the others, so that the credits that it
        could take don't hide what waits elsewhere.
        """
        if not self._limits:
            return [Asked(want, position) for position, want in enumerate(wants)]
        asked: list[Asked] = []
        left: dict[QueueKey, int] = {}
        for position, want in enumerate(wants):
            parts = self._parts(want)
            self._turn += 1
            free = want.limit
            for step in range(len(parts)):
                part = parts[(self._turn + step) % len(parts)]
                limit = min(free, -(-want.limit // len(parts)))
                if len(part) == 1 and part[0] in self._limits:
                    key = (want.tenant_id, part[0])
                    limit = min(limit, left.setdefault(key, self.room(*key)))
                    left[key] -= limit
                if limit:
                    free -= limit
                    asked.append(Asked(replace(want, queues=part, limit=limit), position))
        return asked

    def _parts(self, want: Want) -> list[tuple[str, ...]]:
        free = tuple(queue for queue in want.queues if queue not in self._limits)
        parts = [(queue,) for queue in want.queues if queue in self._limits]
        return [free, *parts] if free else parts
