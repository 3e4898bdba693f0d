"""Shared by the parts of a Redis store: its servers, key names, scripts, and its clock as last seen."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakValueDictionary

from stepwell_drivers.redis.errors import Refusal, error_of
from stepwell_drivers.redis.keys import Keys, Partition, RunKeys, channel
from stepwell_drivers.redis.network import Ask, Network
from stepwell_drivers.redis.scripts import Call, Script, Scripts
from stepwell_drivers.redis.server_settings import info_of, room_of
from stepwell_drivers.redis.wire import Command, Reply

REFUSED_SECONDS = 60.0
"""The time for which a server that had no memory for a commit isn't ready without memory for it."""


class ClockFloor:
    """The highest time and stamp that this process has seen of a store, over all its connections."""

    def __init__(self) -> None:
        self.stamp = 0
        """The highest: what is committed from here comes after it in the feed."""
        self.now_us = 0


_floors: WeakValueDictionary[str, ClockFloor] = WeakValueDictionary()
"""The clock's floor of each store, by store id."""


class Base:
    """Shared by all parts of one store."""

    def __init__(self, network: Network, keys: Keys, scripts: Scripts, store_id: str) -> None:
        self.network = network
        self.keys = keys
        self.scripts = scripts
        self.store_id = store_id
        self.channel = channel(keys.prefix)
        """The channel on which hints are told."""
        self._floor = _floors.setdefault(store_id, ClockFloor())
        self._refused: dict[Partition, tuple[int, float]] = {}
        """The most bytes that each partition had no memory for of late, and until when they count."""

    def run(self, tenant_id: str, run_id: str) -> RunKeys:
        """Return the keys of a run."""
        return self.keys.of_run(tenant_id, run_id)

    @property
    def floor(self) -> int:
        """Return the highest stamp seen."""
        return self._floor.stamp

    def raise_floor(self, stamp: int) -> None:
        """Stamp later commits above this one."""
        self._floor.stamp = max(self._floor.stamp, stamp)

    @property
    def now_us(self) -> int:
        """Return the highest time of the store that was seen."""
        return self._floor.now_us

    def observe(self, now_us: int) -> int:
        """Return the store's time after one server's: clocks differ a little, and it never goes back."""
        self._floor.now_us = max(self._floor.now_us, now_us)
        return self._floor.now_us

    async def stamps(self) -> list[int]:
        """Return the last stamp of each partition."""
        asks = [Ask(one.slot, ("HGET", one.book, "#time")) for one in self.keys.partitions]
        return [int((time or b"0 0").split(b" ")[1]) for time in await self.network.ask_all(asks)]

    def note_refused(self, partition: Partition, size: int) -> None:
        """Have `probe` look for memory for a commit of so many bytes, for a while.

        A server counts what it was sent before it decides: close to its `maxmemory` it refuses large
        commits and takes small ones.
        """
        now = self.network.runtime.monotonic()
        most, until = self._refused.get(partition, (0, now))
        # Until the server has let go of a large commit's bytes, it refuses small ones as well.
        size = max(size, most if now < until else 0)
        self._refused[partition] = (size, now + REFUSED_SECONDS)

    async def probe(self) -> None:
        """Ask every partition whether it would take a commit, also one as large as it refused lately.

        Raises:
            StoreFull, StoreUnavailable: one wouldn't; the error is that which a commit would meet.
        """
        arguments = (self.store_id.encode(),)
        await self.network.ask_all(
            [
                Ask(one.slot, Call(self.scripts.probe, (one.book,), arguments))
                for one in self.keys.partitions
            ]
        )
        now = self.network.runtime.monotonic()
        self._refused = {one: last for one, last in self._refused.items() if now < last[1]}
        for one, (size, _) in list(self._refused.items()):
            info = await self.network.ask(Ask(one.slot, ("INFO", "memory")))
            # A commit is there twice when the server decides: as it came, and in its parts.
            if room_of(info_of(info)) < 2 * size:
                raise error_of(Refusal("OOM", ""), self.network.owner_of(one.slot).name)

    async def call(
        self,
        partition: Partition,
        script: Script,
        keys: Sequence[bytes],
        *arguments: bytes,
        again: bool = True,
    ) -> Reply:
        """Call a script in a partition."""
        return await self.network.ask(
            Ask(partition.slot, Call(script, keys, arguments)), again=again
        )

    async def read(self, run: RunKeys, sent: Command) -> Reply:
        """Send a plain command about a run."""
        return await self.network.ask(Ask(run.partition.slot, sent))


def number(digits: int) -> bytes:
    """Return a number as an argument."""
    return b"%d" % digits
