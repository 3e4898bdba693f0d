"""Postgres' queries cost the same however many rows there are, whenever their plans were made."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

from stepwell.core.port import (
    Claim,
    Claimed,
    ExecutionQuery,
    KeySwap,
    LeaseQuery,
    LogQuery,
    MessageQuery,
    Reservation,
    TaskQuery,
)
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import RunStatus, TaskStatus
from stepwell_drivers.sql import deletes, logs, pages, reads, reservations, schema, search
from stepwell_drivers.sql.postgres import links
from stepwell_drivers.sql.statements import compiled
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.parked import OVERDUE, PARKED
from tests.contract.drivers.postgres_place import Place
from tests.support.backends.shared import postgres_server

BLOCKS = """
SELECT sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint
FROM pg_statio_user_tables WHERE schemaname = current_schema()
"""
LISTED = """
SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes
WHERE schemaname = current_schema() AND indexrelname LIKE 'runs_by_%'
"""
UUID = "gen_random_uuid()"
FLUSH = "SELECT pg_stat_force_next_flush()"


@pytest.fixture
async def place(backends: None) -> AsyncIterator[Place]:
    found = Place(postgres_server())
    yield found
    await found.close()


@pytest.fixture(params=["kept", "made-again"])
def plans(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans of when the tables were small, or those of now; nobody has looked at the tables (ANALYZE)."""
    seconds = {"kept": 3_600.0, "made-again": 0.0}[request.param]
    monkeypatch.setattr(links, "PLANS_S", seconds)
    monkeypatch.setattr(links, "PLANS_S_MAX", seconds)


async def _flush(store: SqlStore) -> None:
    """Have what its links did counted at once."""
    for part in (store._readers, store._writer):
        holder: Any = part
        async with holder._links.one() as link:
            await link.driver_connection.execute(FLUSH)


async def _cost(
    store: SqlStore, client: asyncpg.Connection[Any], action: Callable[[], Awaitable[None]]
) -> int:
    """Return how many blocks five calls touch."""

    async def blocks() -> int:
        await _flush(store)
        await client.execute(FLUSH)
        return int(await client.fetchval(BLOCKS))

    # Once for the plans and for what the server remembers of its tables.
    await action()
    before = await blocks()
    for _ in range(5):
        await action()
    return await blocks() - before


async def _few_and_many(
    place: Place, rows: str, wanted: Claim, check: Callable[[Claimed], None]
) -> tuple[int, int]:
    """Return a claim's cost with 100 and with 100,000 such rows."""
    store = await place.open(pool_size="2")
    await ask.must(
        store, *[b.created(f"run-{at}", executions=[b.ready(role="coder")]) for at in range(4)]
    )
    client = await place.client()

    async def claim() -> None:
        check(await store.claim(wanted))

    try:
        await client.execute(rows.format(rows="generate_series(1, 100)", uuid=UUID))
        few = await _cost(store, client, claim)
        await client.execute(rows.format(rows="generate_series(101, 100000)", uuid=UUID))
        return few, await _cost(store, client, claim)
    finally:
        await client.close()


async def test_a_claim_costs_the_same_however_many_runs_are_parked(
    place: Place, plans: None
) -> None:
    request = Claim(
        wants=(b.want(kinds=[b.ready().kind], tasks=[TaskPattern(role="coder")], limit=1),),
        hold_ms=0,
    )

    def check(claimed: Claimed) -> None:
        assert len(claimed.ready[0]) == 1
        assert claimed.due == ()

    few, many = await _few_and_many(place, PARKED, request, check)
    # The trees of the indexes grow by a level.
    assert many <= 2 * few + 50, (few, many)


async def test_a_claim_costs_the_same_however_much_is_overdue(place: Place, plans: None) -> None:
    request = Claim(wants=(), due_limit=4, hold_ms=0)

    def check(claimed: Claimed) -> None:
        assert [due.run_id for due in claimed.due] == ["overdue-1"] * 2 + ["overdue-2"] * 2

    few, many = await _few_and_many(place, OVERDUE, request, check)
    assert many <= 2 * few + 50, (few, many)


async def test_a_commit_costs_the_same_however_many_rows_there_are(
    place: Place, plans: None
) -> None:
    store = await place.open(pool_size="2")
    client = await place.client()
    plan = b.plan("a", "b")
    tasks = [b.task("a"), b.task("b")]
    last = b.created(plan=plan, tasks=tasks, executions=[b.leased()], leases=[b.lease()])
    await ask.must(store, last)

    async def go_on() -> None:
        nonlocal last
        done, name = f"task:a#{last.version}", f"task:a#{last.version + 1}"
        last = b.step(
            last,
            tasks=tasks,
            executions=[b.ended(done), b.leased(name)],
            outcomes=[b.outcome(execution_id=done)],
            leases=[b.lease(name)],
            fences=[b.fence(done)],
        )
        await ask.must(store, last)

    await client.execute(PARKED.format(rows="generate_series(1, 100)", uuid=UUID))
    few = await _cost(store, client, go_on)
    await client.execute(PARKED.format(rows="generate_series(101, 100000)", uuid=UUID))
    many = await _cost(store, client, go_on)
    await client.close()
    assert many <= 2 * few + 50, (few, many)


async def test_run_lookup_uses_the_index_without_statistics(place: Place) -> None:
    store = await place.open(pool_size="2")
    client = await place.client()
    names = [f"run-{at}" for at in range(60)]
    for start in range(0, len(names), 20):
        await ask.must(store, *[b.created(name) for name in names[start : start + 20]])
    for name in names:
        assert await store.get_run(b.TENANT, name) is not None
    await _flush(store)
    assert await client.fetchval(LISTED) == 0
    await client.close()


# What a table's rows need besides a tenant and a run, for others' runs to have one each.
OTHERS = {
    "run_rows": {
        "tenant_id": f"'{b.TENANT}'",
        "run_id": "'other-' || at",
        "uuid": UUID,
        "status": "'RUNNING'",
    },
    "task_specs": {"task_id": "'a'"},
    "task_rows": {"task_id": "'a'", "status": "'COMPLETED'"},
    "executions": {
        "execution_id": "'x'",
        "task_id": "'a'",
        "status": "'LEASED'",
        "tenant_id": f"'{b.TENANT}'",
        "worker_id": "'worker-2'",
        "deadline_us": "9e18",
    },
    "commits": {"tenant_id": f"'{b.TENANT}'"},
    "timers": {"name": "'x'", "due_us": "9e18"},
    "questions": {"question_id": "'x'", "status": "'ANSWERED'"},
    "logs": {"execution_id": "'x'"},
    "reservations": {
        "tenant_id": f"'{b.TENANT}'",
        "run_id": "'other-' || at",
        "key": "'other ' || at",
    },
}


async def test_a_run_s_life_costs_the_same_however_many_others_there_are(
    place: Place, plans: None
) -> None:
    store = await place.open(pool_size="2")
    client = await place.client()
    names = itertools.count(1)

    async def life() -> None:
        await _life(store, f"run-{next(names)}")

    async def others(first: int, last: int) -> None:
        for table in (*schema.OF_A_RUN, schema.reservations):
            # Numbers that no run of this test has.
            number = {"run_key": "1000000 + at"} if "run_key" in table.c else {}
            given = number | OTHERS.get(table.name, {})
            await client.execute(
                f"INSERT INTO {table.name} ({', '.join(given)}) SELECT {', '.join(given.values())}"
                f" FROM generate_series({first}, {last}) AS at"
            )

    await others(1, 100)
    few = await _cost(store, client, life)
    await others(101, 30_000)
    many = await _cost(store, client, life)
    await client.close()
    assert many <= 2 * few + 50, (few, many)


async def _life(store: SqlStore, run_id: str) -> None:
    """All calls for a run that is created, works, asks a person, is read, and is deleted."""
    mine, theirs = (Reservation(run_id=run_id, commit_id=name) for name in ("a", "b"))
    swap = KeySwap(key=f"key of {run_id}", after=mine)
    assert await store.swap_keys(b.TENANT, "", [swap]) == [mine]
    taken = KeySwap(key=swap.key, before=mine, after=theirs)
    assert await store.swap_keys(b.TENANT, "", [taken]) == [theirs]
    assert await store.swap_keys(b.TENANT, "", [KeySwap(key=swap.key)]) == [theirs]
    first = await ask.must(
        store,
        b.created(
            run_id,
            plan=b.plan("a"),
            tasks=[b.task("a")],
            executions=[b.leased()],
            leases=[b.lease()],
            timers=[b.timer(60_000)],
            status=RunStatus.RUNNING,
        ),
    )
    assert await store.renew([b.renewal(run_id)]) == [True]
    await store.append_logs(b.TENANT, run_id, [b.line("a line")])
    second = await ask.must(
        store,
        b.step(
            first,
            tasks=[b.task("a", TaskStatus.COMPLETED)],
            executions=[b.ended()],
            outcomes=[b.outcome()],
            fences=[b.fence()],
            questions=[b.question("q")],
            messages=[b.message("a word")],
            request=b.request("r", 2),
        ),
    )
    of = (b.TENANT, run_id)
    for since in (0, 1):
        assert await store.load(*of, since=since) is not None
    assert await store.get_run(*of) is not None
    assert len(await store.read_payloads(*of, [b.STEP], texts=True)) == 1
    assert await store.read_plan(*of, 1) is not None
    assert await store.read_events(*of, after=0, limit=100) is not None
    assert len(await store.read_questions(*of, ["q"])) == 1
    assert len((await store.page(TaskQuery(tenant_id=of[0], run_id=of[1]))).items) == 1
    assert (
        len((await store.page(ExecutionQuery(tenant_id=of[0], run_id=of[1], task_id="a"))).items)
        == 1
    )
    assert len((await store.page(MessageQuery(tenant_id=of[0], run_id=of[1]))).items) == 1
    assert len((await store.page(LogQuery(tenant_id=of[0], run_id=of[1]))).items) == 1
    assert (await store.page(LeaseQuery(tenant_id=b.TENANT, worker_id="worker-1"))).items == ()
    await ask.must(store, b.step(second, status=RunStatus.SUCCEEDED))
    assert await store.delete_run(*of, version=3)


DIALECT = PGDialect_asyncpg()
LOGS = """
INSERT INTO logs (run_key, execution_id)
SELECT run_key, 'x' || at % 100 FROM run_rows, generate_series(1, 100000) AS at
WHERE run_id = 'run-1'
"""


async def plan_of(store: SqlStore, sql: str, *values: str) -> str:
    """Return how the database finds it for any values, as the driver's own connections ask."""
    given = ", ".join(f"'{value}'" for value in values)
    readers: Any = store._readers
    async with readers._links.one() as link:
        driver = link.driver_connection
        await driver.execute(f"PREPARE asked AS {sql}")
        rows = await driver.fetch(f"EXPLAIN EXECUTE asked({given})")
        await driver.execute("DEALLOCATE asked")
    return "\n".join(row[0] for row in rows)


async def test_new_reads_use_an_index(place: Place) -> None:
    store = await place.open()
    first = b.created()
    await ask.must(store, first, b.step(first, questions=[b.question("q")]))
    # Where there are few, or nothing is known of them yet, any index will do.
    await place.fetch(LOGS)
    await place.fetch("ANALYZE logs")
    forks = pages._matching(DIALECT, pages._Shape(("parent_run_id",), 0, 0))
    asked: list[tuple[ClauseElement, str]] = [
        (search._questions_of_run._statement, "questions_in_order"),
        (search._open_questions._statement, "questions_waiting"),
        (reservations._pick.build(DIALECT), "reservations_pkey"),
        (reservations._move.build(DIALECT), "reservations_pkey"),
        (reservations._drop.build(DIALECT), "reservations_pkey"),
        (reservations._of_run._statement, "reservations_of_run"),
        (search._of_status()._statement, "runs_ended"),
        (search._of_status("tenant_id")._statement, "runs_ended_of_tenant"),
        (search._of_status("tenant_id", "pipeline_id")._statement, "runs_ended_of_pipeline"),
        (forks._statement, "runs_by_parent"),
        (deletes._fork._statement, "runs_by_parent"),
        (reads._whole._statement, "commits_by_event"),
        (reads._open_executions._statement, "executions_open"),
        (pages._executions._statement, "executions_in_order"),
        (pages._executions_of._statement, "executions_of_task"),
        (pages._leases_of_tenant._statement, "executions_of_worker"),
        (pages._leases_of_worker._statement, "executions_of_worker"),
        (pages._leases_of_run._statement, "executions_open"),
        (pages._tasks._statement, "tasks_in_order"),
        (pages._messages._statement, "messages_in_order"),
        (pages._messages_of._statement, "messages_of_task"),
        (logs._oldest._statement, "logs_pkey"),
        (logs._trim._statement, "logs_of_execution"),
    ]
    for statement, index in asked:
        form = compiled(statement, DIALECT)
        values = [
            "{a}" if name.startswith("c") and name[1:].isdigit() else "1"
            for name in form.positiontup or ()
        ]
        plan = await plan_of(store, form.string, *values)
        assert f" using {index} on" in plan, (index, plan)
        assert "Seq Scan" not in plan, plan
