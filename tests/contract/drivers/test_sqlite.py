"""SQLite's own promises: group commit, errors and full disks, what a person reads."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event

from stepwell.core.port import Commit, ExecutionQuery
from stepwell.core.records.errors import InvalidArgument, OutcomeUnknown, StoreUnavailable
from stepwell.core.records.model import Outcome, Payload, RunSpec, Session, TaskSpec
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import open_store, writer
from stepwell_drivers.sql.sqlite.engine import raw
from stepwell_drivers.sql.store import SqlStore
from stepwell_drivers.sql.trouble import Trouble
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b


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
    return b.created(run_id, input=Payload(data=data, media_type="application/octet-stream"))


# --- groups --------------------------------------------------------------------------------------


async def test_commits_queued_during_a_transaction_share_the_next(store: SqlStore) -> None:
    before = writer_of(store).groups
    births = [b.created_leased(f"run-{at}") for at in range(100)]
    calls = [store.commit([birth]) for birth in births]
    logs = [store.append_logs(b.TENANT, f"run-{at}", [b.line("x")]) for at in range(50)]
    beats = [store.renew([b.renewal(f"run-{at}")]) for at in range(50)]
    await asyncio.gather(*calls, *logs, *beats, store.put_presence([b.presence()], ttl_ms=1_000))
    # The first may have gone alone before the others came.
    assert writer_of(store).groups - before <= 3


async def test_a_run_may_take_many_steps_in_one_transaction(store: SqlStore) -> None:
    chain = [b.created_leased()]
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
    page = await store.page(ExecutionQuery(tenant_id=b.TENANT, run_id=b.RUN))
    assert [one.execution_id for one in page.items] == [f"task:a#{at}" for at in range(1, 40)]
    events = await store.read_events(b.TENANT, b.RUN, after=0, limit=1_000)
    assert events is not None
    assert [one.number for one in events.events] == list(range(1, 40))


async def test_one_that_fails_harms_nobody_in_its_group(store: SqlStore) -> None:
    bad = b.created("bad", spec=RunSpec(tenant_id=b.TENANT, run_id="bad", goal="\ud800"))
    large = b.created("large", spec=RunSpec(tenant_id=b.TENANT, run_id="large", priority=2**63))
    births = [b.created(f"run-{at}") for at in range(30)]
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
    call = asyncio.create_task(store.commit([b.created()]))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await ask.verdicts(store, b.created()) == [Verdict.COMMITTED]
    assert await ask.version_of(store) == 1


async def test_too_many_writes_are_refused(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUEUED_MAX", 3)
    calls = [store.commit([b.created(f"run-{at}")]) for at in range(10)]
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
    first = await ask.must(store, b.created())
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
    first = await ask.must(store, b.created())
    with pytest.raises(StoreUnavailable, match="stopped"):
        await store.commit([b.step(first)])


async def test_a_busy_file_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await open_store(
        f"sqlite:///{tmp_path / 'a.db'}?busy_timeout_ms=50", runtime=SystemRuntime()
    )
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as caught:
            await store.commit([b.created()])
        assert caught.value.reason == "STORE_BUSY"
        met, free = _held_when_busy(monkeypatch)
        call = asyncio.create_task(store.commit([b.created()]))
        assert await asyncio.to_thread(met.wait, 30)
        other.execute("ROLLBACK")
        free.set()
        assert [result.verdict for result in await call] == [Verdict.COMMITTED]
    await store.close()


def _held_when_busy(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold the writer where it was refused: the one event tells of it, the other lets it go on."""
    met, free = threading.Event(), threading.Event()
    translate = writer.trouble_of

    def listen(error: BaseException, *, committing: bool = False) -> Trouble:
        trouble = translate(error, committing=committing)
        if trouble.error.reason == "STORE_BUSY":
            met.set()
            assert free.wait(30)
        return trouble

    monkeypatch.setattr(writer, "trouble_of", listen)
    return met, free


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
    """Write until it is full; then what was refused is not there, and what was reported is."""
    reported: list[str] = []
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
        reported.append(name)
    else:
        pytest.fail("it never was full")
    assert reason == "STORE_FULL", words
    assert reported
    assert await ask.version_of(store, name) == 0
    assert await ask.version_of(store, reported[-1]) == 1
    make_room()
    assert await ask.verdicts(store, wide(name, b"small"), b.created("after")) == [
        Verdict.COMMITTED,
        Verdict.COMMITTED,
    ]


async def test_the_log_stays_small(
    tmp_path: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOG_CHANGES_MAX", 100)
    commit = await ask.must(store, b.created())
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
    first = b.created(
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
