"""Postgres: births of forks and deletions at once, and the indexes that what is new is found by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace
from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg

from stepwell.core.port import Commit, KeyedResult, LogsOfExecution, OldLogs
from stepwell.core.records.model import RunSpec
from stepwell.core.records.states import LogKind, Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql import families, logs, pages, search
from stepwell_drivers.sql.postgres import open_store
from stepwell_drivers.sql.statements import compiled
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.support.backends.shared import postgres_server

FORK, TWIN = "fork", "twin"


class Doors:
    """One database, two replicas' doors to it, and a connection past them."""

    def __init__(self, doors: list[SqlStore], client: asyncpg.Connection[Any]) -> None:
        self.doors = doors
        self.client = client

    async def left(self) -> dict[str, int]:
        """Return how much there is of what a family leaves behind."""
        return {
            "outcomes": await self.client.fetchval("SELECT count(*) FROM outcomes"),
            "keeping": await self.client.fetchval(
                "SELECT count(*) FROM tombstones WHERE family_id <> ''"
            ),
        }


@pytest.fixture
async def doors(backends: None) -> AsyncIterator[Doors]:
    server = postgres_server()
    name = server.new_database()
    url = server.url(name, sslmode="disable")
    opened: list[SqlStore] = []
    for _ in range(2):
        store = await open_store(url, runtime=SystemRuntime())
        assert isinstance(store, SqlStore)
        opened.append(store)
    schema = await asyncpg.connect(url)
    place = await schema.fetchval("SELECT schemaname FROM pg_tables WHERE tablename = 'runs'")
    await schema.execute(f"SET search_path = {place}")
    yield Doors(opened, schema)
    await schema.close()
    for store in opened:
        await store.close()
    server.drop_database(name)


def parent(run_id: str = b.RUN) -> tuple[Commit, Commit]:
    """Return a run's birth, and the step that leaves a result behind."""
    first = b.created_leased(run_id)
    return first, b.step(first, executions=[b.ended()], outcomes=[b.outcome(b"kept")])


def fork(run_id: str = FORK, *, of: str = b.RUN) -> Commit:
    spec = RunSpec(tenant_id=b.TENANT, run_id=run_id, parent_run_id=of, family_id=b.RUN)
    first = b.created(spec=spec, run_id=run_id)
    ended = replace(b.ended(f"task:{run_id}#1"), has_result=True)
    return replace(first, executions=(ended,), outcomes=(b.outcome(b"own", ended.execution_id),))


# --- at once -------------------------------------------------------------------------------------


async def test_fork_is_created_with_its_references_or_not_at_all(doors: Doors) -> None:
    here, there = doors.doors
    seen: set[Verdict] = set()
    for at in range(40):
        name, child = f"parent-{at}", f"child-{at}"
        await ask.must(here, *parent(name))
        spec = RunSpec(tenant_id=b.TENANT, run_id=child, parent_run_id=name, family_id=name)
        birth, deletion = (
            here.commit([b.created(spec=spec, run_id=child)]),
            there.delete_run(b.TENANT, name, version=2),
        )
        if at % 2:
            (result,), deleted = await asyncio.gather(birth, deletion)
        else:
            deleted, (result,) = await asyncio.gather(deletion, birth)
        assert deleted
        seen.add(result.verdict)
        created = result.verdict is Verdict.COMMITTED
        kept = list(await here.read_payloads(b.TENANT, name, [b.STEP]))
        assert [ask.data_of(one) for one in kept] == ([b"kept"] if created else [])
        if created:
            assert await there.delete_run(b.TENANT, child, version=1)
        assert await doors.left() == {"outcomes": 0, "keeping": 0}
    assert seen <= {Verdict.COMMITTED, Verdict.CONFLICT}


async def test_second_of_two_concurrent_deletions_removes_the_family(doors: Doors) -> None:
    here, there = doors.doors
    for at in range(20):
        root, twin = f"root-{at}", f"twin-{at}"
        await ask.must(here, *parent(root))
        spec = RunSpec(tenant_id=b.TENANT, run_id=twin, parent_run_id=root, family_id=root)
        child = b.created(spec=spec, run_id=twin)
        await ask.must(here, child, b.step(child, outcomes=[b.outcome(b"own")]))
        gone = await asyncio.gather(
            here.delete_run(b.TENANT, root, version=2),
            there.delete_run(b.TENANT, twin, version=2),
        )
        assert gone == [True, True]
        assert await doors.left() == {"outcomes": 0, "keeping": 0}


async def test_deletion_waits_for_a_fork_being_created(doors: Doors) -> None:
    store = doors.doors[0]
    await ask.must(store, *parent())
    slow = doors.client.transaction()
    await slow.start()
    # As a replica does that is slow: the lock, then the birth, then nothing for a while.
    names = [f"{len(b.TENANT)}:{b.TENANT}{b.RUN}"]
    await doors.client.fetchval(text_of(families._share._statement), names)
    await doors.client.execute(
        "INSERT INTO runs (tenant_id, run_id, version, status, phase, parent_run_id, family_id,"
        " step_retry) VALUES ($1, 'slow', 1, 'QUEUED', 'PLANNING', $2, $2, '{}')",
        *(b.TENANT, b.RUN),
    )
    deletion = asyncio.ensure_future(store.delete_run(b.TENANT, b.RUN, version=2))
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while not await doors.client.fetchval(waiting):
        assert not deletion.done()
    await slow.commit()
    assert await deletion
    assert await doors.left() == {"outcomes": 1, "keeping": 1}
    assert await ask.outcomes(store, [b.STEP]) == [b.outcome(b"kept")]


async def test_an_id_whose_outcomes_are_kept_is_not_another_run_s(doors: Doors) -> None:
    store = doors.doors[0]
    await ask.must(store, *parent())
    await ask.must(store, fork())
    assert await store.delete_run(b.TENANT, b.RUN, version=2)
    await doors.client.execute("UPDATE tombstones SET expires_us = 1")
    assert await ask.verdicts(store, b.created()) == [Verdict.CONFLICT]
    await ask.must(store, fork(TWIN, of=FORK))
    assert await store.delete_run(b.TENANT, FORK, version=1)
    assert await doors.left() == {"outcomes": 3, "keeping": 2}
    assert await store.delete_run(b.TENANT, TWIN, version=1)
    assert await doors.left() == {"outcomes": 0, "keeping": 0}
    assert await ask.verdicts(store, b.created()) == [Verdict.COMMITTED]


async def test_two_that_remove_log_entries_at_once_do_not_wait_for_ever(doors: Doors) -> None:
    here, there = doors.doors
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
    purges = [door.remove_logs(OldLogs(older_ms=0, limit=1_000)) for door in doors.doors]
    removed, deleted, _ = await asyncio.gather(
        asyncio.gather(*purges), asyncio.gather(*deletions), asyncio.gather(*trims)
    )
    assert sum(removed) <= 400
    assert deleted == [True] * 4
    assert await doors.client.fetchval("SELECT count(*) FROM logs") == 0


# --- costs ---------------------------------------------------------------------------------------


DIALECT = PGDialect_asyncpg()
LOGS = """
INSERT INTO logs (tenant_id, run_id, execution_id, text)
SELECT 'acme', 'run-1', 'x' || at % 100, 'x' FROM generate_series(1, 100000) AS at
"""


def text_of(statement: ClauseElement) -> str:
    return compiled(statement, DIALECT).string


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


async def test_new_reads_use_an_index(doors: Doors) -> None:
    store = doors.doors[0]
    first = b.created()
    keyed = KeyedResult(pipeline_id="p", key="k", execution_id="x")
    await ask.must(store, first, replace(b.step(first, inputs=[b.question("q")]), keyed=(keyed,)))
    # Where there are few, or nothing is known of them yet, any index will do.
    await doors.client.execute(LOGS)
    await doors.client.execute("ANALYZE logs")
    forks = pages._matching(DIALECT, pages._Shape(("parent_run_id",), 0, 0))
    asked: list[tuple[ClauseElement, str]] = [
        (search._inputs_of_run._statement, "inputs_in_order"),
        (search._open_inputs._statement, "inputs_waiting"),
        (search._newest_keyed.build(DIALECT, 0), "keyed_by_key"),
        (search._of_status()._statement, "runs_ended"),
        (search._of_status("tenant_id")._statement, "runs_ended_of_tenant"),
        (search._of_status("tenant_id", "pipeline_id")._statement, "runs_ended_of_pipeline"),
        (forks._statement, "runs_by_parent"),
        (families._member._statement, "runs_by_family"),
        (families._left._statement, "tombstones_of_family"),
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
