"""The parts that all of a Redis store's operations share: servers, key names, scripts, and the last seen time."""

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
"""The time for which `probe` still checks for the memory that a commit was refused for."""


class ClockFloor:
    """The highest time and feed stamp that this process has seen of a store, over all its connections."""

    def __init__(self) -> None:
        self.stamp = 0
        """The highest stamp: commits of this process come after it in the feed."""
        self.now_us = 0


_floors: WeakValueDictionary[str, ClockFloor] = WeakValueDictionary()
"""The floor of each store, by store id."""


class Base:
    """Shared by all parts of one store."""

    def __init__(self, network: Network, keys: Keys, scripts: Scripts, store_id: str) -> None:
        self.network = network
        self.keys = keys
        self.scripts = scripts
        self.store_id = store_id
        self.channel = channel(keys.prefix)
        """The channel of hints."""
        self._floor = _floors.setdefault(store_id, ClockFloor())
        self._refused: dict[Partition, tuple[int, float]] = {}
        """For each partition, the size of the largest commit that it lately had no memory for, and
        when to forget it.
        """

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
        """Return the highest store time that was seen."""
        return self._floor.now_us

    def observe(self, now_us: int) -> int:
        """Take over a server's time, and return the store's: servers' clocks differ a little, and
        it never goes back.
        """
        self._floor.now_us = max(self._floor.now_us, now_us)
        return self._floor.now_us

    async def stamps(self) -> list[int]:
        """Return the last stamp of each partition."""
        asks = [Ask(one.slot, ("HGET", one.book, "#time")) for one in self.keys.partitions]
        return [int((time or b"0 0").split(b" ")[1]) for time in await self.network.ask_all(asks)]

    def note_refused(self, partition: Partition, size: int) -> None:
        """Make `probe` check for a while that a commit of this size would find memory.

        A server counts the bytes of a request before it decides, so close to its `maxmemory` it
        refuses large commits and accepts small ones.
        """
        now = self.network.runtime.monotonic()
        most, until = self._refused.get(partition, (0, now))
        # Until the server has freed a large request's bytes, it refuses small ones as well.
        size = max(size, most if now < until else 0)
        self._refused[partition] = (size, now + REFUSED_SECONDS)

    async def probe(self) -> None:
        """Check that every partition would accept a commit, also one as large as it refused lately.

        Raises:
            StoreFull, StoreUnavailable: a partition wouldn't; a commit would get the same error.
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
            # The server then holds a commit twice: as it was received, and parsed.
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
