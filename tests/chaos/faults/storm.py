"""Processes that are killed and stopped at random moments, several at once, and begun again.

What is drawn comes from one seed: who is struck, how, when, and for how long it is away. A process is
killed by SIGKILL, a database with all of its children; or it is stopped by SIGSTOP for longer than a lease
lasts, so that when it goes on it still believes in what it has lost.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tests.chaos.oracle.history import Lost
from tests.chaos.world.cluster import LEASE_MS, Cluster
from tests.chaos.world.stores import Victim
from tests.support.patience import PATIENCE_S

AT_ONCE = 3
"""The most that may be away at a time; the others go on."""
STOPPED = 0.15
"""The share of blows that are SIGSTOP. Each takes longer than a lease, so they are the few."""
WEIGHTS = {"server": 0.5, "worker": 0.25, "store": 0.25}
"""The share of blows to each kind; where the store has no process of its own, the others share it."""
LIVED, DIED = "lease expired with a live worker", "lease expired with a dead worker"


class Blow(NamedTuple):
    """One thing that happens to one process."""

    kind: str
    name: str
    victim: Victim
    stopped: bool
    away_s: float

    @property
    def word(self) -> str:
        """Name it, for the figures."""
        return f"{self.kind} {'stopped' if self.stopped else 'killed'}"


class Process:
    """A replica or a worker of the cluster, to be killed."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name

    async def kill(self) -> None:
        self._cluster.kill(self._name)

    async def revive(self) -> None:
        """Begin it again, and again while it ends by itself: its store may be away."""
        if self._name in self._cluster.workers:
            await self._cluster.work(self._name)
            return
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                await self._cluster.start(self._name)
                return
            except AssertionError:
                if self._cluster.program(self._name).up or time.monotonic() > until:
                    raise
                self._cluster.kill(self._name)

    async def stop(self) -> None:
        self._cluster.program(self._name).signal(signal.SIGSTOP)

    async def go_on(self) -> None:
        self._cluster.program(self._name).signal(signal.SIGCONT)


class Storm:
    """Strikes so many times at a cluster."""

    def __init__(self, cluster: Cluster, rnd: Random) -> None:
        self._rnd = rnd
        self._room = asyncio.Semaphore(AT_ONCE)
        self._victims: dict[str, dict[str, Victim]] = {
            "server": {name: Process(cluster, name) for name in cluster.names},
            "worker": {name: Process(cluster, name) for name in cluster.workers},
            "store": {f"store {n}": one for n, one in enumerate(cluster.shared.victims)},
        }
        self._away: set[str] = set()
        self._back = asyncio.Condition()
        self.struck: Counter[str] = Counter()
        self.deaths: defaultdict[str, list[float]] = defaultdict(list)
        """When each was killed, by the machine's monotonic clock."""

    async def draw(self) -> Blow:
        """Choose somebody who is standing; wait until somebody is."""
        rnd = self._rnd
        kinds = [kind for kind in WEIGHTS if self._victims[kind]]
        kind = rnd.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
        stopped = rnd.random() < STOPPED
        away_s = rnd.uniform(1.1, 1.4) * LEASE_MS / 1_000 if stopped else rnd.uniform(0.0, 0.3)
        choice = rnd.random()
        async with self._back:
            await self._back.wait_for(lambda: self._standing(kind))
            standing = self._standing(kind)
            name = standing[int(choice * len(standing))]
            self._away.add(name)
        return Blow(kind, name, self._victims[kind][name], stopped, away_s)

    def _standing(self, kind: str) -> Sequence[str]:
        return [name for name in self._victims[kind] if name not in self._away]

    async def strike(self, blow: Blow) -> None:
        """Let it happen, and wait until all is as before."""
        async with self._room:
            if blow.stopped:
                await blow.victim.stop()
                await asyncio.sleep(blow.away_s)
                await blow.victim.go_on()
            else:
                self.deaths[blow.name].append(time.monotonic())
                await blow.victim.kill()
                await asyncio.sleep(blow.away_s)
                await blow.victim.revive()
        self.struck[blow.word] += 1
        async with self._back:
            self._away.discard(blow.name)
            self._back.notify_all()

    def count_lost(self, losses: Sequence[Lost]) -> Counter[str]:
        """Count the leases that were lost by whether their worker lived all the while."""
        found = Counter[str]()
        for one in losses:
            died = any(one.leased_at < at < one.lost_at for at in self.deaths[one.worker_id])
            found[DIED if died else LIVED] += 1
        return found
