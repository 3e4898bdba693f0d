"""Stores that an older program made: they open, are brought up, and their runs go on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from msgspec.structs import replace
from sqlalchemy import JSON, Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from stepwell.core.port import (
    EndedQuery,
    InputQuery,
    KeyedResult,
    LogQuery,
    MessageQuery,
    OldLogs,
    PresenceQuery,
    RunQuery,
)
from stepwell.core.records.model import (
    AttemptCounts,
    Payload,
    Plan,
    Previous,
    Run,
    Session,
    Tally,
    TaskSpec,
)
from stepwell.core.records.states import LogKind, RunStatus, Verdict
from stepwell.embedded import Orchestrator
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_client import Agent, TaskContext
from stepwell_drivers.sql import migrate, schema
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.support.backends.shared import postgres_server

WRITTEN = Path(__file__).parent / "old_stores" / "sqlite_0001.sql"
"""A database as the first program left it."""

HALF_WAY = "half-way"


# --- a store of before ---------------------------------------------------------------------------


def restored(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.executescript(WRITTEN.read_text(encoding="utf-8"))


def first_schema(connection: Connection, schema_name: str, rows: dict[str, list[Any]]) -> None:
    """Make Postgres' schema of before, and put the same rows into it."""
    connection.execute(text(f"CREATE SCHEMA {schema_name}"))
    connection.execute(text(f"SET LOCAL search_path = {schema_name}"))
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, "0001")
    module = import_module("stepwell_drivers.sql.migrations.versions.v0001_first")
    for table in module.metadata.sorted_tables:
        # The database numbers rows and transactions itself.
        columns = [column for column in table.c if column.name not in {"seq", "xid"}]
        documents = {
            column.name
            for column in columns
            if isinstance(column.type.dialect_impl(connection.dialect), JSON)
        }
        given = [
            {
                column.name: json.loads(row[column.name])
                if column.name in documents and row[column.name] is not None
                else row[column.name]
                for column in columns
            }
            for row in rows[table.name]
        ]
        if given:
            connection.execute(table.insert(), given)


def rows_of(path: Path) -> dict[str, list[Any]]:
    with closing(sqlite3.connect(path)) as file:
        file.row_factory = sqlite3.Row
        names = [
            row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return {name: file.execute(f"SELECT * FROM {name}").fetchall() for name in names}


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    path = tmp_path / "a.db"
    restored(path)
    if request.param == "sqlite":
        yield f"sqlite:///{path}"
        return
    server = postgres_server()
    database = server.new_database()
    engine = create_async_engine(
        server.url(database, scheme="postgresql+asyncpg"), poolclass=NullPool
    )
    async with engine.begin() as connection:
        await connection.run_sync(first_schema, "stepwell", rows_of(path))
    await engine.dispose()
    yield server.url(database) + "?sslmode=disable&schema=stepwell"
    server.drop_database(database)


# --- it opens, and goes on -----------------------------------------------------------------------


async def test_columns_added_by_a_migration_default_for_old_rows(url: str) -> None:
    store = await open_store(url, runtime=SystemRuntime())
    assert (await store.describe()).schema_version == schema.REVISIONS[-1]
    rows = await ask.loaded(store)
    run: Run = rows.run
    assert (run.attempts, run.tally) == (AttemptCounts(), Tally())
    assert (run.stopping, run.previous) == (False, Previous())
    assert (run.spec.family_id, run.spec.no_progress_limit) == ("", 0)
    assert (run.spec.pipeline_id, run.spec.budget.tasks) == ("survey", 5)
    assert [plan.carried for plan in rows.plans] == [()]
    assert [task.previous for task in rows.tasks] == [Previous(), Previous()]
    assert [(task.result_id, task.result_run_id) for task in rows.tasks] == [
        ("", ""),
        ("task:b#1", ""),
    ]
    (open_one,) = rows.executions
    assert (open_one.token, open_one.execution.messages) == ("t1", 0)
    assert [(one.role, one.number) for one in (await messages(store))] == [("assistant", 0)] * 2
    page = await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))
    assert [(entry.text, entry.kind) for entry in page.items] == [
        ("first", LogKind.LINE),
        ("second", LogKind.LINE),
    ]
    assert [one.credits for one in (await store.page(PresenceQuery(tenant_id=b.TENANT))).items] == [
        3
    ]
    await store.close()


async def messages(store: Any) -> Any:
    return (await store.page(MessageQuery(tenant_id=b.TENANT, run_id=b.RUN))).items


async def test_new_reads_work_on_a_migrated_store(url: str) -> None:
    store = await open_store(url, runtime=SystemRuntime())
    waiting = (await store.page(InputQuery(tenant_id=b.TENANT))).items
    assert [(one.run_id, one.request.input_id) for one in waiting] == [(b.RUN, "q1")]
    asked = (await store.page(InputQuery(tenant_id=b.TENANT, run_id=b.RUN))).items
    assert [one.request.input_id for one in asked] == ["q1", "q2"]
    ended = (await store.page(EndedQuery(statuses=(RunStatus.SUCCEEDED,), older_ms=1))).items
    assert [(one.tenant_id, one.run_id, one.version) for one in ended] == [(b.TENANT, "ended", 2)]
    assert await store.find_keyed(b.TENANT, "survey", ["k"]) == []
    assert await ask.run_ids(store, RunQuery(tenant_id=b.TENANT, parent_run_id=b.RUN)) == []
    # It was written years ago.
    assert await store.remove_logs(OldLogs(older_ms=3_600_000 * 24 * 365, limit=100)) == 2
    await store.close()


async def test_a_run_of_before_takes_a_commit_with_all_that_is_new(url: str) -> None:
    store = await open_store(url, runtime=SystemRuntime())
    rows = await ask.loaded(store)
    before = replace(b.created(spec=rows.run.spec), version=2, run=rows.run)
    previous = Previous(
        execution_id="task:a#1",
        session=Session(backend="agent", session_id="s"),
        progress=Payload(data=bytes(range(256)) * 64, media_type="application/octet-stream"),
        failure=b.failure("lost"),
    )
    run = replace(
        rows.run,
        attempts=AttemptCounts(completed=1, lost=2),
        tally=Tally(tasks=3, digest=2**63 - 1, fingerprint="f", repeats=2),
        stopping=True,
        previous=previous,
    )
    plan = Plan(
        revision=2,
        parent_revision=1,
        tasks=(TaskSpec(task_id="a", reconcile=True),),
        carried=("a",),
    )
    task = replace(rows.tasks[0], revision=2, messages=3, previous=previous, result_run_id="other")
    execution = replace(rows.executions[0].execution, messages_after=2, messages=1)
    said = replace(b.message("three"), number=3)
    step = replace(
        b.step(
            before,
            run=run,
            plan=plan,
            tasks=[task],
            executions=[execution],
            fences=[b.fence()],
            messages=[said],
        ),
        keyed=(KeyedResult(pipeline_id="survey", key="k", execution_id="task:b#1"),),
    )
    assert await ask.verdicts(store, step) == [Verdict.COMMITTED]
    line = replace(b.line("chunk"), kind=LogKind.CHUNK)
    cursor = (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN))).cursor
    await store.append_logs(b.TENANT, b.RUN, [line])
    await store.close()

    store = await open_store(url, runtime=SystemRuntime())
    rows = await ask.loaded(store)
    assert rows.run == replace(run, version=3, last_event=before.run.last_event + 1)
    assert rows.plans[-1] == plan
    assert task in rows.tasks
    assert [one.execution for one in rows.executions] == [execution]
    assert (await messages(store))[-1] == said
    assert (await store.page(LogQuery(tenant_id=b.TENANT, run_id=b.RUN, cursor=cursor))).items == (
        line,
    )
    (found,) = await store.find_keyed(b.TENANT, "survey", ["k"])
    assert (found.run_id, found.execution_id) == (b.RUN, "task:b#1")
    await store.close()


def doubler(done: list[int]) -> Agent:
    agent = Agent("doubler")

    @agent.task("double")
    def double(ctx: TaskContext, number: int) -> int:
        done.append(number)
        return 2 * number

    @agent.task("sum")
    def add(ctx: TaskContext) -> int:
        return sum(ctx.results.values())

    return agent


async def test_a_run_that_the_program_of_before_was_killed_in_is_finished(url: str) -> None:
    done: list[int] = []
    orchestrator = await Orchestrator.resume(HALF_WAY, doubler(done), store=url)
    result = await orchestrator.run()
    assert result.value == {"a": 2, "b": 4, "sum": 6}
    assert done == [2]  # What was completed is not done again.


# --- SQLite's log is written again ---------------------------------------------------------------

OF_LOGS: list[tuple[str, Callable[[list[Any]], bool]]] = [
    ("SELECT seq, text FROM logs ORDER BY seq", lambda rows: [row[0] for row in rows] == [1, 2]),
    (
        "SELECT 1 FROM logs WHERE appended_us <> (SELECT max(committed_us) FROM commits)",
        lambda rows: rows == [],
    ),
    ("SELECT seq FROM sqlite_sequence WHERE name = 'logs'", lambda rows: rows == [(2,)]),
    ("SELECT 1 FROM sqlite_master WHERE name LIKE '%of_before%'", lambda rows: rows == []),
]


async def test_the_log_of_before_counts_as_appended_when_the_store_was_last_written(
    tmp_path: Path,
) -> None:
    restored(tmp_path / "a.db")
    store = await open_store(f"sqlite:///{tmp_path}/a.db", runtime=SystemRuntime())
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        for sql, holds in OF_LOGS:
            assert holds(file.execute(sql).fetchall()), sql
