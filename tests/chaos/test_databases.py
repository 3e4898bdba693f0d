"""Databases that are killed, restarted, down or cut off: nothing acknowledged is lost, and all goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.journal_writes import kept
from tests.chaos.load.chains import (
    SECRET,
    Chain,
    chains_are_whole,
    logs_without_secrets,
    once,
    opened,
    see_no_secret,
)
from tests.chaos.load.players import Load
from tests.support.backends.cluster import RedisCluster
from tests.support.backends.postgres import Postgres
from tests.support.backends.proxy import Proxy
from tests.support.backends.redis import Redis
from tests.support.backends.shared import postgres_server
from tests.support.patience import PATIENCE_S, PAUSE_S, until

pytestmark = pytest.mark.usefixtures("backends")

KILLS = 3
COMMITS = 100

IMPATIENT = {
    "connect_timeout_ms": "1000",
    "statement_timeout_ms": "1000",
    "lock_timeout_ms": "500",
}


class Database(NamedTuple):
    """A database server of our own, with nothing in it."""

    server: Postgres | Redis
    url: Callable[..., str]
    """The address, for a proxy's `port` or its own."""
    restart: Callable[[], object]
    """SIGKILL, and up again."""
    impatient: Mapping[str, str]
    """Limits by which a silent server is given up soon."""


@contextmanager
def _postgres() -> Iterator[Database]:
    server = postgres_server(18, password=SECRET)
    if not isinstance(server, Postgres):
        pytest.skip("needs a server of its own")
    name = server.new_database()
    try:
        yield Database(
            server,
            lambda **how: server.url(name, sslmode="disable", **how),
            lambda: server.restart(kill=True),
            IMPATIENT,
        )
    finally:
        server.start()
        server.drop_database(name)


@contextmanager
def _redis() -> Iterator[Database]:
    with Redis(password=SECRET) as server:
        restart = lambda: server.restart(kill=True)  # noqa: E731 - as the others are
        yield Database(server, server.url, restart, {"timeout_ms": "1000"})


@contextmanager
def _cluster() -> Iterator[Database]:
    with RedisCluster() as cluster:

        def restart() -> None:
            cluster.nodes[1].restart(kill=True)
            cluster.wait_ready()

        yield Database(cluster.nodes[1], lambda **_: cluster.url(), restart, {})


KINDS = {"postgres": _postgres, "redis": _redis, "redis cluster": _cluster}


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    with KINDS[request.param]() as found:
        yield found


def on(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("database", kinds, indirect=True)


@on(*KINDS)
async def test_S3_server_killed_under_load_loses_nothing_acknowledged(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with logs_without_secrets(caplog) as lines:
        async with opened(database.url()) as store, Load([store], tmp_path, "kills") as load:
            for _ in range(KILLS):
                await load.more(COMMITS)
                await once(database.restart)
            await load.more(COMMITS)
            async with opened(database.url()) as other:
                await load.check(other)
    assert load.seen["unknown"] + load.seen["unavailable"] > 0
    if isinstance(database.server, Postgres):
        warned = [line for line in lines if line["log_level"] == "warning"]
        assert any("not listening" in line["event"] and line["todo"] for line in warned)


@on("postgres", "redis")
async def test_restart_between_two_calls_is_not_noticed(database: Database) -> None:
    chain = Chain("run-1")
    async with opened(database.url()) as store:
        await chain.grow(store)
        await once(database.restart)
        assert await store.get_run(*chain.key) is not None
        await chain.grow(store)
    assert chain.errors == []


@on("postgres", "redis")
async def test_server_that_is_down_is_unavailable_until_it_is_back(database: Database) -> None:
    chain = Chain("run-1")
    async with opened(database.url()) as store:
        await chain.grow(store)
        await once(database.server.stop)
        for ask in (lambda: store.commit([chain.next()]), lambda: store.get_run(*chain.key)):
            with pytest.raises(StoreUnavailable) as caught:
                await ask()
            see_no_secret(caught.value)
        await once(database.server.start)
        await chain.grow(store, 3)
        await chains_are_whole(store, [chain])


@on("postgres", "redis")
@pytest.mark.parametrize("silent", [False, True], ids=["cut", "silent"])
@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
async def test_S4_connection_lost_in_the_commit_leaves_it_unknown(
    database: Database, done: bool, silent: bool
) -> None:
    """The outcome is unknown until the same commit is sent again."""
    chain = Chain("run-1")
    limits = database.impatient if silent else {}
    async with (
        Proxy(database.server.port) as proxy,
        opened(database.url(port=proxy.port, **limits), patient=silent) as store,
        opened(database.url()) as other,
    ):
        await chain.grow(store, 2)
        commit = chain.next()
        pattern = commit.commit_id.encode()
        if silent:
            proxy.fall_silent_at(pattern, sent_on=done)
        elif done:
            proxy.lose_reply_to(pattern)
        else:
            proxy.cut_before(pattern)
        with pytest.raises(OutcomeUnknown) as caught:
            await store.commit([commit])
        see_no_secret(caught.value)
        if silent:
            with pytest.raises(StoreUnavailable):
                await store.get_run(*chain.key)
        else:
            await proxy.settled()
        run = await other.get_run(*chain.key)
        assert run is not None
        assert run.version == (commit.version if done else chain.version)
        proxy.heal()
        for _ in range(2):
            assert (await chain.settle(store, commit)).verdict is Verdict.COMMITTED
        await chain.grow(store, 2)
        await chains_are_whole(other, [chain])


@on("postgres", "redis")
@pytest.mark.parametrize("done", [True, False], ids=["done", "not done"])
async def test_J1_recording_whose_connection_is_cut_is_unknown_until_it_is_sent_again(
    database: Database, done: bool
) -> None:
    async with (
        Proxy(database.server.port) as proxy,
        opened(database.url(port=proxy.port)) as store,
    ):
        await ask.must(store, b.created_leased())
        # What the server keeps of a first call, a script, is there.
        await store.write_journal([b.journal_write()])
        write = b.journal_write(b.entry("a"), b.entry("charge#1"))
        cut = proxy.lose_reply_to if done else proxy.cut_before
        cut(b"charge#1")
        with pytest.raises(OutcomeUnknown):
            await store.write_journal([write])
        await proxy.settled()
        assert await kept(store) == (list(write.entries) if done else [])
        (answer,) = await store.write_journal([write])
        assert [one.accepted for one in answer.written] == [True, True]
        assert answer.totals.entries == 2
        assert await kept(store) == list(write.entries)


@on("postgres", "redis")
async def test_hints_come_again_after_their_connection_was_lost(database: Database) -> None:
    received: list[tuple[str, str, int]] = []
    async with (
        Proxy(database.server.port) as proxy,
        opened(database.url()) as writer,
        opened(database.url(port=proxy.port)) as reader,
    ):
        chain = Chain("hinted")
        reader.subscribe(lambda *hint: received.append(hint))
        for version in (1, 2):
            async with asyncio.timeout(PATIENCE_S):
                # The first commits may be made before it listens.
                while not any(run_id == "hinted" for _, run_id, _ in received):
                    await chain.grow(writer)
                    await asyncio.sleep(PAUSE_S)
            if version == 1:
                proxy.cut()
                await until(lambda: ("", "", 0) in received)
                received.clear()
