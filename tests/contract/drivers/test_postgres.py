"""Postgres' own promises: group commit over links, holds and races between doors, what an operator reads."""

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

from stepwell.core.port import ClaimRequest, FeedQuery, Store
from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StoreRefused,
    StoreUnavailable,
)
from stepwell.core.records.model import Outcome, Payload, RunSpec, Session, TaskSpec
from stepwell.core.records.states import Verdict
from stepwell_drivers.sql import schema
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.harness import soon
from tests.contract.drivers.postgres_place import Place
from tests.support.backends.pgbouncer import PgBouncer
from tests.support.backends.postgres import Postgres
from tests.support.patience import insisting

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


async def test_commits_queued_during_transactions_share_the_next(place: Place) -> None:
    store = await place.open()
    writer: Any = store._writer
    await asyncio.gather(*[store.commit([b.created(f"run-{at}")]) for at in range(100)])
    assert writer.groups <= 3


async def test_a_run_takes_its_steps_in_the_order_asked_for_over_many_groups(place: Place) -> None:
    store = await place.open()
    chain = [b.created()]
    for _ in range(60):
        chain.append(b.step(chain[-1]))
    calls: list[asyncio.Future[Any]] = []
    for at, commit in enumerate(chain):
        calls.append(asyncio.ensure_future(store.commit([commit])))
        if at % 7 == 0:
            await asyncio.sleep(0)
    answers = await asyncio.gather(*calls)
    assert {result.verdict for (result,) in answers} == {Verdict.COMMITTED}


async def test_one_that_fails_harms_nobody_in_its_group(place: Place) -> None:
    store = await place.open()
    bad = b.created("bad", spec=RunSpec(tenant_id=b.TENANT, run_id="bad", goal="\ud800"))
    large = b.created("large", spec=RunSpec(tenant_id=b.TENANT, run_id="large", priority=2**63))
    births = [b.created(f"run-{at}") for at in range(10)]
    births[5:5] = [bad, large]
    answers = await asyncio.gather(
        *[store.commit([birth]) for birth in births], return_exceptions=True
    )
    for birth, answer in zip(births, answers, strict=True):
        if birth in (bad, large):
            assert isinstance(answer, InvalidArgument)
            assert answer.reason == "NOT_STORABLE"
        else:
            assert not isinstance(answer, BaseException)
            assert await ask.version_of(store, birth.run_id) == 1


async def test_a_cancelled_caller_cancels_no_commit(place: Place) -> None:
    store = await place.open()
    call = asyncio.ensure_future(store.commit([b.created()]))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await ask.verdicts(store, b.created()) == [Verdict.COMMITTED]
    assert await ask.version_of(store) == 1


async def test_a_cancelled_read_leaves_its_link_whole(place: Place) -> None:
    store = await place.open(pool_size="2")
    await ask.must(store, b.created())
    for _ in range(20):
        call = asyncio.ensure_future(store.get_run(b.TENANT, b.RUN))
        await asyncio.sleep(0)
        call.cancel()
    assert await ask.version_of(store) == 1


# --- several doors -------------------------------------------------------------------------------


async def test_concurrent_creations_of_a_run_commit_once(place: Place) -> None:
    doors = [await place.open() for _ in range(3)]
    for at in range(10):
        births = [replace(b.created(f"run-{at}"), commit_id=f"{at}-{door}") for door in range(3)]
        answers = await asyncio.gather(
            *[door.commit([birth]) for door, birth in zip(doors, births, strict=True)]
        )
        verdicts = sorted(result.verdict for (result,) in answers)
        assert verdicts == sorted([Verdict.COMMITTED, Verdict.CONFLICT, Verdict.CONFLICT])


async def test_doors_that_write_the_same_runs_wait_for_each_other_and_never_for_ever(
    place: Place,
) -> None:
    doors = [await place.open() for _ in range(2)]
    names = [f"run-{at}" for at in range(12)]
    await ask.must(doors[0], *[b.created_leased(name) for name in names])
    won = 0

    async def write(door: Store, mine: str, order: list[str]) -> None:
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


async def test_claimed_work_is_held_from_other_stores(place: Place) -> None:
    doors = [await place.open() for _ in range(3)]
    births = [b.created(f"run-{at}", executions=[b.ready()]) for at in range(30)]
    await ask.must(doors[0], *births)
    request = ClaimRequest(wants=(b.want(limit=7),), hold_ms=60_000)
    found: list[str] = []
    for _ in range(3):
        answers = await asyncio.gather(*[door.claim(request) for door in doors])
        found += [step.run_id for claimed in answers for step in claimed.ready[0]]
    assert sorted(found) == sorted(birth.run_id for birth in births)


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
        "INSERT INTO commits (tenant_id, run_id, version, commit_id) VALUES ('t', 'slow', 1, 'c')"
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
        request = ClaimRequest(wants=(b.want(limit=100),), hold_ms=60_000)
        claimed = await asyncio.gather(*[door.claim(request) for door in doors])
        assert sum(len(one.ready[0]) for one in claimed) == 20
        await doors[0].append_logs(b.TENANT, "run-3", [b.line("x")])
        assert len((await doors[1].page(FeedQuery())).items) == 80
        assert await doors[0].delete_run(b.TENANT, "run-3", version=4)
        await place.close()


# --- bad days ------------------------------------------------------------------------------------


async def test_a_holder_idle_in_a_transaction_holds_up_one_run_and_no_other(place: Place) -> None:
    store = await place.open(lock_timeout_ms="100")
    first, other = b.created("held"), b.created("free")
    await ask.must(store, first, other)
    client = await place.client()
    async with client.transaction():
        await client.execute("SELECT 1 FROM runs WHERE run_id = 'held' FOR UPDATE")
        answers = await asyncio.gather(
            store.commit([b.step(first)]), store.commit([b.step(other)]), return_exceptions=True
        )
        assert isinstance(answers[0], StoreUnavailable)
        assert not isinstance(answers[1], BaseException)
        assert await ask.version_of(store, "held") == 1
    await client.close()
    assert await ask.verdicts(store, b.step(first)) == [Verdict.COMMITTED]


async def test_a_silent_server_is_cut_off_and_the_store_goes_on(server: Postgres) -> None:
    with Postgres(18, fsync=False) as frozen:
        place = Place(frozen)
        limits = {"lock_timeout_ms": "100", "statement_timeout_ms": "300"}
        store = await insisting(lambda: place.open(**limits, connect_timeout_ms="500"))
        first = await insisting(lambda: ask.must(store, b.created()))
        await asyncio.to_thread(frozen.freeze)
        with pytest.raises((StoreUnavailable, OutcomeUnknown)):
            await store.commit([b.step(first)])
        await asyncio.to_thread(frozen.thaw)
        await insisting(lambda: ask.must(store, b.step(first)))
        assert await insisting(lambda: ask.version_of(store)) == 2
        await place.close()


async def test_restarted_server_is_reconnected(server: Postgres) -> None:
    with Postgres(18, fsync=False) as restarted:
        place = Place(restarted)
        store = await place.open()
        first = await ask.must(store, b.created())
        await asyncio.to_thread(restarted.restart)
        assert await ask.version_of(store) == 1
        assert await ask.verdicts(store, b.step(first)) == [Verdict.COMMITTED]
        await place.close()


# --- the schema ----------------------------------------------------------------------------------


async def test_servers_that_start_at_once_make_one_store(place: Place) -> None:
    doors = await asyncio.gather(*[place.open() for _ in range(4)])
    ids = {(await door.describe()).store_id for door in doors}
    assert len(ids) == 1


async def test_a_start_that_only_verifies_makes_nothing(place: Place) -> None:
    with pytest.raises(StoreRefused, match="stepwell migrate"):
        await place.open(migrate="false")
    await place.open()
    await place.open(migrate="false")


async def test_a_newer_schema_is_refused(place: Place) -> None:
    await place.open()
    client = await place.client()
    await client.execute("UPDATE alembic_version SET version_num = '9999'")
    await client.close()
    with pytest.raises(StoreRefused, match="9999"):
        await place.open()


SHAPE = """
SELECT 'column', table_name, column_name, ordinal_position::text, data_type, column_default,
  is_nullable, collation_name
FROM information_schema.columns WHERE table_schema = $1 AND table_name <> 'alembic_version'
UNION ALL
SELECT 'index', tablename, indexname, '', replace(indexdef, $1 || '.', ''), NULL, '', NULL
FROM pg_indexes WHERE schemaname = $1 AND tablename <> 'alembic_version'
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
    assert len(shapes[0]) > 200


def _create_all(connection: Connection) -> None:
    schema.metadata.create_all(connection, checkfirst=False)


# --- what a person reads -------------------------------------------------------------------------


async def test_an_operator_reads_it_with_psql(place: Place) -> None:
    store = await place.open()
    spec = RunSpec(
        tenant_id=b.TENANT,
        run_id=b.RUN,
        pipeline_id="survey",
        goal="count the files",
        labels={"team": "a"},
        executor_id="me",
    )
    plan = replace(b.plan(), tasks=(TaskSpec(task_id="a", title="Count", role="coder"),))
    first = b.created(
        spec=spec,
        input=Payload(data=b'{"dir": "/src"}'),
        plan=plan,
        tasks=[b.task("a")],
        executions=[b.leased()],
        leases=[b.lease()],
    )
    done = replace(b.ended(), session=Session(backend="agent", session_id="s-1"), has_result=True)
    outcome = Outcome(execution_id=b.STEP, prompt="how many?", response="42")
    await ask.must(store, first, b.step(first, executions=[done], outcomes=[outcome]))
    client = await place.client()

    async def row(sql: str) -> tuple[Any, ...]:
        return tuple(await client.fetchrow(sql) or ())

    assert await row(
        "SELECT tenant_id, pipeline_id, status, executor_id, labels ->> 'team',"
        " input_params ->> 'dir' FROM runs WHERE labels @> '{\"team\": \"a\"}'"
    ) == (b.TENANT, "survey", "QUEUED", "me", "a", "/src")
    assert await row("SELECT tenant_id, task_id, status, idempotency_key FROM tasks") == (
        *(b.TENANT, "a", "READY"),
        f"{b.RUN}/a",
    )
    assert await row("SELECT tenant_id, type, jsonb_typeof(payload) FROM events LIMIT 1") == (
        *(b.TENANT, "EXECUTION_LEASED"),
        "object",
    )
    await client.close()
