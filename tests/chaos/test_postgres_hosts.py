"""Postgres with a standby: which of several hosts is used, what a hanging one costs, and where a cursor holds."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from stepwell.core.port import Commit, FeedQuery, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreRefused, StoreUnavailable
from stepwell_testkit.conformance.builders import TENANT
from tests.chaos.load.chains import Chain, chains_are_whole, once, opened, refused, session
from tests.support.backends.child import until as until_in_time
from tests.support.backends.postgres import Postgres
from tests.support.backends.postgres_pair import PostgresPair
from tests.support.patience import PATIENCE_S, insisting


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a silent server up soon."""
    monkeypatch.setattr("stepwell_drivers.sql.postgres.links.MARGIN_MS", 100)


async def test_S4_commit_is_unknown_while_the_synchronous_standby_hangs(
    own: Postgres, database: str, impatient: None
) -> None:
    """COMMIT is done here and not there: the waiting call is cut off, with its outcome unknown."""
    chain = Chain("run-1")
    limits: dict[str, Any] = {"statement_timeout_ms": "500", "lock_timeout_ms": "100"}
    with own.standby() as standby:
        await once(lambda: own.configure(synchronous_standby_names="*"))
        try:
            async with (
                opened(own.url(database, **limits), patient=True) as store,
                opened(own.url(database)) as other,
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
                await chains_are_whole(other, [chain])
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


async def _reads_again(store: Store, chain: Chain) -> None:
    """Limits as short as these a busy machine may miss once more."""
    run = await insisting(lambda: store.get_run(TENANT, chain.first.run_id))
    assert run is not None
    assert run.version == chain.version


async def test_silent_host_does_not_hide_the_next(pair: PostgresPair) -> None:
    name = pair.primary.new_database()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{pair.primary.port}"
        options = "sslmode=disable&connect_timeout_ms=500"
        async with asyncio.timeout(PATIENCE_S):
            async with opened(f"postgresql://stepwell@{hosts}/{name}?{options}") as store:
                chain = Chain("run")
                await chain.grow(store, 3)


async def test_standby_without_the_database_yet_does_not_hide_the_primary(
    pair: PostgresPair,
) -> None:
    """A standby shows a database once it has replayed the log; the primary is asked all the same."""
    primary, standby = pair.primary, pair.standby
    assert standby is not None
    standby.execute("SELECT pg_wal_replay_pause()")
    try:
        assert until_in_time(lambda: _replay(standby) == "paused", PATIENCE_S), _replay(standby)
        name = primary.new_database()
        async with opened(_url(name, standby, primary)) as store:
            await Chain("run").grow(store, 3)
    finally:
        standby.execute("SELECT pg_wal_replay_resume()")


async def test_database_that_no_host_has_is_refused(pair: PostgresPair) -> None:
    assert pair.standby is not None
    for order in ((pair.primary, pair.standby), (pair.standby, pair.primary)):
        said = await refused(_url("nowhere", *order), StoreRefused)
        assert 'database "nowhere" does not exist' in said


def _url(database: str, *servers: Postgres) -> str:
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in servers)
    return f"postgresql://stepwell@{hosts}/{database}?sslmode=disable"


def _replay(standby: Postgres) -> str:
    return standby.fetch("SELECT pg_get_wal_replay_pause_state()")[0][0]


async def test_E3_feed_cursor_of_now_misses_nothing_behind_a_fail_over(
    pair: PostgresPair,
) -> None:
    """Numbers of transactions that no server will remember are given again by the next primary."""
    name = pair.primary.new_database()
    # What is not waited for reaches the standby this late.
    pair.primary.configure(wal_writer_delay="10s")
    async with opened(pair.url(name)) as store:
        chain = Chain("run")
        await chain.grow(store, 3)
        async with session(pair.primary, name) as other:
            await other.execute("SET synchronous_commit = off")
            for _ in range(40):
                await other.execute("SELECT pg_current_xact_id()")
        cursor = (await store.page(FeedQuery(cursor="now"))).cursor
        pair.primary.kill()
        old = await asyncio.to_thread(pair.promote)
        await chain.grow(store, 3)
        await asyncio.to_thread(pair.retire, old)
        async with asyncio.timeout(PATIENCE_S):
            while not (page := await store.page(FeedQuery(cursor=cursor))).items:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
    assert [(one.tenant_id, one.version) for one in page.items] == [
        (TENANT, 4),
        (TENANT, 5),
        (TENANT, 6),
    ]
