"""Families of forks over partitions: creating a fork, deleting a run, and keeping its results meanwhile.

A fork refers to results of the run that it was forked from, so these stay as long as a run of the family
exists. Each family has an index in the partition of its first run (`RunKeys.family`): all forks that were ever
to join it. The index never shows that one of them exists: only each run's own partition knows.

Creating a fork takes two steps: join the index if a run of the family exists (`join`), then commit. Deleting a
run takes two as well: hide it and keep its results (`delete`), then check every member in the index
(`settle`). If none exists, none may appear later: each joined but uncommitted fork gets a tombstone first. Only
then are the results removed. A process may die between any two steps: a fork that joined and was never
committed is an entry that no check finds alive, and an unfinished deletion stays in its partition's trash
until a replica finishes it; each step may be repeated. Forks in their parents' partition need no further
partition to be checked; others cost a round trip more.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreUnavailable
from stepwell.core.records.model import RunSpec
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.keys import Partition, RunKeys
from stepwell_drivers.redis.network import Ask
from stepwell_drivers.redis.reservations import Reservations
from stepwell_drivers.redis.scripts import Call
from stepwell_drivers.redis.wire import Reply

TOMBSTONE_US = 2 * 3_600 * 1_000_000
SWEEP_COMMITS = 2_000
"""So many commits of a deleted run are taken out of the feeds in one go."""
FIELDS_AT_ONCE = 1_000
_KEPT = (b"u:", b"v:", b"family", b"j:", b"jf:", b"jv:")
"""Prefixes of the rows that stay for a family; besides, the number of the run's last journal entry."""
_LAST_ENTRY = b"j"


class Families:
    """Family operations: joins, deletions, and the remains of deleted runs."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._reservations = Reservations(base)

    # --- creating ---

    async def join(self, tenant_id: str, run: RunKeys, spec: RunSpec) -> bool:
        """Add a fork to its family's index before it is created; False: no run of the family exists.

        Raises:
            StoreUnavailable: the answer is unknown; an entry that was added does no harm.
        """
        parent = self._base.run(tenant_id, spec.parent_run_id) if spec.parent_run_id else None
        if not spec.family_id:
            return parent is None or await self._any_there([parent])
        family = self._base.run(tenant_id, spec.family_id)
        alive, others = await self._note(family, run, is_known=parent is None)
        if alive == 1 or await self._any_of(family, self._named(others)):
            return True
        if parent is not None and await self._any_there([parent]):
            # The parent is of another family itself, but it exists.
            await self._note(family, run, is_known=True)
            return True
        if others:
            await self.settle(family)
        return False

    async def _note(self, family: RunKeys, run: RunKeys, *, is_known: bool) -> Reply:
        one = family.partition
        arguments = (
            *(family.name.encode(), run.name.encode()),
            *(number(run.partition.number), number(one.number), b"1" if is_known else b"0"),
        )
        call = Call(self._base.scripts.join, (one.book, family.family), arguments)
        # As durable as the commit that follows.
        (reply,) = await self._base.network.commit_all([Ask(one.slot, call)])
        if isinstance(reply, OutcomeUnknown):
            raise StoreUnavailable(reply.message)
        if isinstance(reply, StoreError):
            raise reply
        return reply

    # --- deletions ---

    async def finish(self, run: RunKeys) -> None:
        """Free the keys that a deleted run held, and remove its remains, except what its family keeps."""
        base, one = self._base, run.partition
        await self._reservations.free(run)
        keys = (one.trash, one.feed, run.tenant_feed, run.rubbish, run.kept)
        arguments = (run.name.encode(), number(SWEEP_COMMITS))
        left = 1
        while left > 0:
            left = await base.call(one, base.scripts.sweep, keys, *arguments)
        if left < 0:
            return
        family_id: bytes | None = await base.read(run, ("HGET", run.kept, "family"))
        tenant, _, _ = run.name.encode().partition(b":")
        family = run if family_id is None else base.keys.of_name(tenant + b":" + family_id)
        if not await self.settle(family, run):
            await self._thin(run)
        await base.read(run, ("ZREM", one.trash, run.name))

    async def _thin(self, run: RunKeys) -> None:
        """Remove all but the results, the journals and their owner: another replica may finish this, too."""
        names: list[bytes] = await self._base.read(run, ("HKEYS", run.kept))
        gone = [name for name in names if not name.startswith(_KEPT) and name != _LAST_ENTRY]
        for at in range(0, len(gone), FIELDS_AT_ONCE):
            few = gone[at : at + FIELDS_AT_ONCE]
            await self._base.read(run, ("HDEL", run.kept, *few))

    async def settle(self, family: RunKeys, deleted: RunKeys | None = None) -> bool:
        """Remove a family's kept results if no run of it exists; False: one exists.

        The remains of the run that is being deleted go last: from them, all of this can be started again.
        """
        base, one = self._base, family.partition
        keys = (one.book, one.tombstones, family.family)
        gone: list[bytes] = []
        while True:
            arguments = (family.name.encode(), number(one.number), number(TOMBSTONE_US), *gone)
            found, names = await base.call(one, base.scripts.extinct, keys, *arguments)
            if found == 0:
                return False
            if found == 1:
                break
            others = self._named(names)
            # Checked first: as long as one exists, the others may still be created.
            if await self._any_of(family, others) or await self._fence(family, others):
                return False
            gone += names
        members = dict.fromkeys([family, *self._named(names)])
        await self._forget([run for run in members if run != deleted], own=b"0")
        if names:
            await base.read(family, ("HDEL", family.family, *names))
        if deleted is not None:
            await self._forget([deleted], own=b"1")
        return True

    async def _fence(self, family: RunKeys, runs: Iterable[RunKeys]) -> bool:
        """Add a tombstone for each, so that none can be created any more; True: one exists."""
        groups: dict[Partition, list[bytes]] = {}
        for run in runs:
            groups.setdefault(run.partition, []).append(run.name.encode())
        asks = [
            Ask(
                one.slot,
                Call(
                    self._base.scripts.fence,
                    (one.book, one.tombstones),
                    (number(TOMBSTONE_US), _id_of(family), *group),
                ),
            )
            for one, group in groups.items()
        ]
        return any(await self._base.network.ask_all(asks))

    async def _forget(self, runs: Iterable[RunKeys], *, own: bytes) -> None:
        asks: list[Ask] = []
        for run in runs:
            one = run.partition
            keys = (one.book, one.tombstones, one.trash, run.kept)
            arguments = (run.name.encode(), number(TOMBSTONE_US), own)
            asks.append(Ask(one.slot, Call(self._base.scripts.forget, keys, arguments)))
        await self._base.network.ask_all(asks)

    async def finish_all(self) -> None:
        """Finish the deletions that were interrupted."""
        base = self._base
        lists = await base.network.ask_all(
            [Ask(one.slot, ("ZRANGE", one.trash, 0, 999)) for one in base.keys.partitions]
        )
        for name in [name for names in lists for name in names]:
            await self.finish(base.keys.of_name(name))

    # --- checks ---

    async def _any_there(self, runs: Iterable[RunKeys]) -> bool:
        asks = [
            Ask(run.partition.slot, ("HEXISTS", run.partition.book, f"v{run.name}")) for run in runs
        ]
        return any(await self._base.network.ask_all(asks))

    async def _any_of(self, family: RunKeys, runs: Iterable[RunKeys]) -> bool:
        """Return whether one of them is there and of this family: an id may have become another's."""
        asks = [
            Ask(run.partition.slot, ("HGET", run.partition.book, f"f{run.name}")) for run in runs
        ]
        return _id_of(family) in await self._base.network.ask_all(asks)

    def _named(self, names: Iterable[bytes]) -> list[RunKeys]:
        return [self._base.keys.of_name(name) for name in names]


def _id_of(family: RunKeys) -> bytes:
    return family.name.partition(":")[2].encode()
