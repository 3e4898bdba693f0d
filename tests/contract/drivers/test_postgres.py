"""Postgres' own promises: links, locks between doors, hints, the feed, a pooler, the schema."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from stepwell.core.port import (
    Claim,
    FeedQuery,
    KeySwap,
    LogsOfExecution,
    OldLogs,
    Reservation,
)
from stepwell.core.records.states import LogKind, Verdict
from stepwell_drivers.sql import schema, views
from stepwell_drivers.sql.error_class import Trouble
from stepwell_drivers.sql.postgres import writer
from stepwell_drivers.sql.postgres.commits import CALL, CommitCalls
from stepwell_drivers.sql.postgres.errors import trouble_of
from stepwell_drivers.sql.store import SqlStore
from stepwell_drivers.sql.writes import CommitWork
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon
from tests.contract.drivers.postgres_place import Place
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.patience import until

_names = itertools.count(1)


@pytest.fixture(scope="module")
def server(backends: None) -> Iterator[Postgres]:
    with Postgres(18, fsync=False) as started:
        yield started


@pytest.fixture
async def place(server: Postgres) -> AsyncIterator[Place]:
    found = Place(server)
    yield found
    await found.close()


# --- groups --------------------------------------------------------------------------------------


async def test_a_cancelled_read_leaves_its_link_whole(place: Place) -> None:
    store = await place.open(pool_size="2")
    await ask.must(store, b.created())
    for _ in range(20):
        call = asyncio.ensure_future(store.get_run(b.TENANT, b.RUN))
        await asyncio.sleep(0)
        call.cancel()
    assert await ask.version_of(store) == 1


# --- several doors -------------------------------------------------------------------------------


async def test_doors_that_write_the_same_runs_wait_for_each_other_and_never_for_ever(
    place: Place,
) -> None:
    doors = [await place.open() for _ in range(2)]
    names = [f"run-{at}" for at in range(12)]
    await ask.must(doors[0], *[b.created_leased(name) for name in names])
    won = 0

    async def write(door: SqlStore, mine: str, order: list[str]) -> None:
        nonlocal won
        for _ in range(15):
            loaded = [await ask.loaded(door, run_id=name) for name in order]
            steps = [
                replace(
                    b.step(b.created_leased(name)),
                    version=one.run.version + 1,
                    run=replace(one.run, version=one.run.version + 1),
                    commit_id=f"{mine}-{name}-{one.run.version}",
                    events=(),
                )
                for name, one in zip(order, loaded, strict=True)
            ]
            beats = [b.renewal(name) for name in reversed(order)]
            results, renewed = await asyncio.gather(door.commit(steps), door.renew(beats))
            assert all(renewed)
            won += sum(result.verdict is Verdict.COMMITTED for result in results)

    await asyncio.gather(write(doors[0], "a", names), write(doors[1], "b", list(reversed(names))))
    total = sum([(await ask.loaded(doors[0], run_id=name)).run.version - 1 for name in names])
    assert won == total


@pytest.mark.parametrize("other", ["swap", "deletion"])
async def test_two_that_lock_the_same_keys_in_other_orders_do_not_wait_in_a_circle(
    place: Place, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    met: list[str] = []

    def note(error: Exception, *, committing: bool) -> Trouble:
        met.append(type(error).__name__)
        return trouble_of(error, committing=committing)

    monkeypatch.setattr(writer, "trouble_of", note)
    here, there, client = await place.open(), await place.open(), await place.client()
    keys = [f"key {at}" for at in range(5)]
    stands, first, second = (
        Reservation(run_id=run_id, commit_id="c") for run_id in (b.RUN, "first", "second")
    )
    await ask.must(here, b.created())
    await here.swap_keys(b.TENANT, "", [KeySwap(key=key, after=stands) for key in keys])
    slow = client.transaction()
    await slow.start()
    await client.execute("SELECT 1 FROM reservations WHERE key = 'key 2' FOR UPDATE")

    async def waits(many: int) -> bool:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        # By a connection of its own: a transaction sees this view as it was when it first looked.
        return bool((await place.fetch(sql))[0][0] >= many)

    swaps = [KeySwap(key=key, before=stands, after=first) for key in keys]
    one = asyncio.ensure_future(here.swap_keys(b.TENANT, "", swaps))
    await until(lambda: waits(1))
    swaps = [KeySwap(key=key, before=stands, after=second) for key in reversed(keys)]
    two = asyncio.ensure_future(
        there.swap_keys(b.TENANT, "", swaps)
        if other == "swap"
        else there.delete_run(b.TENANT, b.RUN, version=1)
    )
    await until(lambda: waits(2))
    await slow.commit()
    assert list(await one) == [first] * 5
    assert await two == ([first] * 5 if other == "swap" else True)
    assert met == []
    await client.close()


async def test_store_notifies_others_and_itself_once(place: Place) -> None:
    here, there = await place.open(), await place.open()
    received_here: list[tuple[str, int]] = []
    received_there: list[tuple[str, int]] = []
    here.subscribe(lambda _, run_id, version: received_here.append((run_id, version)))
    there.subscribe(lambda _, run_id, version: received_there.append((run_id, version)))

    async def shown() -> bool:
        await ask.must(here, b.created(f"run-{next(_names)}"))
        return await soon(lambda: bool(received_there), within_s=0.5)

    while not await shown():
        pass
    assert await soon(lambda: {one for one in received_there if one[0]} <= set(received_here))
    named = [one for one in received_here if one[0]]
    assert len(named) == len(set(named))


async def test_the_feed_skips_nothing_of_transactions_that_are_open_for_long(place: Place) -> None:
    store = await place.open()
    await ask.must(store, b.created("before"))
    cursor = (await store.page(FeedQuery())).cursor
    client = await place.client()
    slow = client.transaction()
    await slow.start()
    await client.execute(
        "INSERT INTO commits (tenant_id, run_key, deleted_run_id, version) VALUES ('t', 0, 'slow', -1)"
    )
    await ask.must(store, b.created("after"))
    page = await store.page(FeedQuery(cursor=cursor))
    seen = [entry.run_id for entry in page.items]
    await slow.commit()
    seen += [entry.run_id for entry in (await store.page(FeedQuery(cursor=page.cursor))).items]
    assert sorted(seen) == ["after", "slow"]
    await client.close()


async def test_all_of_it_goes_through_a_pooler_in_transaction_mode(server: Postgres) -> None:
    with PgBouncer(server, pool_size=3) as pooler:
        place = Place(pooler)
        doors = [await place.open(pooler="transaction") for _ in range(2)]
        commits = [
            b.created(f"run-{at}", executions=[b.leased(), b.ready("task:b#1")], leases=[b.lease()])
            for at in range(20)
        ]
        for _ in range(4):
            calls = [doors[at % 2].commit([commit]) for at, commit in enumerate(commits)]
            looks = [doors[1].get_run(b.TENANT, "run-1") for _ in range(20)]
            answers, *_ = await asyncio.gather(asyncio.gather(*calls), asyncio.gather(*looks))
            assert {result.verdict for (result,) in answers} == {Verdict.COMMITTED}
            commits = [b.step(commit) for commit in commits]
        assert await doors[0].renew([b.renewal("run-3")]) == [True]
        request = Claim(wants=(b.want(limit=100),), hold_ms=60_000)
        claimed = await asyncio.gather(*[door.claim(request) for door in doors])
        assert sum(len(one.ready[0]) for one in claimed) == 20
        await doors[0].append_logs(b.TENANT, "run-3", [b.line("x")])
        assert len((await doors[1].page(FeedQuery())).items) == 80
        wanted = [Reservation(run_id=f"run-{at}", commit_id="c") for at in range(20)]
        swaps = [
            doors[at % 2].swap_keys(b.TENANT, "", [KeySwap(key="k", after=one)])
            for at, one in enumerate(wanted)
        ]
        ((stood,), *others) = await asyncio.gather(*swaps)
        assert (stood in wanted, others) == (True, [[stood]] * 19)
        assert await doors[0].delete_run(b.TENANT, "run-3", version=4)
        await place.close()


WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted"


async def test_deletion_waits_for_a_fork_being_created_and_finds_it(place: Place) -> None:
    store, client = await place.open(), await place.client()
    await ask.must(store, b.created())
    slow = client.transaction()
    await slow.start()
    # As a replica does that is slow: the fork's first commit, then nothing for a while.
    (arguments,) = CommitCalls([CommitWork([b.fork("slow-1")])]).arguments
    assert await client.fetchval(CALL, *arguments) == [Verdict.COMMITTED]
    deletion = asyncio.ensure_future(store.delete_run(b.TENANT, b.RUN, version=1))
    while not await client.fetchval(WAITING):
        assert not deletion.done()
    await slow.commit()
    assert not await deletion
    await client.close()


async def test_fork_waits_for_its_parents_deletion_and_is_refused(place: Place) -> None:
    store, client = await place.open(), await place.client()
    await ask.must(store, b.created())
    slow = client.transaction()
    await slow.start()
    await client.execute("DELETE FROM run_rows WHERE run_id = $1", b.RUN)
    fork = asyncio.ensure_future(ask.verdicts(store, b.fork("slow-1")))
    while not await client.fetchval(WAITING):
        assert not fork.done()
    await slow.commit()
    assert await fork == [Verdict.CONFLICT]
    await client.close()


async def test_commit_of_a_parent_waits_for_no_fork(place: Place) -> None:
    store, client = await place.open(), await place.client()
    first = await ask.must(store, b.created())
    slow = client.transaction()
    await slow.start()
    (arguments,) = CommitCalls([CommitWork([b.fork("slow-1")])]).arguments
    assert await client.fetchval(CALL, *arguments) == [Verdict.COMMITTED]
    await ask.must(store, b.step(first))
    await slow.commit()
    await client.close()


async def test_two_that_remove_log_entries_at_once_do_not_wait_for_ever(place: Place) -> None:
    here, there = await place.open(), await place.open()
    runs = [f"run-{at}" for at in range(8)]
    await ask.must(here, *[b.created(name) for name in runs])
    for name in runs:
        chunk = replace(b.line("x"), kind=LogKind.CHUNK)
        await here.append_logs(b.TENANT, name, [chunk] * 50)
    trims = [
        there.remove_logs(
            LogsOfExecution(
                tenant_id=b.TENANT, run_id=name, execution_id=b.STEP, kind=LogKind.CHUNK
            )
        )
        for name in runs
    ]
    deletions = [here.delete_run(b.TENANT, name, version=1) for name in runs[::2]]
    purges = [door.remove_logs(OldLogs(older_ms=0, limit=1_000)) for door in (here, there)]
    removed, deleted, _ = await asyncio.gather(
        asyncio.gather(*purges), asyncio.gather(*deletions), asyncio.gather(*trims)
    )
    assert sum(removed) <= 400
    assert deleted == [True] * 4
    assert (await place.fetch("SELECT count(*) FROM logs"))[0][0] == 0


# --- bad days ------------------------------------------------------------------------------------


# --- the schema ----------------------------------------------------------------------------------


SHAPE = """
SELECT 'column', table_name, column_name, ordinal_position::text, data_type, column_default,
  is_nullable, collation_name
FROM information_schema.columns WHERE table_schema = $1 AND table_name <> 'alembic_version'
UNION ALL
SELECT 'index', tablename, indexname, '', replace(indexdef, $1 || '.', ''), NULL, '', NULL
FROM pg_indexes WHERE schemaname = $1 AND tablename <> 'alembic_version'
UNION ALL
SELECT 'view', viewname, replace(definition, $1 || '.', ''), '', '', NULL, '', NULL
FROM pg_views WHERE schemaname = $1
UNION ALL
SELECT 'options', relname, array_to_string(reloptions, ','), '', '', NULL, '', NULL
FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r'
  AND relname <> 'alembic_version'
ORDER BY 1, 2, 3, 4
"""


async def test_the_migrations_make_the_schema_that_the_code_has(place: Place) -> None:
    await place.open()
    other = f"{place.schema}_code"
    url = place.server.url("postgres", scheme="postgresql+asyncpg")
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text(f"CREATE SCHEMA {other}"))
        await connection.execute(text(f"SET LOCAL search_path = {other}"))
        await connection.run_sync(_create_all)
    await engine.dispose()
    client = await place.client()
    shapes: list[list[tuple[Any, ...]]] = []
    for name in (place.schema, other):
        rows = await client.fetch(SHAPE.replace("$1", f"'{name}'"))
        shapes.append(
            [
                tuple(
                    value.replace(f"{name}.", "") if isinstance(value, str) else value
                    for value in row
                )
                for row in rows
            ]
        )
    await client.close()
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) > 150


def _create_all(connection: Connection) -> None:
    schema.metadata.create_all(connection, checkfirst=False)
    for view in views.statements("postgresql"):
        connection.execute(text(view))


async def test_database_that_publishes_all_its_tables_takes_updates_and_deletes(
    place: Place,
) -> None:
    """Postgres refuses those where a published table has no primary key, the migrations' own included."""
    await place.open()
    keyless = await place.fetch(
        "SELECT relname FROM pg_class WHERE relkind = 'r'"
        f" AND relnamespace = '{place.schema}'::regnamespace AND NOT EXISTS"
        " (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)"
    )
    tables = await place.fetch(f"SELECT FROM pg_tables WHERE schemaname = '{place.schema}'")
    assert len(tables) > 15
    assert keyless == []
