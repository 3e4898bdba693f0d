"""Redis servers that can't hold a store are refused with a line that says why, and without the password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from stepwell.core.port import FeedQuery, RunQuery
from stepwell.core.records.errors import StoreRefused, StoreUnavailable
from stepwell.core.records.states import Durability
from stepwell_drivers.redis.keys import Keys
from stepwell_drivers.redis.opening import PARTITIONS_IN_CLUSTER
from stepwell_testkit.conformance import builders as b
from tests.chaos.load.chains import (
    SECRET,
    Chain,
    logs_without_secrets,
    opened,
    refused,
)
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.shared import redis_cluster
from tests.support.backends.tls import Certificates

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


async def test_wrong_password_is_refused_and_not_shown(
    backends: None, caplog: pytest.LogCaptureFixture
) -> None:
    with logs_without_secrets(caplog), Redis(password="another") as server:
        words = await refused(server.url(password=SECRET), StoreRefused)
        assert "user and password" in words
        words = await refused(server.url(password=SECRET, user="nobody"), StoreRefused)
        assert "user and password" in words


async def test_missing_password_is_refused(backends: None) -> None:
    with Redis(password=SECRET) as server:
        bare = f"redis://127.0.0.1:{server.port}"
        assert "wants a password" in await refused(bare, StoreRefused)
        async with opened(f"redis://:{quote(SECRET, safe='')}@127.0.0.1:{server.port}") as store:
            assert (await store.describe()).durability is Durability.POWER


async def test_server_behind_tls_must_prove_itself(server: Redis, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "tls")
    async with Proxy(server.port, certificates=certificates) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}?prefix=tls"
        async with opened(f"{url}&ssl_ca_certs={certificates.authority}") as store:
            await Chain("secure").grow(store, 2)
        assert "ssl_" in await refused(url, StoreUnavailable)
        await refused(f"redis://127.0.0.1:{proxy.port}?timeout_ms=500", StoreUnavailable)


async def test_silent_server_is_unavailable(server: Redis) -> None:
    async with Proxy(server.port) as proxy:
        proxy.freeze()
        url = server.url(port=proxy.port, timeout_ms="200")
        assert "answers" in await refused(url, StoreUnavailable)


async def test_hidden_configuration_leaves_durability_to_the_operator(
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


async def test_user_without_rights_is_refused(backends: None) -> None:
    users = {"app": "on >pw ~other* &* +@all"}
    with Redis(users=users) as server:
        words = await refused(server.url(user="app", password="pw"), StoreRefused)
        assert "NOPERM" in words


def _rights() -> str:
    """Return the rights that the documents give a user."""
    text = (Path(__file__).parents[3] / "docs" / "operating.md").read_text(encoding="utf-8")
    found = re.search("^ACL SETUSER stepwell on >PASSWORD (.+)$", text, re.MULTILINE)
    assert found
    return found[1]


async def test_rights_of_the_documents_are_enough(backends: None) -> None:
    with Redis(users={"app": f"on >pw {_rights()}"}) as server:
        chain = Chain("restricted")
        async with opened(server.url(user="app", password="pw")) as store:
            assert (await store.describe()).durability is Durability.POWER
            await chain.grow(store, 3)
            assert (await store.page(FeedQuery(limit=10))).items


@pytest.mark.parametrize(
    ("without", "words"),
    [
        ("+info", "may not run INFO"),
        ("+@scripting", "may not run EVAL"),
        ("+@pubsub", "may not run PUBLISH"),
        ("&{stepwell}hints", "may not use the store's channel"),
        ("~{stepwell*", "may not use the store's keys"),
    ],
)
async def test_missing_right_is_named_at_the_start(
    backends: None, without: str, words: str
) -> None:
    with Redis(users={"app": f"on >pw {_rights()}".replace(without, "")}) as server:
        said = await refused(server.url(user="app", password="pw"), StoreRefused)
        assert words in said
        assert "\n" not in said


async def test_replica_is_refused_and_its_primary_named(server: Redis) -> None:
    with server.replica() as replica:
        words = await refused(replica.url(), StoreRefused)
        assert f"connect to its primary, 127.0.0.1:{server.port}" in words


async def test_cluster_and_single_server_are_refused_as_each_other(
    server: Redis, cluster: RedisCluster
) -> None:
    alone = f"redis://127.0.0.1:{cluster.nodes[0].port}"
    assert "redis+cluster://" in await refused(alone, StoreRefused)
    together = f"redis+cluster://127.0.0.1:{server.port}"
    assert "open it as redis://" in await refused(together, StoreRefused)


async def test_cluster_with_missing_slots_is_refused(backends: None) -> None:
    with RedisCluster(missing=(100, 199)) as broken:
        words = await refused(broken.url(), StoreRefused)
        assert "nobody in the cluster serves 100" in words


async def test_count_of_partitions_is_fixed_at_creation(server: Redis) -> None:
    url = server.url(prefix="counted", partitions="3")
    async with opened(url) as store:
        assert "3 partitions" in (await store.describe()).detail
    async with opened(server.url(prefix="counted")) as store:
        assert "3 partitions" in (await store.describe()).detail
    words = await refused(server.url(prefix="counted", partitions="4"), StoreRefused)
    assert "created with 3 partitions" in words


@pytest.mark.parametrize(
    ("version", "words"), [("999", "newer version"), ("1", "older version (schema 1")]
)
async def test_store_of_another_version_is_refused(server: Redis, version: str, words: str) -> None:
    url = server.url(prefix=f"version.{version}")
    async with opened(url):
        pass
    server.execute("HSET", f"{{version.{version}}}meta", "schema", version)
    message = await refused(url, StoreRefused)
    assert words in message
    assert version != "1" or "?prefix=" in message


async def test_stores_of_other_prefixes_are_apart(server: Redis) -> None:
    async with (
        opened(server.url(prefix="one")) as one,
        opened(server.url(prefix="one.1")) as other,
    ):
        await Chain("run").grow(one, 3)
        assert (await other.page(RunQuery(tenant_id=b.TENANT))).items == ()
        assert (await other.page(FeedQuery())).items == ()
