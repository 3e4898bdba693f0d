"""SQLite's queries cost the same however much is stored: plans, and the steps of its machine."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import LettersDelivered, StartInThread
from stepwell.core.loop.state import RunState
from stepwell.core.loop.thread_occurrences import RunLeft
from stepwell.core.port import Commit, ExecutionQuery, FeedQuery, MessageQuery, Store, TaskQuery
from stepwell.core.records.aggregates import id_of
from stepwell.core.records.model import RunSpec, TaskSpec
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.threads import threads_of
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql import (
    deletes,
    logs,
    pages,
    reads,
    reservations,
    search,
    writes,
)
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.sqlite import claims, commits, open_store, row_writes
from stepwell_drivers.sql.sqlite.engine import reading_connection, writing_engine
from stepwell_drivers.sql.sqlite.link import SqliteLink
from stepwell_drivers.sql.sqlite.url import parse
from stepwell_drivers.sql.statements import Delete, Pick, Query, Update, compiled
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.parked import PARKED


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    found = await open_store(f"sqlite:///{tmp_path / 'a.db'}", runtime=SystemRuntime())
    yield found
    await found.close()


def statements() -> Iterator[tuple[str, str, int]]:
    """Name, text and number of parameters of everything that the driver asks of the database."""
    from sqlalchemy.dialects import sqlite

    modules = (
        *(claims, commits, deletes, logs, search),
        *(pages, reads, reservations, row_writes, writes),
    )
    several = {
        "_of_status": [
            search._of_status(*exact)
            for exact in ((), ("tenant_id",), ("tenant_id", "pipeline_id"))
        ],
        "_forks": [
            pages._matching(sqlite.dialect(), pages._Shape(exact, 1, 0))
            for exact in (("parent_run_id",), ("status", "pipeline_id", "parent_run_id"))
        ],
        "_prefixed": [
            pages._matching(sqlite.dialect(), pages._Shape(exact, 1, 0, prefix=True))
            for exact in ((), ("status", "pipeline_id", "parent_run_id"))
        ],
    }
    for module in modules:
        for name, value in (vars(module) | (several if module is search else {})).items():
            parts = value.values() if isinstance(value, dict) else value
            for part in parts if isinstance(value, dict | list | tuple) else [value]:
                if isinstance(part, Update | Pick | Delete):
                    form = compiled(part.build(sqlite.dialect()), sqlite.dialect())
                elif isinstance(part, Query):
                    form = compiled(part._statement, sqlite.dialect())
                else:
                    continue
                if re.search("::|stepwell_now_us|pg_advisory", form.string):
                    continue  # Postgres' own
                where = f"{module.__name__}.{name}"
                yield where, form.string, len(form.positiontup or ())


async def test_no_statement_reads_a_table_from_end_to_end(tmp_path: Path, store: Store) -> None:
    plans: dict[str, str] = {}
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        for name, sql, parameters in statements():
            rows = file.execute("EXPLAIN QUERY PLAN " + sql, ["x"] * parameters).fetchall()
            details = [str(row[3]) for row in rows]
            scans = [
                detail
                for detail in details
                if detail.startswith("SCAN")
                # A row for each table that counts up.
                and "sqlite_sequence" not in detail
                and "CONSTANT ROW" not in detail
            ]
            assert scans == [], (name, sql)
            name = name.rpartition("sql.")[2]
            plans[name] = "; ".join([plans[name], *details] if name in plans else details)
    assert len(plans) > 50
    for name, index in {
        "sqlite.claims._next_lane": "executions_ready (tenant_id=? AND queue=? AND "
        "(kind,role,type,pin,priority)>(?,?,?,?,?))",
        "sqlite.claims._next_priority": "executions_ready",
        "sqlite.claims._available": "executions_ready",
        "sqlite.claims._expired": "executions_due (deadline_us>? AND deadline_us<?)",
        "sqlite.claims._ran_out": "timers_due",
        "reads._open_executions": "executions_open",
        "reads._open_questions": "questions_open",
        "pages._leases_of_tenant": "executions_of_worker (tenant_id=?",
        "pages._leases_of_worker": "executions_of_worker (tenant_id=? AND worker_id=?)",
        "pages._leases_of_run": "executions_open (run_key=?)",
        "reads._whole": "commits_by_event (run_key=? AND last_event>? AND last_event<?)",
        "reads._next": "commits_by_event (run_key=? AND last_event>?)",
        "pages._executions": "executions_in_order (run_key=? AND rowid>?)",
        "pages._executions_of": "executions_of_task (run_key=? AND task_id=? AND rowid>?)",
        "pages._messages": "messages_in_order (run_key=? AND rowid>?)",
        "pages._messages_of": "messages_of_task (run_key=? AND task_id=? AND rowid>?)",
        "pages._logs": "logs_in_order (run_key=? AND rowid>?)",
        "pages._logs_of": "logs_of_execution (run_key=? AND execution_id=? AND rowid>?)",
        "pages._tasks": "tasks_in_order (run_key=? AND (revision,position,task_id)>(?,?,?))",
        "pages._feed_of_tenant": "commits_of_tenant",
        "deletes._fork": "runs_by_parent (tenant_id=? AND parent_run_id=?)",
        "logs._trim": "logs_of_execution (run_key=? AND execution_id=?)",
        "logs._oldest": "INTEGER PRIMARY KEY (rowid>?)",
        "search._questions_of_run": "questions_in_order (run_key=? AND rowid>?)",
        "search._open_questions": "questions_waiting (tenant_id=? AND rowid>?)",
        "reservations._pick": "PRIMARY KEY (tenant_id=? AND pipeline_id=? AND key=?)",
        "reservations._drop": "PRIMARY KEY (tenant_id=? AND pipeline_id=? AND key=?)",
        "search._forks": "runs_by_parent (tenant_id=? AND parent_run_id=? AND run_key<?)",
    }.items():
        assert index in plans[name], plans[name]
        assert "TEMP B-TREE" not in plans[name], plans[name]
    ended = plans["search._of_status"]
    rest = "status=? AND ended_us<?)"
    assert [step.partition(" INDEX ")[2] for step in ended.split("; ")] == [
        "runs_ended (status=? AND ended_us<?)",
        "",
        "runs_by_parent (tenant_id=? AND parent_run_id=?)",
        f"runs_ended_of_tenant (tenant_id=? AND {rest}",
        "",
        "runs_by_parent (tenant_id=? AND parent_run_id=?)",
        f"runs_ended_of_pipeline (tenant_id=? AND pipeline_id=? AND {rest}",
        "",
        "runs_by_parent (tenant_id=? AND parent_run_id=?)",
    ]
    assert "TEMP B-TREE" not in ended, ended


class Effort:
    """Counts the steps of SQLite's machine: a cost that no other load on this computer changes."""

    def __init__(self, path: Path) -> None:
        self.connection = reading_connection(parse(f"sqlite:///{path}"))
        self._steps = 0
        self.connection.set_progress_handler(self._count, 10)

    def _count(self) -> int:
        self._steps += 10
        return 0

    def of(self, read: Callable[[Link], object]) -> int:
        """Return what a read costs."""
        self._steps = 0
        read(SqliteLink(self.connection))
        return self._steps


def park(path: Path, first: int, last: int) -> None:
    """Put executions where no claim below may find them, in all the ways there are."""
    rows = f"WITH RECURSIVE s(at) AS (VALUES ({first}) UNION ALL SELECT at + 1 FROM s WHERE at < {last})"
    parked = PARKED.format(rows=f"({rows} SELECT at FROM s)", uuid="hex(randomblob(16))")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.executescript(f"BEGIN IMMEDIATE;{parked}COMMIT")


async def test_a_claim_costs_the_same_however_many_runs_are_parked(
    tmp_path: Path, store: Store
) -> None:
    (result,) = await store.commit([b.created(executions=[b.ready(role="coder")])])
    now_us = result.now_us
    effort = Effort(tmp_path / "a.db")
    asked = claims.Claim(wants=(b.want(kinds=[b.ready().kind], tasks=[TaskPattern(role="coder")]),))

    def read_once(connection: Link) -> None:
        found = claims.claim(connection, asked, claims.Holds(), now_us)
        assert [[step.run_id for step in steps] for steps in found.ready] == [[b.RUN]]
        assert found.due == ()

    park(tmp_path / "a.db", 1, 100)
    few = effort.of(read_once)
    park(tmp_path / "a.db", 101, 20_000)
    many = effort.of(read_once)
    effort.connection.close()
    assert many <= 1.2 * few, (few, many)


def idle_thread(name: str) -> list[Commit]:
    """Return the commits of a thread whose only run has ended."""
    state = RunState.empty(threads_of(b.TENANT), id_of(b.TENANT, name))
    spec = RunSpec(tenant_id=b.TENANT, run_id=name, thread_id=name, request_fingerprint="print")
    start = StartInThread(spec=spec, plan=(TaskSpec(task_id="t"),))
    commits: list[Commit] = []
    for occurrence in (start, LettersDelivered(last=1), RunLeft(run_id=name)):
        context = Context(commit_id=f"{name}.{len(commits)}", now_us=1)
        commit = advance(state, [occurrence], context).commit
        assert commit is not None
        state.apply(commit)
        commits.append(commit)
    return commits


async def test_a_claim_costs_the_same_however_many_threads_are_idle(
    tmp_path: Path, store: Store
) -> None:
    (result,) = await store.commit([b.created(executions=[b.ready()])])
    effort = Effort(tmp_path / "a.db")
    asked = claims.Claim(wants=(b.want(),))

    def read_once(connection: Link) -> None:
        found = claims.claim(connection, asked, claims.Holds(), result.now_us + 10**9)
        assert [[step.run_id for step in steps] for steps in found.ready] == [[b.RUN]]
        assert found.due == ()

    costs: list[int] = []
    for count in (1, 100):
        for number in range(count):
            for commit in idle_thread(f"thread-{count}-{number}"):
                await ask.must(store, commit)
        costs.append(effort.of(read_once))
    effort.connection.close()
    assert costs[1] <= 1.2 * costs[0], costs


def _looks(commit: Commit) -> list[Callable[[Link], object]]:
    """Return what is asked again and again of a run while it goes on."""
    version, last, run = commit.version, commit.run.last_event, (b.TENANT, b.RUN)
    of_run: dict[str, Any] = {"tenant_id": b.TENANT, "run_id": b.RUN, "limit": 10}
    about = pages.About("s", lambda _: 0)
    return [
        lambda it: reads.load(it, *run, version - 3, lambda _: 0),
        lambda it: reads.read_events(it, *run, last - 5, 5),
        lambda it: pages.executions(it, ExecutionQuery(**of_run, task_id="t0.5"), about),
        lambda it: pages.executions(it, ExecutionQuery(**of_run), about),
        lambda it: pages.tasks(it, TaskQuery(**of_run), about),
        lambda it: pages.messages(it, MessageQuery(**of_run), about),
        lambda it: pages.feed(it, FeedQuery(cursor=f"s.0.{version - 5}", limit=10), about),
    ]


async def test_a_delta_and_a_page_cost_the_same_however_long_the_history_is(
    tmp_path: Path, store: Store
) -> None:
    commit = await ask.must(store, b.created())
    effort = Effort(tmp_path / "a.db")
    costs: list[list[int]] = []
    for _ in range(2):
        for at in range(20 if not costs else 1_500):
            name = f"task:t{len(costs)}.{at}#1"
            commit = b.step(
                commit,
                tasks=[b.task(f"t{len(costs)}.{at}")],
                executions=[b.ended(name, task_id=f"t{len(costs)}.{at}")],
                outcomes=[b.outcome(b"{}", name)],
                messages=[b.message("m")],
            )
            await ask.must(store, commit)
        costs.append([effort.of(read) for read in _looks(commit)])
    effort.connection.close()
    for few, many in zip(*costs, strict=True):
        assert many <= 1.3 * few + 50, costs


async def test_a_deletion_leaves_the_feed_with_its_tombstone(tmp_path: Path, store: Store) -> None:
    commit = await ask.must(store, b.created("gone"))
    await ask.must(store, b.created("there"))
    assert await store.delete_run(b.TENANT, "gone", version=commit.version)
    await store.close()
    engine = writing_engine(parse(f"sqlite:///{tmp_path / 'a.db'}"))
    about = pages.About("s", lambda _: 0)
    left: list[list[str]] = []
    for now_us in (0, 2**62):
        with engine.begin() as connection:
            writes.sweep(connection, now_us)
            page = pages.feed(connection, FeedQuery(), about)
        left.append([entry.run_id for entry in page.items])
    engine.dispose()
    assert left == [["there", "gone"], ["there"]]
