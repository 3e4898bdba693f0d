"""Redis has bad days: it is wrongly set up, killed, cut off, full, without replicas, on the move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from stepwell.core.port import RunQuery
from stepwell.core.records.errors import OutcomeUnknown, StoreFull, StoreRefused, StoreUnavailable
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Durability, Verdict
from stepwell_drivers.redis.keys import Keys
from stepwell_drivers.redis.opening import PARTITIONS_IN_CLUSTER, SCHEMA
from stepwell_testkit.conformance import builders as b
from tests.chaos.load.chains import (
    SECRET,
    Chain,
    chains_are_whole,
    growing,
    grown_by,
    logs_without_secrets,
    once,
    opened,
    refused,
)
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.shared import redis_cluster
from tests.support.backends.tls import Certificates
from tests.support.patience import until

CLUSTER_KEYS = Keys("stepwell", PARTITIONS_IN_CLUSTER)


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


# --- at the door ---


async def test_a_wrong_password_is_refused_without_telling_it(
    backends: None, caplog: pytest.LogCaptureFixture
) -> None:
    with logs_without_secrets(caplog), Redis(password="another") as server:
        words = await refused(server.url(password=SECRET), StoreRefused)
        assert "user and password" in words
        words = await refused(server.url(password=SECRET, user="nobody"), StoreRefused)
        assert "user and password" in words


async def test_a_server_that_wants_a_password_says_so(backends: None) -> None:
    with Redis(password=SECRET) as server:
        bare = f"redis://127.0.0.1:{server.port}"
        assert "wants a password" in await refused(bare, StoreRefused)
        async with opened(f"redis://:{quote(SECRET, safe='')}@127.0.0.1:{server.port}") as store:
            assert (await store.describe()).durability is Durability.POWER


async def test_a_server_behind_tls_is_asked_who_it_is(server: Redis, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    async with Proxy(server.port, certificates=certificates) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}?prefix=tls"
        async with opened(f"{url}&ssl_ca_certs={certificates.authority}") as store:
            await Chain("secure").grow(store, 2)
        assert "ssl_" in await refused(url, StoreUnavailable)
        await refused(f"redis://127.0.0.1:{proxy.port}?timeout_ms=500", StoreUnavailable)


async def test_nobody_at_the_address_is_unavailable(backends: None) -> None:
    with Redis() as server:
        # Its port is kept for it until it is closed.
        server.stop()
        assert "can be reached" in await refused(server.url(password=SECRET), StoreUnavailable)


async def test_a_server_that_never_answers_is_unavailable(server: Redis) -> None:
    async with Proxy(server.port) as proxy:
        proxy.freeze()
        url = server.url(port=proxy.port, timeout_ms="200")
        assert "answers" in await refused(url, StoreUnavailable)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
async def test_a_server_that_throws_rows_away_is_refused(server: Redis, policy: str) -> None:
    server.configure(maxmemory_policy=policy)
    try:
        words = await refused(server.url(), StoreRefused)
        assert policy in words
        assert "noeviction" in words
    finally:
        server.configure(maxmemory_policy="noeviction")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"appendfsync": "everysec"}, "appendfsync everysec: up to a second and more"),
        ({"appendfsync": "no"}, "appendfsync no"),
        ({"appendonly": "no"}, "appendonly no"),
    ],
)
async def test_what_is_not_synced_at_once_promises_nothing(
    server: Redis, settings: dict[str, str], words: str
) -> None:
    server.configure(**settings)
    try:
        async with opened(server.url(prefix="classes")) as store:
            info = await store.describe()
            assert info.durability is Durability.VOLATILE
            assert words in info.detail
    finally:
        server.configure(appendonly="yes", appendfsync="always")


async def test_a_server_that_hides_its_configuration_promises_what_the_operator_says(
    backends: None,
) -> None:
    users = {"app": "on >pw ~* &* +@all -config"}
    with Redis(users=users) as server:
        url = server.url(user="app", password="pw")
        async with opened(url) as store:
            info = await store.describe()
            assert info.durability is Durability.VOLATILE
            assert "?durability=" in info.detail
        async with opened(f"{url}/?durability=power") as store:
            info = await store.describe()
            assert info.durability is Durability.POWER
            assert "by ?durability" in info.detail


async def test_a_user_who_may_not_do_what_is_needed_is_refused(backends: None) -> None:
    users = {"app": "on >pw ~other* &* +@all"}
    with Redis(users=users) as server:
        words = await refused(server.url(user="app", password="pw"), StoreRefused)
        assert "NOPERM" in words


async def test_a_replica_is_refused_and_its_primary_named(server: Redis) -> None:
    with server.replica() as replica:
        words = await refused(replica.url(), StoreRefused)
        assert f"connect to its primary, 127.0.0.1:{server.port}" in words


async def test_a_cluster_is_opened_as_one_and_nothing_else_is(
    server: Redis, cluster: RedisCluster
) -> None:
    alone = f"redis://127.0.0.1:{cluster.nodes[0].port}"
    assert "redis+cluster://" in await refused(alone, StoreRefused)
    together = f"redis+cluster://127.0.0.1:{server.port}"
    assert "open it as redis://" in await refused(together, StoreRefused)


async def test_a_cluster_that_misses_slots_is_refused(backends: None) -> None:
    with RedisCluster(missing=(100, 199)) as broken:
        words = await refused(broken.url(), StoreRefused)
        assert "nobody in the cluster serves 100" in words


async def test_the_count_of_partitions_is_fixed_at_birth(server: Redis) -> None:
    url = server.url(prefix="counted", partitions="3")
    async with opened(url) as store:
        assert "3 partitions" in (await store.describe()).detail
    async with opened(server.url(prefix="counted")) as store:
        assert "3 partitions" in (await store.describe()).detail
    words = await refused(server.url(prefix="counted", partitions="4"), StoreRefused)
    assert "born with 3 partitions" in words


async def test_a_store_of_a_newer_version_is_refused(server: Redis) -> None:
    async with opened(server.url(prefix="newer")):
        pass
    server.execute("HSET", "{newer}meta", "schema", "999")
    assert "newer version" in await refused(server.url(prefix="newer"), StoreRefused)


async def test_stores_of_other_prefixes_see_nothing_of_each_other(server: Redis) -> None:
    async with (
        opened(server.url(prefix="one")) as one,
        opened(server.url(prefix="one.1")) as other,
    ):
        await Chain("run").grow(one, 3)
        assert (await other.list_runs(RunQuery(tenant_id=b.TENANT))).runs == ()
        assert (await other.feed()).entries == ()


# --- while it works ---


async def test_a_commit_that_never_left_is_tried_again_and_one_that_did_is_not(
    server: Redis,
) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url(port=proxy.port, prefix="cut", connections="1")
        async with opened(url) as store:
            proxy.cut()
            # What may be asked twice is: then the loss is known.
            assert await store.get_run(b.TENANT, "after") is None
            (result,) = await store.commit([b.born("after")])
            assert result.verdict is Verdict.COMMITTED
            proxy.cut_before(b"before@1")
            with pytest.raises(OutcomeUnknown):
                await store.commit([b.born("before")])
            assert await store.get_run(b.TENANT, "before") is None


async def test_a_group_of_which_a_part_was_applied_is_unknown(server: Redis) -> None:
    async with Proxy(server.port) as proxy:
        url = server.url(port=proxy.port, prefix="parts", connections="1")
        async with opened(url) as store:
            group = [b.born(f"part-{at}") for at in range(8)]
            proxy.lose_reply_to(b"part-7@1")
            with pytest.raises(OutcomeUnknown):
                await store.commit(group)
            await proxy.settled()
            results = await store.commit(group)
            assert {result.verdict for result in results} == {Verdict.COMMITTED}


async def test_scripts_that_are_forgotten_under_load_are_sent_again(server: Redis) -> None:
    chains = [Chain(f"run-{at}") for at in range(8)]
    async with opened(server.url(prefix="scripts")) as store:
        async with growing(store, chains):
            for _ in range(10):
                await grown_by(chains, 8)
                await once(lambda: server.execute("SCRIPT", "FLUSH", "SYNC"))
        await chains_are_whole(store, chains)
        assert sum(chain.unknown + chain.unavailable for chain in chains) == 0


async def test_a_full_server_refuses_commits_and_goes_on_when_there_is_room(
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
                await store.commit([b.born("large", input=Payload(data=b"x" * 1_000_000))])
            # What has been begun can be told of, and room can be made.
            assert await store.get_run(b.TENANT, "kept") is not None
            assert list(await store.renew([b.renewal("kept")])) == [False]
            assert await store.delete_run(b.TENANT, "kept", version=1) is False
            server.configure(maxmemory="0")
            await chain.grow(store, 3)
            await chains_are_whole(store, [chain])


async def test_acknowledgements_that_need_a_replica_are_not_given_without_one(
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


async def test_another_event_loop_is_as_good(server: Redis) -> None:
    """uvloop's transports are of no class of asyncio's."""
    uvloop = pytest.importorskip("uvloop")

    async def grow() -> None:
        async with opened(server.url(prefix="uvloop")) as store:
            chain = Chain("quick")
            await chain.grow(store, 3)
            await chains_are_whole(store, [chain])

    await once(lambda: uvloop.run(grow()))
