"""The last hour of a replica, for the charts of the page: a sample each ten seconds, of each tenant."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stepwell.core.port import Runtime
from stepwell.core.records.states import RunStatus

EVERY_S = 10
SAMPLES_MAX = 360
TENANTS_MAX = 64
"""The most tenants that are sampled; later ones have no charts until they are looked at."""


class Look(NamedTuple):
    """The counts of a replica since its start, and its unfinished runs, by tenant."""

    commits: Mapping[str, int]
    ends: Mapping[str, int]
    runs: Mapping[tuple[str, RunStatus], int]


class Sample(NamedTuple):
    """A tenant's sample: commits and ends of runs a second, and runs in memory."""

    commits: float
    ended: float
    running: int
    queued: int


class Pulse:
    """Keeps the samples in rings, which are bounded in length and number."""

    def __init__(self, look: Callable[[], Look], runtime: Runtime) -> None:
        self._look = look
        self._runtime = runtime
        self._before = Look({}, {}, {})
        self._rings: dict[str, deque[Sample]] = {}

    async def run(self) -> None:
        """Take samples until the task is cancelled."""
        while True:
            await self._runtime.sleep(EVERY_S)
            self.sample()

    def sample(self) -> None:
        """Take a sample of each tenant that has been seen."""
        before, now = self._before, self._look()
        self._before = now
        seen = {*now.commits, *(tenant for tenant, _ in now.runs)}
        for tenant in sorted(seen - self._rings.keys())[: TENANTS_MAX - len(self._rings)]:
            self._rings[tenant] = deque(maxlen=SAMPLES_MAX)
        for tenant, ring in self._rings.items():
            commits = now.commits.get(tenant, 0) - before.commits.get(tenant, 0)
            ends = now.ends.get(tenant, 0) - before.ends.get(tenant, 0)
            running = now.runs.get((tenant, RunStatus.RUNNING), 0)
            queued = now.runs.get((tenant, RunStatus.QUEUED), 0)
            ring.append(Sample(commits / EVERY_S, ends / EVERY_S, running, queued))

    def last_hour(self, tenant_id: str) -> dict[str, Any]:
        """Return a tenant's series, oldest sample first."""
        samples = self._rings.get(tenant_id, ())
        series = {name: [getattr(one, name) for one in samples] for name in Sample._fields}
        return {"every_s": EVERY_S, **series}
