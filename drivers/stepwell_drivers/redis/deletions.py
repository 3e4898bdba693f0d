"""Deletions of runs: hidden in one step, taken away in more.

The first step hides a run from every read, if it has no forks, and leaves a tombstone (`delete`). A fork lies in its
parent's partition, so that step and the commit that creates the fork see each other. Then the keys that the
run's tasks held are freed, its commits leave the feeds, and with the last of them its rows go (`sweep`). A process may
die between any two steps: an unfinished deletion stays in its partition's trash until a replica finishes it; each
step may be repeated.
"""

from __future__ import annotations

from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.keys import RunKeys
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.reservations import Reservations

TOMBSTONE_US = 2 * 3_600 * 1_000_000
SWEEP_COMMITS = 2_000
"""So many commits of a deleted run are taken out of the feeds in one go."""


class Deletions:
    """Deletions of runs, and the ends of those that were interrupted."""

    def __init__(self, base: Base, reservations: Reservations) -> None:
        self._base = base
        self._reservations = reservations
        self._unfinished = False
        """A deletion has left rows to be removed."""

    async def delete(self, tenant_id: str, run_id: str, version: int) -> bool:
        """Remove a run at a version that has no forks. It is hidden at once; what is left of it goes before this
        returns, or, when a server fails meanwhile, with a later deletion or at the next start.
        """
        run = self._base.run(tenant_id, run_id)
        one = run.partition
        keys = (
            *(one.book, one.wake, one.ready, one.due, one.holders, one.lists),
            *(one.logged, one.tombstones, one.trash),
            *(run.rows, run.orders, run.logs, run.log_marks, run.rubbish),
            *(one.feed, run.tenant_feed, run.tenant_deletions),
        )
        asked_before = False
        numbers = map(number, (version, TOMBSTONE_US, self._base.floor))
        call = (one, self._base.scripts.delete, keys, run.name.encode(), *numbers)
        try:
            answer = await self._base.call(*call, again=False)
        except OutcomeUnknown:
            asked_before = True
            answer = await self._base.call(*call)
        # 2: there is a tombstone. If we asked before, it is ours.
        if answer == 0 or (answer == 2 and not asked_before):
            return False
        self._base.raise_floor(answer)
        try:
            await self._finish(run)
            if self._unfinished:
                await self.finish_all()
        except StoreUnavailable:
            self._unfinished = True
        return True

    async def finish_all(self) -> None:
        """Finish the deletions that were interrupted."""
        base = self._base
        lists = await base.network.ask_all(
            [Ask(one.slot, ("ZRANGE", one.trash, 0, 999)) for one in base.keys.partitions]
        )
        for name in [name for names in lists for name in names]:
            await self._finish(base.keys.of_name(name))
        self._unfinished = False

    async def _finish(self, run: RunKeys) -> None:
        """Free the keys that a deleted run held, and remove its remains."""
        one = run.partition
        await self._reservations.free(run)
        keys = (one.trash, one.feed, run.tenant_feed, run.rubbish)
        left = 1
        while left:
            left = await self._base.call(
                one, self._base.scripts.sweep, keys, run.name.encode(), number(SWEEP_COMMITS)
            )
