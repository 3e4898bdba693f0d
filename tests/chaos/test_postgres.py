"""Postgres under strangers that hold on to rows, behind poolers, and turned read-only."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.core.port import Claim, Store
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.states import Verdict
from stepwell_drivers.sql.error_class import Trouble
from stepwell_drivers.sql.postgres import links, writer
from stepwell_drivers.sql.postgres.errors import sqlstate_of, trouble_of
from stepwell_testkit.conformance.builders import (
    TENANT,
    created,
    created_leased,
    ready,
    renewal,
    step,
    want,
)
from tests.chaos.load.chains import (
    Chain,
    Server,
    chains_are_whole,
    logs_without_secrets,
    once,
    opened,
    session,
)
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.patience import PATIENCE_S, PAUSE_S, until
from tests.support.proofs.record import happened

pytestmark = pytest.mark.usefixtures("backends")

RUNS = 64
# For a row's lock: who tells the others of a commit may wait for another one for a moment.
WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = $1 AND wait_event IN ('transactionid', 'tuple')
"""


def connections(server: Server, database: str) -> int:
    sql = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'stepwell'"
    )
    return int(server.fetch(sql, database)[0][0])


# --- a small pool ---


@pytest.mark.proof(meets=["pool exhausted"])
async def test_pool_of_two_serves_64_runs(server: Server, database: str) -> None:
    chains = [Chain(f"run-{number}") for number in range(RUNS)]
    async with opened(server.url(database, pool_size="2")) as store:
        free: asyncio.Semaphore = store._writer._links._free  # pyright: ignore[reportAttributeAccessIssue] - a test of the pool itself
        waited = 0

        async def watch() -> None:
            nonlocal waited
            while True:
                waited += free.locked()
                await asyncio.sleep(0.001)

        async def live(chain: Chain) -> None:
            for _ in range(5):
                await chain.grow(store)
                run = await store.get_run(TENANT, chain.first.run_id)
                assert run is not None
                assert run.version == chain.version
                await store.claim(Claim(wants=(want(),)))

        watching = asyncio.create_task(watch())
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(live(chain) for chain in chains))
        watching.cancel()
        assert waited, "there was always a connection to be had"
        # Heartbeats and listening have one more each.
        assert await once(lambda: connections(server, database)) <= 4
        await chains_are_whole(store, chains)
    await until(lambda: connections(server, database) == 0)
    happened("pool exhausted")


# --- strangers ---


async def test_stranger_idle_in_a_transaction_stops_only_its_own_run(
    server: Server, database: str
) -> None:
    held, free = Chain("held"), [Chain(f"free-{number}") for number in range(8)]
    async with (
        opened(server.url(database, lock_timeout_ms="200")) as store,
        session(server, database) as stranger,
    ):
        await asyncio.gather(*(chain.grow(store) for chain in (held, *free)))
        await store.commit([created_leased("leased"), created("waits", executions=[ready()])])
        held_row = "SELECT 1 FROM stepwell.run_rows WHERE run_id = 'held' FOR UPDATE"
        async with asyncio.timeout(PATIENCE_S), stranger.transaction():
            await stranger.execute(held_row)
            # Together, so that they would be one group.
            refused, *_ = await asyncio.gather(
                store.commit([held.next()]),
                *(chain.grow(store, 3) for chain in free),
                return_exceptions=True,
            )
            assert isinstance(refused, StoreUnavailable), refused
            assert refused.reason == "STORE_BUSY"
            assert "pg_stat_activity" in refused.message
            assert [chain.version for chain in free] == [4] * 8
            assert all(not chain.errors for chain in free)
            assert await store.get_run(TENANT, "held") is not None
            page = await store.read_events(TENANT, "held", after=0, limit=10)
            assert page is not None
            assert page.latest == 1
            assert await store.renew([renewal("leased")]) == [True]
            claimed = await store.claim(Claim(wants=(want(),)))
            assert [one.run_id for one in claimed.ready[0]] == ["waits"]
        await held.grow(store, 2)


@pytest.mark.proof(meets=["serialization failure retried"])
async def test_deadlock_with_a_stranger_is_tried_again(server: Server, database: str) -> None:
    """The stranger holds c and wants a, while a commit holds a and wants c.

    A waiter looks for a deadlock once. So the commit comes to c only when the stranger waits for a: until
    then it is kept at b, by another one.
    """
    chains = [Chain(name) for name in "abc"]
    patient: dict[str, Any] = {"lock_timeout_ms": "60000", "statement_timeout_ms": "120000"}
    lock = "SELECT 1 FROM stepwell.run_rows WHERE run_id = '{}' FOR UPDATE"
    before = deadlocks(server, database)
    async with (
        opened(server.url(database, **patient)) as store,
        session(server, database) as stranger,
        session(server, database) as other,
        session(server, database) as watcher,
    ):
        await asyncio.gather(*(chain.grow(store) for chain in chains))
        # Whoever looks first is the one that is ended: not this one.
        await stranger.execute("SET deadlock_timeout = '600s'")
        async with asyncio.timeout(PATIENCE_S):
            async with stranger.transaction():
                await stranger.execute(lock.format("c"))
                async with other.transaction():
                    await other.execute(lock.format("b"))
                    committing = asyncio.create_task(
                        store.commit([chain.next() for chain in chains])
                    )
                    await _until_waiting(watcher, database, 1)
                    locking = asyncio.create_task(stranger.execute(lock.format("a")))
                    await _until_waiting(watcher, database, 2)
                await locking
            results = await committing
    assert [result.verdict for result in results] == [Verdict.COMMITTED] * 3
    await until(lambda: deadlocks(server, database) > before)
    happened("serialization failure retried")


async def _until_waiting(watcher: Any, database: str, count: int) -> None:
    """Wait until so many wait for somebody's lock."""
    while await watcher.fetchval(WAITING, database) < count:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(PAUSE_S)


def deadlocks(server: Server, database: str) -> int:
    sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = $1"
    return int(server.fetch(sql, database)[0][0])


@pytest.mark.proof(meets=["serialization failure retried"])
@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
async def test_stricter_isolation_costs_retries_and_no_errors(
    isolation: str, server: Server, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stores race for the same runs: each version is won by one of them.

    The race may have no clash; one with a stranger is certain.
    """
    sql = f"ALTER DATABASE \"{database}\" SET default_transaction_isolation = '{isolation}'"
    server.execute(sql)
    runs = [f"run-{number}" for number in range(4)]
    won: dict[tuple[str, int], int] = {}
    met: list[str | None] = []

    def noted(error: BaseException, *, committing: bool = False) -> Trouble:
        met.append(sqlstate_of(error))
        return trouble_of(error, committing=committing)

    monkeypatch.setattr(writer, "trouble_of", noted)
    async with opened(server.url(database)) as one, opened(server.url(database)) as two:

        async def race(store: Store, run_id: str, name: int) -> None:
            commit = created(run_id, commit_id=f"{run_id}@1 by {name}")
            for _ in range(10):
                (result,) = await store.commit([commit])
                if result.verdict is Verdict.COMMITTED:
                    won[run_id, commit.version] = won.get((run_id, commit.version), 0) + 1
                commit = step(commit, commit_id=f"{run_id}@{commit.version + 1} by {name}")

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(
                *(race(store, run_id, n) for n, store in enumerate((one, two)) for run_id in runs)
            )
        for run_id in runs:
            run = await two.get_run(TENANT, run_id)
            assert run is not None
            assert run.version == 10
        assert won == {(run_id, version): 1 for run_id in runs for version in range(1, 11)}
        met.clear()
        await _clash(server, database, one)
    assert "40001" in met
    happened("serialization failure retried")


async def _clash(server: Server, database: str, store: Store) -> None:
    """A stranger changes a run while a commit to it, whose snapshot is older, waits for its lock."""
    chain = Chain("clash")
    await chain.grow(store)
    async with (
        asyncio.timeout(PATIENCE_S),
        session(server, database) as stranger,
        session(server, database) as watcher,
    ):
        async with stranger.transaction():
            await stranger.execute("UPDATE stepwell.run_rows SET phase = '' WHERE run_id = 'clash'")
            committing = asyncio.create_task(store.commit([chain.next()]))
            await _until_waiting(watcher, database, 1)
        (result,) = await committing
    assert result.verdict is Verdict.COMMITTED


# --- poolers ---


async def test_listen_url_past_the_pooler_brings_hints(
    bouncer: PgBouncer, own: Postgres, database: str
) -> None:
    async with (
        opened(
            bouncer.url(database, pooler="transaction", listen_url=own.url(database))
        ) as listening,
        opened(bouncer.url(database, pooler="transaction")) as writing,
    ):
        received: asyncio.Queue[tuple[str, str, int]] = asyncio.Queue()
        listening.subscribe(lambda *words: received.put_nowait(words))
        chain = Chain("run-1")
        async with asyncio.timeout(PATIENCE_S):
            while received.empty():
                await chain.grow(writing)
                await asyncio.sleep(0.05)
        assert (await received.get())[:2] in {(TENANT, "run-1"), ("", "")}


async def test_restart_of_the_pooler_is_survived(bouncer: PgBouncer, database: str) -> None:
    chain = Chain("run-1")
    async with opened(bouncer.url(database, pooler="transaction")) as store:
        await chain.grow(store)
        await once(lambda: bouncer.restart(kill=True))
        await chain.grow(store, 2)
        await chains_are_whole(store, [chain])


async def test_timeouts_hold_behind_a_pooler(
    bouncer: PgBouncer, own: Postgres, database: str
) -> None:
    chain = Chain("held")
    url = bouncer.url(database, pooler="transaction", lock_timeout_ms="200")
    async with opened(url) as store, session(own, database) as stranger:
        await chain.grow(store)
        async with asyncio.timeout(PATIENCE_S), stranger.transaction():
            await stranger.execute("SELECT 1 FROM stepwell.run_rows FOR UPDATE")
            with pytest.raises(StoreUnavailable) as caught:
                await store.commit([chain.next()])
        assert caught.value.reason == "STORE_BUSY"


# --- one server ---


async def test_database_turned_read_only_is_reported_and_comes_back(
    own: Postgres,
    database: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A dead link is noticed before a commit is sent, however short it has rested.
    monkeypatch.setattr(links, "RESTED_S", 0.0)
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
