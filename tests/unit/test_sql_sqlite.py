"""What is SQLite's own: group commit, errors and full disks, what a person reads, costs that stay flat."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event

from stepwell.core.errors import InvalidArgument, OutcomeUnknown, StoreUnavailable
from stepwell.core.model import Outcome, Payload, RunSpec, Session, TaskSpec
from stepwell.core.ports import Commit
from stepwell.core.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.testing.conformance import ask
from stepwell.testing.conformance import builders as b
from stepwell_drivers.sql import (
    batch,
    claims,
    commits,
    deletes,
    families,
    logs,
    lookups,
    pages,
    reads,
    step_rows,
    stored,
    writes,
)
from stepwell_drivers.sql.sqlite import open_store, writer
from stepwell_drivers.sql.sqlite.engine import raw, reading_engine
from stepwell_drivers.sql.sqlite.url import parse
from stepwell_drivers.sql.statements import Delete, Pick, Query, Update, compiled
from stepwell_drivers.sql.store import SqlStore


async def opened(path: Path) -> SqlStore:
    store = await open_store(f"sqlite:///{path}", runtime=SystemRuntime())
    assert isinstance(store, SqlStore)
    return store


def writer_of(store: SqlStore) -> writer.Writer:
    assert isinstance(store._writer, writer.Writer)
    return store._writer


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    found = await opened(tmp_path / "a.db")
    yield found
    await found.close()


def wide(run_id: str, data: bytes) -> Commit:
    """Return a birth with that much input."""
    return b.born(run_id, input=Payload(data=data, media_type="application/octet-stream"))


# --- groups --------------------------------------------------------------------------------------


async def test_what_queues_while_a_transaction_runs_is_one_transaction(store: SqlStore) -> None:
    before = writer_of(store).groups
    births = [b.born_leased(f"run-{at}") for at in range(100)]
    calls = [store.commit([birth]) for birth in births]
    logs = [store.append_logs(b.TENANT, f"run-{at}", [b.line("x")]) for at in range(50)]
    beats = [store.renew([b.renewal(f"run-{at}")]) for at in range(50)]
    await asyncio.gather(*calls, *logs, *beats, store.put_presence([b.presence()], ttl_ms=1_000))
    # The first may have gone alone before the others came.
    assert writer_of(store).groups - before <= 3


async def test_a_run_may_take_many_steps_in_one_transaction(store: SqlStore) -> None:
    chain = [b.born_leased()]
    for at in range(2, 40):
        chain.append(
            b.step(
                chain[-1],
                fences=[b.fence(f"task:a#{at - 1}", token=f"t{at - 1}")],
                executions=[b.ended(f"task:a#{at - 1}"), b.leased(f"task:a#{at}")],
                leases=[b.lease(f"task:a#{at}", token=f"t{at}")],
                outcomes=[b.outcome(str(at).encode(), f"task:a#{at - 1}")],
            )
        )
    answers = await asyncio.gather(*[store.commit([commit]) for commit in chain])
    assert {result.verdict for (result,) in answers} == {Verdict.COMMITTED}
    rows = await ask.loaded(store)
    assert [(one.execution.execution_id, one.token) for one in rows.executions] == [
        ("task:a#39", "t39")
    ]
    page = await store.list_executions(b.TENANT, b.RUN)
    assert [one.execution_id for one in page.executions] == [f"task:a#{at}" for at in range(1, 40)]
    events = await store.read_events(b.TENANT, b.RUN, after=0, limit=1_000)
    assert events is not None
    assert [one.number for one in events.events] == list(range(1, 40))


async def test_one_that_fails_harms_nobody_in_its_group(store: SqlStore) -> None:
    bad = b.born("bad", spec=RunSpec(tenant_id=b.TENANT, run_id="bad", goal="\ud800"))
    large = b.born("large", spec=RunSpec(tenant_id=b.TENANT, run_id="large", priority=2**63))
    births = [b.born(f"run-{at}") for at in range(30)]
    births[10:10] = [bad]
    births[20:20] = [large]
    answers = await asyncio.gather(
        *[store.commit([birth]) for birth in births], return_exceptions=True
    )
    for birth, answer in zip(births, answers, strict=True):
        if birth in (bad, large):
            assert isinstance(answer, InvalidArgument)
            assert answer.reason == "NOT_STORABLE"
            assert await ask.version_of(store, birth.run_id) == 0
        else:
            assert not isinstance(answer, BaseException)
            assert await ask.version_of(store, birth.run_id) == 1


async def test_a_cancelled_caller_cancels_no_commit(store: SqlStore) -> None:
    call = asyncio.create_task(store.commit([b.born()]))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await ask.verdicts(store, b.born()) == [Verdict.COMMITTED]
    assert await ask.version_of(store) == 1


async def test_too_many_writes_are_refused(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUEUED_MAX", 3)
    calls = [store.commit([b.born(f"run-{at}")]) for at in range(10)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [one for one in answers if isinstance(one, StoreUnavailable)]
    assert refused
    assert {one.reason for one in refused} == {"STORE_BUSY"}


# --- errors --------------------------------------------------------------------------------------


def sqlite_error(words: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    return error


async def test_D3_after_a_failed_fsync_nothing_is_acknowledged(
    tmp_path: Path, store: SqlStore
) -> None:
    first = await ask.must(store, b.born())
    engine = writer_of(store)._connection.engine

    def fail(connection: Connection) -> None:
        raise sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)

    event.listen(engine, "commit", fail)
    with pytest.raises(OutcomeUnknown):
        await store.commit([b.step(first)])
    event.remove(engine, "commit", fail)
    for call in (
        store.commit([b.step(first)]),
        store.renew([b.renewal()]),
        store.delete_run(b.TENANT, b.RUN, version=1),
    ):
        with pytest.raises(StoreUnavailable, match="stopped"):
            await call
    await store.close()
    again = await opened(tmp_path / "a.db")
    assert await ask.verdicts(again, b.step(first)) == [Verdict.COMMITTED]
    await again.close()


async def test_D3_a_failed_checkpoint_stops_the_store_too(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: Connection, *, truncate: bool = False) -> None:
        raise sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)

    monkeypatch.setattr(writer, "LOG_CHANGES_MAX", 1)
    monkeypatch.setattr(writer, "checkpoint", fail)
    first = await ask.must(store, b.born())
    with pytest.raises(StoreUnavailable, match="stopped"):
        await store.commit([b.step(first)])


async def test_a_busy_file_is_tried_again(tmp_path: Path) -> None:
    store = await open_store(
        f"sqlite:///{tmp_path / 'a.db'}?busy_timeout_ms=50", runtime=SystemRuntime()
    )
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as caught:
            await store.commit([b.born()])
        assert caught.value.reason == "STORE_BUSY"
        call = asyncio.create_task(store.commit([b.born()]))
        await asyncio.sleep(0.07)
        other.execute("ROLLBACK")
        assert [result.verdict for result in await call] == [Verdict.COMMITTED]
    await store.close()


async def test_D4_a_full_file_refuses_and_goes_on(store: SqlStore) -> None:
    driver = raw(writer_of(store)._connection)
    pages_now = int(driver.execute("PRAGMA page_count").fetchone()[0])
    driver.execute(f"PRAGMA max_page_count={pages_now + 40}")
    await _fill(store, lambda: driver.execute(f"PRAGMA max_page_count={pages_now + 9_000}"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if os.geteuid() != 0 or done.returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


async def test_D4_a_full_disk_refuses_and_goes_on(small_disk: Path) -> None:
    store = await opened(small_disk / "a.db")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(600_000))
    await _fill(store, ballast.unlink)
    await store.close()
    again = await opened(small_disk / "a.db")
    assert await ask.version_of(again, "after") == 1
    await again.close()


async def _fill(store: SqlStore, make_room: Callable[[], object]) -> None:
    """Write until it is full; then what was refused is not there, and what was told is."""
    told: list[str] = []
    for at in range(200):
        name = f"run-{at}"
        try:
            # Each with a neighbour in its group.
            await asyncio.gather(
                store.commit([wide(name, os.urandom(30_000))]),
                store.append_logs(b.TENANT, "run-0", [b.line("x" * 100)]),
            )
        except StoreUnavailable as error:
            reason, words = error.reason, error.message
            break
        told.append(name)
    else:
        pytest.fail("it never was full")
    assert reason == "STORE_FULL", words
    assert told
    assert await ask.version_of(store, name) == 0
    assert await ask.version_of(store, told[-1]) == 1
    make_room()
    assert await ask.verdicts(store, wide(name, b"small"), b.born("after")) == [
        Verdict.COMMITTED,
        Verdict.COMMITTED,
    ]


async def test_the_log_stays_small(
    tmp_path: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOG_CHANGES_MAX", 100)
    commit = await ask.must(store, b.born())
    sizes: list[int] = []
    for _ in range(300):
        commit = await ask.must(store, b.step(commit, events=3))
        sizes.append((tmp_path / "a.db-wal").stat().st_size)
    assert max(sizes) < 2 * max(sizes[:60])


# --- what a person reads -------------------------------------------------------------------------


async def test_a_person_reads_it_with_sqlite3(tmp_path: Path, store: SqlStore) -> None:
    spec = RunSpec(
        tenant_id=b.TENANT,
        run_id=b.RUN,
        pipeline_id="survey",
        goal="count the files",
        labels={"team": "a"},
        executor_id="me",
    )
    plan = replace(
        b.plan(), tasks=(TaskSpec(task_id="a", title="Count", role="coder", prompt="count all"),)
    )
    session = Session(backend="cli-agent", session_id="s-1")
    first = b.born(
        spec=spec,
        input=Payload(data=b'{"dir": "/src"}'),
        plan=plan,
        tasks=[b.task("a")],
        executions=[b.leased()],
        leases=[b.lease()],
    )
    second = b.step(
        first,
        executions=[replace(b.ended(), session=session, has_result=True)],
        outcomes=[Outcome(execution_id=b.STEP, prompt="how many?", response="42")],
        messages=[b.message("hello")],
    )
    await ask.must(store, first, second)
    with closing(sqlite3.connect(f"file:{tmp_path / 'a.db'}?mode=ro", uri=True)) as file:

        def row(sql: str) -> Any:
            return file.execute(sql).fetchone()

        assert row(
            "SELECT tenant_id, pipeline_id, status, phase, goal, executor_id,"
            " labels ->> 'team', input_params ->> 'dir' FROM runs"
        ) == (b.TENANT, "survey", "QUEUED", "PLANNING", "count the files", "me", "a", "/src")
        assert row("SELECT task_id, title, role, status, prompt, idempotency_key FROM tasks") == (
            *("a", "Count", "coder", "READY", "count all"),
            f"{b.RUN}/a",
        )
        assert row(
            "SELECT e.status, e.worker_id, o.prompt, o.response, o.session_id, o.backend"
            " FROM executions e JOIN outcomes o USING (tenant_id, run_id, execution_id)"
        ) == ("COMPLETED", "worker-1", "how many?", "42", "s-1", "cli-agent")
        assert row("SELECT backend, session_id, task_id FROM sessions") == ("cli-agent", "s-1", "a")
        assert row("SELECT role, content FROM messages") == ("assistant", "hello")
        assert row("SELECT number, type FROM events ORDER BY number DESC") == (
            *(2, "EXECUTION_LEASED"),
        )
        assert row("SELECT count(*) FROM leases") == (0,)


# --- costs ---------------------------------------------------------------------------------------


def statements() -> Iterator[tuple[str, str, int]]:
    """Name, text and number of parameters of everything that the driver asks of the database."""
    from sqlalchemy.dialects import sqlite

    modules = (
        *(batch, claims, commits, deletes, families, logs, lookups),
        *(pages, reads, stored, writes),
    )
    several = {
        "_of_status": [
            lookups._of_status(*exact)
            for exact in ((), ("tenant_id",), ("tenant_id", "pipeline_id"))
        ],
        "_forks": [
            pages._matching(sqlite.dialect(), pages._Shape(exact, 1, 0))
            for exact in (("parent_run_id",), ("status", "pipeline_id", "parent_run_id"))
        ],
    }
    for module in modules:
        for name, value in (vars(module) | (several if module is lookups else {})).items():
            parts = value.values() if isinstance(value, dict) else value
            for part in parts if isinstance(value, dict | list | tuple) else [value]:
                if isinstance(part, Update | Pick | Delete):
                    form = compiled(part.build(sqlite.dialect(), 3), sqlite.dialect())
                elif isinstance(part, Query):
                    form = compiled(part._statement, sqlite.dialect())
                else:
                    continue
                if re.search("::|stepwell_now_us|pg_advisory", form.string):
                    continue  # Postgres' own
                where = f"{module.__name__}.{name}"
                yield where, form.string, len(form.positiontup or ())


async def test_no_statement_reads_a_table_from_end_to_end(tmp_path: Path, store: SqlStore) -> None:
    plans: dict[str, str] = {}
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        for name, sql, parameters in statements():
            rows = file.execute("EXPLAIN QUERY PLAN " + sql, ["x"] * parameters).fetchall()
            details = [str(row[3]) for row in rows]
            scans = [
                detail
                for detail in details
                if detail.startswith("SCAN")
                and "given" not in detail
                and "CONSTANT ROW" not in detail
            ]
            assert scans == [], (name, sql)
            name = name.rpartition("sql.")[2]
            plans[name] = "; ".join([plans[name], *details] if name in plans else details)
    assert len(plans) > 50
    for name, index in {
        "claims._next_role": "executions_ready (tenant_id=? AND queue=? AND kind=? AND role>?)",
        "claims._next_priority": "executions_ready",
        "claims._available": "executions_ready",
        "claims._expired": "leases_due",
        "claims._ran_out": "timers_due",
        "reads._open_executions": "executions_open",
        "reads._open_inputs": "inputs_open",
        "reads._leases_of": "leases_of_worker",
        "pages._executions": "executions_in_order",
        "pages._messages_of": "messages_of_task",
        "pages._feed_of_tenant": "commits_of_tenant",
        "families._member": "runs_by_family",
        "families._left": "tombstones_of_family",
        "logs._trim": "logs_of_execution (tenant_id=? AND run_id=? AND execution_id=?)",
        "logs._oldest": "INTEGER PRIMARY KEY (rowid>?)",
        "lookups._inputs_of_run": "inputs_in_order (tenant_id=? AND run_id=? AND seq>?)",
        "lookups._open_inputs": "inputs_waiting (tenant_id=? AND seq>?)",
        "lookups._newest_keyed": "keyed_by_key (tenant_id=? AND pipeline_id=? AND key=?)",
        "lookups._next_tenant": "runs_by_birth (tenant_id>?)",
        "lookups._forks": "runs_by_parent (tenant_id=? AND parent_run_id=? AND seq<?)",
    }.items():
        assert index in plans[name], plans[name]
        assert "TEMP B-TREE" not in plans[name], plans[name]
    ended = plans["lookups._of_status"]
    rest = "status=? AND (ended_us,run_id)>(?,?) AND ended_us<?)"
    assert [step.partition(" INDEX ")[2] for step in ended.split("; ")] == [
        "runs_ended (status=? AND (ended_us,tenant_id,run_id)>(?,?,?) AND ended_us<?)",
        f"runs_ended_of_tenant (tenant_id=? AND {rest}",
        f"runs_ended_of_pipeline (tenant_id=? AND pipeline_id=? AND {rest}",
    ]
    assert "TEMP B-TREE" not in ended, ended


class Effort:
    """Counts the steps of SQLite's machine: a cost that no other load on this computer changes."""

    def __init__(self, path: Path) -> None:
        self.connection = reading_engine(parse(f"sqlite:///{path}")).connect()
        self._steps = 0
        raw(self.connection).set_progress_handler(self._count, 10)

    def _count(self) -> int:
        self._steps += 10
        return 0

    def of(self, read: Callable[[Connection], object]) -> int:
        """Return what a read costs."""
        self._steps = 0
        with self.connection.begin():
            read(self.connection)
        return self._steps


def park(path: Path, many: int, *, now_us: int) -> None:
    """Put that many executions where no claim below may find them, in all the ways there are."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        later = now_us + 3_600_000_000
        for at in range(many):
            role, kind, queue, tenant, us = [
                ("lawyer", "TASK", "default", b.TENANT, 1),
                ("", "REFLECT", "default", b.TENANT, 1),
                ("", "TASK", "other", b.TENANT, 1),
                ("", "TASK", "default", "elsewhere", 1),
                ("", "TASK", "default", b.TENANT, later),
            ][at % 5]
            file.execute(
                "INSERT INTO executions (tenant_id, run_id, execution_id, task_id, kind, status,"
                " queue, role, priority, available_us) VALUES (?, ?, 'x', 'x', ?, 'READY', ?, ?,"
                " 9, ?)",
                (tenant, f"parked-{many}-{at}", kind, queue, role, us),
            )
            lease = (tenant, f"parked-{many}-{at}", at % 2, later if at % 2 else 1)
            file.execute(
                "INSERT INTO leases (tenant_id, run_id, execution_id, token, armed, deadline_us)"
                " VALUES (?, ?, 'x', 't', ?, ?)",
                lease,
            )
            file.execute(
                "INSERT INTO timers (tenant_id, run_id, name, due_us) VALUES (?, ?, 'x', ?)",
                (tenant, f"parked-{many}-{at}", later),
            )
        file.execute("COMMIT")


async def test_a_claim_costs_the_same_however_many_runs_are_parked(
    tmp_path: Path, store: SqlStore
) -> None:
    (result,) = await store.commit([b.born(executions=[b.ready(role="coder")])])
    now_us = result.now_us
    effort = Effort(tmp_path / "a.db")
    asked = claims.ClaimRequest(wants=(b.want(kinds=[b.ready().kind], roles=["coder"]),))

    def look(connection: Connection) -> None:
        found = claims.claim(connection, asked, claims.Holds(), now_us)
        assert [[step.run_id for step in steps] for steps in found.ready] == [[b.RUN]]
        assert found.due == ()

    park(tmp_path / "a.db", 100, now_us=now_us)
    few = effort.of(look)
    park(tmp_path / "a.db", 20_000, now_us=now_us)
    many = effort.of(look)
    effort.connection.close()
    assert many <= 1.2 * few, (few, many)


def _looks(commit: Commit) -> list[Callable[[Connection], object]]:
    """Return what is asked again and again of a run while it goes on."""
    version, last, run = commit.version, commit.run.last_event, (b.TENANT, b.RUN)
    return [
        lambda it: reads.load(it, *run, version - 3, lambda _: 0),
        lambda it: reads.read_events(it, *run, last - 5, 5),
        lambda it: pages.list_executions(it, run, "t0.5", "", 10),
        lambda it: pages.list_executions(it, run, "", "", 10),
        lambda it: pages.list_tasks(it, *run, "", 10),
        lambda it: pages.read_messages(it, run, "", "", 10),
        lambda it: pages.feed(it, "s", "", f"s.0.{version - 5}", 10),
    ]


async def test_a_delta_and_a_page_cost_the_same_however_long_the_history_is(
    tmp_path: Path, store: SqlStore
) -> None:
    commit = await ask.must(store, b.born())
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


def test_a_claim_s_columns_are_the_port_s() -> None:
    # What is indexed by value must be written by value.
    row = step_rows.execution_row(("a", "r"), 1, b.ready(delay_ms=5), 1_000)
    assert dict(zip(step_rows.EXECUTION, row, strict=True))["available_us"] == 6_000
