"""A Postgres that dies, hangs, fills up or cuts us off: nothing acknowledged is lost, all goes on."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from stepwell.core.port import Commit, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Verdict
from stepwell_testkit.conformance.builders import TENANT, born
from tests.chaos.load.chains import (
    SECRET,
    Chain,
    Server,
    chains_are_whole,
    logs_without_secrets,
    once,
    opened,
    see_no_secret,
    until,
)
from tests.support.backends.postgres import Postgres, hand_over
from tests.support.backends.proxy import Proxy
from tests.support.backends.shared import postgres_server
from tests.support.backends.small_disk import small_disk
from tests.support.patience import PATIENCE_S, insisting

pytestmark = pytest.mark.usefixtures("backends")

KILLS = 3
TRIES_MAX = 50
SMALL_MIB = 24
SERVER_MIB = 160
LEFT_MIB = 24


@pytest.fixture
def server() -> Iterator[Server]:
    found = postgres_server(18, password=SECRET)
    yield found
    # A test may have left it down, or frozen.
    found.start()


@pytest.fixture
def own(server: Server) -> Postgres:
    if not isinstance(server, Postgres):
        pytest.skip("needs a server of its own")
    return server


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    name = server.new_database()
    yield name
    server.start()
    server.drop_database(name)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a silent server is cut off soon."""
    monkeypatch.setattr("stepwell_drivers.sql.postgres.links.MARGIN_MS", 100)


# --- restarts ---


async def test_killed_and_restarted_under_load(
    own: Postgres, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    chains = [Chain(f"run-{number}") for number in range(16)]
    enough = asyncio.Event()

    async def work(chain: Chain) -> None:
        while not enough.is_set():
            await chain.grow(store)

    with logs_without_secrets(caplog) as lines:
        async with opened(own.url(database)) as store:
            working = [asyncio.create_task(work(chain)) for chain in chains]
            for kill in range(KILLS):
                await _grown_to(chains, 200 * (kill + 1))
                await once(lambda: own.restart(kill=True))
            await _grown_to(chains, 200 * (KILLS + 1))
            enough.set()
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*working)
            await chains_are_whole(store, chains)
        async with opened(own.url(database)) as store:
            await chains_are_whole(store, chains)
    assert sum(chain.unknown + chain.unavailable for chain in chains) > 0
    told = [line for line in lines if line["log_level"] == "warning"]
    assert any("not listening" in line["event"] and line["todo"] for line in told)


async def _grown_to(chains: Sequence[Chain], count: int) -> None:
    await until(lambda: sum(chain.version for chain in chains) > count)


async def test_a_restart_between_two_calls_is_not_noticed(own: Postgres, database: str) -> None:
    chain = Chain("run-1")
    async with opened(own.url(database)) as store:
        await chain.grow(store)
        await once(lambda: own.restart(kill=True))
        assert await store.get_run(TENANT, "run-1") is not None
        await chain.grow(store)
    assert chain.errors == []


async def test_a_server_that_is_down_is_told_and_comes_back(own: Postgres, database: str) -> None:
    chain = Chain("run-1")
    async with opened(own.url(database)) as store:
        await chain.grow(store)
        await once(own.stop)
        with pytest.raises(StoreUnavailable) as caught:
            await store.commit([chain.next()])
        see_no_secret(caught.value)
        with pytest.raises(StoreUnavailable) as caught:
            await store.get_run(TENANT, "run-1")
        see_no_secret(caught.value)
        await once(own.start)
        await chain.grow(store, 3)
        await chains_are_whole(store, [chain])


# --- the connection ---


@pytest.mark.parametrize("done", [True, False], ids=["was-done", "was-not-done"])
async def test_cut_in_the_commit(done: bool, own: Postgres, database: str) -> None:
    """After COMMIT was sent nobody knows, until the same commit is sent again."""
    chain = Chain("run-1")
    async with (
        Proxy(own.port) as proxy,
        opened(own.url(database, port=proxy.port)) as store,
        opened(own.url(database)) as beside,
    ):
        await chain.grow(store, 2)
        break_it = proxy.lose_reply_to if done else proxy.cut_before
        commit = await _commit_without_answer(store, chain, proxy, break_it)
        await proxy.settled()
        run = await beside.get_run(TENANT, "run-1")
        assert run is not None
        assert run.version == (commit.version if done else chain.version)
        for _ in range(2):
            result = await chain.settle(store, commit)
            assert result.verdict is Verdict.COMMITTED
        chain.acknowledged = commit
        await chain.grow(store)
        await chains_are_whole(beside, [chain])


async def _commit_without_answer(
    store: Store, chain: Chain, proxy: Proxy, break_it: Callable[[bytes], None]
) -> Commit:
    """Commit until it is a commit's COMMIT that was broken: notices to other replicas have theirs."""
    for _ in range(TRIES_MAX):
        proxy.heal()
        break_it(b"COMMIT")
        commit = chain.next()
        try:
            await store.commit([commit])
        except OutcomeUnknown as error:
            see_no_secret(error)
            return commit
        chain.acknowledged = commit
    raise AssertionError("no commit was ever broken")


async def test_cut_before_the_commit_nothing_was_done(own: Postgres, database: str) -> None:
    async with (
        Proxy(own.port) as proxy,
        opened(own.url(database, port=proxy.port)) as store,
    ):
        commit = born()
        chain = Chain("warm")
        await chain.grow(store)
        # The id is in what is sent first.
        proxy.lose_reply_to(commit.commit_id.encode())
        with pytest.raises(StoreUnavailable):
            await store.commit([commit])
        await proxy.settled()
        assert await store.get_run(TENANT, commit.run_id) is None
        (result,) = await store.commit([commit])
        assert result.verdict is Verdict.COMMITTED


async def test_a_silent_server_ends_no_one_s_patience(
    own: Postgres, database: str, impatient: None
) -> None:
    """SIGSTOP: sockets stay open and nothing answers. The watch cuts; a thaw mends."""
    chain = Chain("run-1")
    limits: dict[str, Any] = {
        "statement_timeout_ms": "500",
        "lock_timeout_ms": "100",
        "connect_timeout_ms": "700",
    }
    async with (
        opened(own.url(database, **limits), insist=True) as store,
        opened(own.url(database)) as beside,
    ):
        await chain.grow(store)
        await once(own.freeze)
        try:
            async with asyncio.timeout(PATIENCE_S / 2):
                with pytest.raises((StoreUnavailable, OutcomeUnknown)) as caught:
                    await store.commit([chain.next()])
                see_no_secret(caught.value)
                with pytest.raises(StoreUnavailable):
                    await store.get_run(TENANT, "run-1")
        finally:
            await once(own.thaw)
        await chain.grow(store, 2)
        await _reads_again(store, chain)
        await chains_are_whole(beside, [chain])


async def _reads_again(store: Store, chain: Chain) -> None:
    """Limits as short as these a busy machine may miss once more."""
    run = await insisting(lambda: store.get_run(TENANT, chain.first.run_id))
    assert run is not None
    assert run.version == chain.version


async def test_a_fail_over_to_read_only_and_back(
    own: Postgres, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    chain = Chain("run-1")
    url = own.url(database)
    ours = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    with logs_without_secrets(caplog):
        async with opened(url) as store:
            await chain.grow(store)
            setting = f'ALTER DATABASE "{database}" SET default_transaction_read_only'
            await once(lambda: own.execute(f"{setting} = on"))
            await once(lambda: own.execute(ours, database))
            with pytest.raises(StoreUnavailable) as caught:
                await store.commit([chain.next()])
            assert caught.value.reason == "STORE_READ_ONLY"
            assert "name the primary" in caught.value.message
            assert await store.get_run(TENANT, "run-1") is not None
            await once(lambda: own.execute(f"{setting} = off"))
            # Without a cut: those that were refused are thrown away.
            await chain.grow(store, 2)
            await chains_are_whole(store, [chain])


# --- full disks ---


async def test_a_full_disk_is_told_and_work_goes_on_when_there_is_room(own: Postgres) -> None:
    database = own.new_name()
    with small_disk(own.folder, SMALL_MIB) as disk:
        place = disk / "tables"
        place.mkdir(mode=0o700)
        hand_over(place)
        own.execute(f"CREATE TABLESPACE \"{database}\" LOCATION '{place}'")
        own.execute(f'CREATE DATABASE "{database}" TEMPLATE template0 TABLESPACE "{database}"')
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(4 * 1024 * 1024))
        try:
            await _fill(own, database, ballast)
        finally:
            own.drop_database(database)
            own.execute(f'DROP TABLESPACE "{database}"')


def _big(number: int) -> Commit:
    data = number.to_bytes(4) + os.urandom(512 * 1024)
    return born(f"run-{number}", input=Payload(data=data, media_type="application/octet-stream"))


async def _commit_until_it_fails(store: Store, kept: list[Commit]) -> None:
    """Keep what was acknowledged; the first error ends it."""
    while len(kept) < SERVER_MIB:
        commit = _big(len(kept))
        await store.commit([commit])
        kept.append(commit)


async def _all_are_there(store: Store, kept: Sequence[Commit]) -> None:
    assert len(kept) > 4
    for commit in kept:
        (stored,) = await store.read_payloads(TENANT, commit.run_id, ["input"])
        assert stored.payload == commit.input


async def _fill(own: Postgres, database: str, ballast: Path) -> None:
    kept: list[Commit] = []
    async with opened(own.url(database)) as store:
        with capture_logs() as lines, pytest.raises(StoreFull) as caught:
            await _commit_until_it_fails(store, kept)
        assert caught.value.reason == "STORE_FULL"
        assert [line["event"] for line in lines] == ["the store could not write"]
        for words in (caught.value.message, lines[0]["why"]):
            assert "work goes on when there is space" in words
        assert await store.get_run(TENANT, f"run-{len(kept)}") is None
        await once(ballast.unlink)
        kept.append(_big(len(kept)))
        (result,) = await store.commit(kept[-1:])
        assert result.verdict is Verdict.COMMITTED
        await _all_are_there(store, kept)


async def test_a_disk_that_is_full_for_the_servers_log(own: Postgres) -> None:
    """Postgres itself goes down then, in the middle of a commit; it comes back when there is room."""
    with small_disk(own.folder, SERVER_MIB) as disk:
        settings = {"max_wal_size": "64MB", "min_wal_size": "32MB"}
        server = Postgres(18, password=SECRET, inside=disk, settings=settings)
        try:
            await once(server.start)
            await _fill_log(server, disk)
        finally:
            server.close()


async def _fill_log(server: Postgres, disk: Path) -> None:
    ballast = disk / "ballast"
    kept: list[Commit] = []
    async with opened(server.url(server.new_database(), connect_timeout_ms="1000")) as store:
        await store.commit([born("first")])
        size = shutil.disk_usage(disk).free - LEFT_MIB * 1024 * 1024
        await once(lambda: ballast.write_bytes(bytes(max(0, size))))
        with pytest.raises((StoreUnavailable, OutcomeUnknown)) as caught:
            await _commit_until_it_fails(store, kept)
        see_no_secret(caught.value)
        await once(ballast.unlink)
        await once(lambda: server.restart(kill=True))
        kept.append(_big(len(kept)))
        chain = Chain(kept[-1].run_id)
        chain.first = kept[-1]
        await chain.grow(store, 2)
        await _all_are_there(store, kept)


# --- another machine ---


async def test_a_synchronous_standby_that_hangs_acknowledges_nothing(
    own: Postgres, database: str, impatient: None
) -> None:
    """COMMIT is done here and not there: who waits is cut off, and told that nobody knows."""
    chain = Chain("run-1")
    limits: dict[str, Any] = {"statement_timeout_ms": "500", "lock_timeout_ms": "100"}
    with own.standby() as standby:
        await once(lambda: own.configure(synchronous_standby_names="*"))
        try:
            async with (
                opened(own.url(database, **limits), insist=True) as store,
                opened(own.url(database)) as beside,
            ):
                assert (await store.describe()).durability == "NODE"
                await chain.grow(store)
                await once(standby.freeze)
                commit = chain.next()
                with pytest.raises(OutcomeUnknown):
                    await _sent(store, commit)
                await once(standby.thaw)
                await chain.grow(store, 2)
                await _reads_again(store, chain)
                await chains_are_whole(beside, [chain])
        finally:
            await once(standby.thaw)
            await once(lambda: own.configure(synchronous_standby_names=""))


async def _sent(store: Store, commit: Commit) -> None:
    """Send it until its COMMIT is: limits as short as these may cut it off before that."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await store.commit([commit])
            except StoreUnavailable:
                continue
            return
