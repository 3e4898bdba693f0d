"""Redis at work: connections cut in a request, scripts flushed, memory full, replicas missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.core.port import FeedQuery, Store
from stepwell.core.records.errors import (
    OutcomeUnknown,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Durability, Verdict
from stepwell_drivers.redis import base
from stepwell_drivers.redis.keys import Keys
from stepwell_drivers.redis.opening import PARTITIONS_IN_CLUSTER, SCHEMA
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.chaos.load.chains import (
    Chain,
    chains_are_whole,
    once,
    opened,
    refused,
)
from tests.chaos.load.players import Load
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.redis_log import log_of
from tests.support.backends.shared import redis_cluster
from tests.support.patience import insisting, until

CLUSTER_KEYS = Keys("stepwell", PARTITIONS_IN_CLUSTER)
READINESS = b.presence(tenant="")
"""As a replica writes it to learn whether commits are taken."""


@pytest.fixture(scope="module")
def server(backends: None) -> Iterator[Redis]:
    with Redis() as running:
        yield running


@pytest.fixture
def cluster(backends: None) -> Iterator[RedisCluster]:
    running = redis_cluster()
    running.flush()
    yield running
    running.flush()


async def test_commit_is_sent_again_only_if_it_never_left(
    server: Redis,
) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url(port=proxy.port, prefix="cut", connections="1")
        async with opened(url) as store:
            proxy.cut()
            # What may be asked twice is: then the loss is known.
            assert await store.get_run(b.TENANT, "after") is None
            (result,) = await store.commit([b.created("after")])
            assert result.verdict is Verdict.COMMITTED
            proxy.cut_before(b"before@1")
            with pytest.raises(OutcomeUnknown):
                await store.commit([b.created("before")])
            assert await store.get_run(b.TENANT, "before") is None


async def test_S4_group_applied_in_part_is_unknown(server: Redis) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url(port=proxy.port, prefix="parts", connections="1")
        async with opened(url) as store:
            group = [b.created(f"part-{at}") for at in range(8)]
            proxy.lose_reply_to(b"part-7@1")
            with pytest.raises(OutcomeUnknown):
                await store.commit(group)
            await proxy.settled()
            results = await store.commit(group)
            assert {result.verdict for result in results} == {Verdict.COMMITTED}


async def test_scripts_flushed_under_load_are_sent_again(server: Redis, tmp_path: Path) -> None:
    async with opened(server.url(prefix="scripts")) as store:
        async with Load([store], tmp_path, "scripts") as load:
            for _ in range(10):
                await load.more(10)
                await once(lambda: server.execute("SCRIPT", "FLUSH", "SYNC"))
            await load.check(store)
        assert load.seen["unknown"] + load.seen["unavailable"] == 0


async def test_D4_full_memory_refuses_commits_until_there_is_room(
    backends: None,
) -> None:
    chain = Chain("kept")
    with Redis() as server:
        async with opened(server.url()) as store:
            await chain.grow(store, 3)
            server.configure(maxmemory="1mb")
            with pytest.raises(StoreFull, match="maxmemory"):
                await store.commit([chain.next()])
            with pytest.raises(StoreFull):
                await store.commit([b.created("large", input=Payload(data=b"x" * 1_000_000))])
            with pytest.raises(StoreFull, match="maxmemory"):
                await store.put_presence([READINESS], ttl_ms=1_000)
            # Reads and heartbeats are answered, workers stay known, and room can be made.
            await store.put_presence([b.presence()], ttl_ms=1_000)
            assert await store.get_run(b.TENANT, "kept") is not None
            assert list(await store.renew([b.renewal("kept")])) == [False]
            assert await store.delete_run(b.TENANT, "kept", version=1) is False
            server.configure(maxmemory="0")
            await store.put_presence([READINESS], ttl_ms=1_000)
            await chain.grow(store, 3)
            await chains_are_whole(store, [chain])


LARGE = b.created("large", input=Payload(data=b"x" * 8_000_000))


async def _fill(server: Redis, store: Store) -> None:
    """Leave memory for small commits and none for a large one, which is refused."""
    used = int(server.execute("INFO", "memory")["used_memory"])
    server.configure(maxmemory=str(used + 4_000_000))
    with pytest.raises(StoreFull, match="maxmemory"):
        await store.commit([LARGE])
    # The server lets go a little later of what it was sent.
    await insisting(lambda: ask.must(store, b.created("small")))


async def test_redis_without_memory_for_a_large_commit_is_not_ready_until_it_has(
    backends: None,
) -> None:
    with Redis() as server:
        async with opened(server.url()) as store:
            await _fill(server, store)
            for _ in range(2):
                with pytest.raises(StoreFull, match="maxmemory"):
                    await store.put_presence([READINESS], ttl_ms=1_000)
            server.configure(maxmemory="100mb")
            await store.put_presence([READINESS], ttl_ms=1_000)
            await ask.must(store, LARGE)


async def test_redis_is_ready_again_when_nobody_asks_for_a_large_commit_any_more(
    backends: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "REFUSED_SECONDS", 0.0)
    with Redis() as server:
        async with opened(server.url()) as store:
            await _fill(server, store)
            await store.put_presence([READINESS], ttl_ms=1_000)


@pytest.mark.parametrize("index", range(3))
async def test_cluster_with_one_full_or_emptied_master_is_not_ready(
    cluster: RedisCluster, index: int
) -> None:
    node = cluster.nodes[index]
    async with opened(cluster.url()) as store:
        await store.put_presence([READINESS], ttl_ms=1_000)
        await once(lambda: node.configure(maxmemory="1mb"))
        with pytest.raises(StoreFull, match="maxmemory"):
            await store.put_presence([READINESS], ttl_ms=1_000)
        await once(lambda: node.configure(maxmemory="0"))
        await store.put_presence([READINESS], ttl_ms=1_000)
        await once(lambda: node.execute("FLUSHALL"))
        with pytest.raises(StoreUnavailable, match="emptied"):
            await store.put_presence([READINESS], ttl_ms=1_000)


async def test_S3_nothing_is_acknowledged_after_the_servers_were_emptied(server: Redis) -> None:
    url = server.url(prefix="emptied")
    births = [b.created(f"run-{at}") for at in range(40)]
    chain = Chain("kept")
    async with opened(url) as store:
        await chain.grow(store, 3)

        async def sees_it() -> None:
            for commit in (chain.next(), *births):
                with pytest.raises(StoreUnavailable, match="emptied"):
                    await store.commit([commit])
            with pytest.raises(StoreUnavailable, match="emptied"):
                await store.put_presence([READINESS], ttl_ms=1_000)

        await once(server.flush)
        await sees_it()
        # Another server creates the store again, with another layout: neither writes into the
        # other's.
        async with opened(server.url(prefix="emptied", partitions="4")) as new:
            await sees_it()
            await ask.must(new, b.created("run-1"))
            assert [one.run_id for one in (await new.page(FeedQuery())).items] == ["run-1"]


async def test_S3_store_that_lost_a_partition_is_not_opened(server: Redis) -> None:
    url = server.url(prefix="parted", partitions="2")
    lost, whole = Keys("parted", 2).partitions
    async with opened(url) as store:
        await ask.must(store, b.created())
        await once(lambda: server.execute("DEL", lost.book.decode()))
        with pytest.raises(StoreUnavailable, match="emptied"):
            await store.put_presence([READINESS], ttl_ms=1_000)
    words = await refused(url, StoreRefused)
    assert "partition 0" in words
    # Interrupted when it was created, it is completed.
    await once(lambda: server.execute("HDEL", "{parted}meta", "settled"))
    async with opened(url) as store:
        await store.put_presence([READINESS], ttl_ms=1_000)
    assert server.execute("HGET", lost.book.decode(), "#store") == server.execute(
        "HGET", whole.book.decode(), "#store"
    )


async def test_S3_commit_is_unknown_without_the_replica_it_waits_for(
    server: Redis,
) -> None:
    url = server.url(prefix="waits", wait="1", wait_ms="100")
    chain = Chain("waits")
    async with opened(url) as store:
        info = await store.describe()
        assert info.durability is Durability.NODE
        assert "waits for 1 replica" in info.detail
        with pytest.raises(OutcomeUnknown, match="0 of the 1 replicas"):
            await store.commit([chain.first])
        with server.replica() as replica:
            await until(
                lambda: (
                    "state=online" in str(server.execute("INFO", "replication"))
                    or server.execute("INFO", "replication").get("slave0", {}).get("state")
                    == "online"
                )
            )
            await chain.grow(store, 5)
            assert replica.execute("HGET", "{waits}meta", "schema") == str(SCHEMA)


async def test_uvloop_serves_as_well(server: Redis) -> None:
    """uvloop's transports are of no class of asyncio's."""
    uvloop = pytest.importorskip("uvloop")

    async def grow() -> None:
        async with opened(server.url(prefix="uvloop")) as store:
            chain = Chain("quick")
            await chain.grow(store, 3)
            await chains_are_whole(store, [chain])

    await once(lambda: uvloop.run(grow()))


def spelled(*commands: tuple[str, ...]) -> bytes:
    """Return commands as they stand in the log."""
    return b"".join(
        b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
        for words in commands
    )


HALF = spelled(("MULTI",), ("SET", "half", "of it"))
TORN = {
    "between its commands": HALF,
    "in a command": HALF + spelled(("SET", "other", "half"))[:20],
    "in its end": HALF + spelled(("SET", "other", "half"), ("EXEC",))[:-4],
}


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_S1_S3_torn_transaction_leaves_nothing_and_what_follows_stays(kind: str) -> None:
    with Redis(kind) as server:
        kept: dict[str, str] = {}
        for where, end in TORN.items():
            server.kill()
            with log_of(server.folder).open("ab") as file:
                file.write(end)
            server.start()
            assert server.mended == len(kept) + 1, where
            server.execute("SET", where, "acknowledged")
            kept[where] = "acknowledged"
            server.restart(kill=True)
            held = {name: server.execute("GET", name) for name in server.execute("KEYS", "*")}
            assert held == kept, where
