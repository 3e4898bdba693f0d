"""Shares of limited queues: how many steps of a queue this replica may lease at once.

A queue's `max_parallel` counts for each tenant separately. The replicas that have workers of the
queue divide it among themselves by presence, so a lease needs no question to the store. While
replicas come or go, for the length of a lease after one was killed, and while a step is longer than
its replica's turn of an indivisible rest, their leases may exceed the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.port import Presence, Want
from stepwell.engine.key_types import LeaseKey, QueueKey

ROUND_US = 10_000_000
"""The time for which a replica keeps its part of an indivisible rest."""


class Asked(NamedTuple):
    """The part of a want that is claimed now, and the want's index in its list."""

    want: Want
    position: int


class QueueShares:
    """This replica's share of each limited queue, and the leases that use it."""

    def __init__(self, limits: Mapping[str, int], replica_id: str) -> None:
        self._limits = dict(limits)
        self._replica_id = replica_id
        self._shares: dict[QueueKey, int] = {}
        self._counted: dict[QueueKey, set[LeaseKey]] = {}
        self._turn = 0

    def limits(self, queue: str) -> bool:
        """Return whether this queue has a limit."""
        return queue in self._limits

    @property
    def any(self) -> bool:
        """True if any queue has a limit."""
        return bool(self._limits)

    def divide(self, tenant_id: str, presences: Sequence[Presence], *, now_us: int) -> None:
        """Compute this replica's shares from the workers' presence.

        An indivisible rest rotates by the store's time, or else a replica without a share would
        starve steps that only its workers take.
        """
        for queue, limit in self._limits.items():
            replicas = {one.replica_id for one in presences if queue in one.queues}
            replicas.add(self._replica_id)
            turn = now_us // ROUND_US
            rank = (sorted(replicas).index(self._replica_id) + turn) % len(replicas)
            share, rest = divmod(limit, len(replicas))
            self._shares[tenant_id, queue] = share + (rank < rest)

    def room(self, tenant_id: str, queue: str) -> int:
        """Return how many more steps may be leased; only for a limited queue."""
        share = self._shares.get((tenant_id, queue), self._limits[queue])
        return max(0, share - len(self._counted.get((tenant_id, queue), ())))

    def count(self, tenant_id: str, queue: str, lease: LeaseKey) -> None:
        """Count a lease that is granted, or about to be."""
        if queue in self._limits:
            self._counted.setdefault((tenant_id, queue), set()).add(lease)

    def discount(self, tenant_id: str, queue: str, lease: LeaseKey) -> bool:
        """Stop counting an ended lease; return whether it was counted."""
        leases = self._counted.get((tenant_id, queue))
        if leases is None or lease not in leases:
            return False
        leases.discard(lease)
        return True

    def counted(self, tenant_id: str, queue: str, run_id: str) -> frozenset[str]:
        """Return the executions of a run whose leases count."""
        leases = self._counted.get((tenant_id, queue), ())
        return frozenset(execution_id for whose, execution_id in leases if whose == run_id)

    def all_counted(self, tenant_id: str) -> frozenset[LeaseKey]:
        """Return all counted leases of a tenant."""
        return frozenset(
            lease
            for (whose, _), leases in self._counted.items()
            if whose == tenant_id
            for lease in leases
        )

    def discount_all(self, tenant_id: str, over: frozenset[LeaseKey]) -> None:
        """Stop counting leases that other replicas have ended."""
        for (whose, _), leases in self._counted.items():
            if whose == tenant_id:
                leases -= over

    def ask(self, wants: Sequence[Want]) -> list[Asked]:
        """Return wants that together stay within the room of every limited queue.

        A limited queue is claimed separately, in turns with the others, so that its reserved
        credits don't hide steps that wait elsewhere.
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
