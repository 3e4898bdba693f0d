"""Redis, Valkey and a cluster under the suite: real servers, and a clock that tests move by hand.

Each store has a prefix of its own. What scripts call the server's wall clock is here a number beside
each partition's own clock: it stands still until a test moves it, forth or back.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from stepwell.core.port import Store
from stepwell.core.records.states import Durability
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store as open_by_url
from stepwell_drivers.redis import scripts
from stepwell_drivers.redis.keys import Keys
from stepwell_drivers.redis.network import Ask, Network
from stepwell_drivers.redis.opening import PARTITIONS, PARTITIONS_IN_CLUSTER
from stepwell_drivers.redis.url import parse
from tests.contract.conformance.urls import UrlFactory
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.redis import Redis
from tests.support.backends.redis_client import OwnRedis
from tests.support.backends.shared import redis_cluster, redis_server

BIRTH_US = 1_700_000_000_000_000
WALL_CLOCK = f"""
local function wall_us(book)
  return tonumber(redis.call('HGET', book, '#wall') or '{BIRTH_US}')
end
"""

_numbers = itertools.count(1)


async def open_with_manual_clock(url: str) -> Store:
    """A store whose scripts ask the number beside the clock."""
    scripts.WALL_CLOCK.append(WALL_CLOCK)
    try:
        # What the driver itself waits for, between tries, it really waits for.
        return await open_by_url(url, runtime=SystemRuntime())
    finally:
        scripts.WALL_CLOCK.pop()


class RedisFactory(UrlFactory):
    """One server, appendfsync always; a store in three parts."""

    name = "redis"
    durability = Durability.POWER
    partitions = 3

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.walls_us: dict[str, int] = {}
        """Each server's wall clock, by URL."""

    def server(self) -> Redis | OwnRedis | RedisCluster:
        return redis_server("redis")

    def new_url(self) -> str:
        url = f"{self.server().url()}"
        options = f"prefix=test.{next(_numbers)}&partitions={self.partitions}"
        return f"{url}{'/' if url.count('/') == 2 else ''}?{options}"

    async def at(self, url: str) -> Store:
        store = await open_with_manual_clock(url)
        self.opened[id(store)] = (store, url)
        self.walls_us.setdefault(url, BIRTH_US)
        return store

    async def join(self, store: Store) -> Store:
        return await self.at(self.opened[id(store)][1])

    async def advance(self, ms: float) -> None:
        await self._move(ms)

    async def step_wall(self, ms: float) -> None:
        # Set forth, it would be time that passed: nobody there can tell the one from the other.
        if ms < 0:
            await self._move(ms)

    async def _move(self, ms: float) -> None:
        for url in self.walls_us:
            self.walls_us[url] += round(ms * 1_000)
            place = parse(url)
            network = Network(place, SystemRuntime())
            try:
                if place.is_cluster:
                    await network.refresh()
                await network.ask_all(
                    [
                        Ask(one.slot, ("HSET", one.book, "#wall", self.walls_us[url]))
                        for one in Keys(place.prefix, self.partitions).partitions
                    ]
                )
            finally:
                # Whoever moves the clock may be cancelled while the connection is being opened.
                await network.close()

    async def close(self) -> None:
        await super().close()
        server = self.server()
        if self.walls_us and not isinstance(server, OwnRedis):
            server.flush()
        self.walls_us.clear()


class ValkeyFactory(RedisFactory):
    """As Redis, undivided; nothing in the driver asks which of them it is."""

    name = "valkey"
    partitions = PARTITIONS

    def server(self) -> Redis | OwnRedis | RedisCluster:
        return redis_server("valkey")


class RedisClusterFactory(RedisFactory):
    """Three masters."""

    name = "redis_cluster"
    partitions = PARTITIONS_IN_CLUSTER

    def server(self) -> Redis | OwnRedis | RedisCluster:
        return redis_cluster("redis")


class ValkeyClusterFactory(RedisClusterFactory):
    """The same of Valkey."""

    name = "valkey_cluster"

    def server(self) -> Redis | OwnRedis | RedisCluster:
        return redis_cluster("valkey")
