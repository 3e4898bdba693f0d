"""SQLite's own promises: a bounded queue, errors, full and busy files, a small log."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from stepwell.core.port import Commit, Presence
from stepwell.core.records.errors import (
    OutcomeUnknown,
    StoreFull,
    StoreStopped,
    StoreUnavailable,
)
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import engine, open_store, wal, writer
from stepwell_drivers.sql.sqlite.files import Files
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.support.logs import capture_logs
from tests.support.proofs.record import happened


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
    tmp_path: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ask.must(store, b.created())

    def fail(driver: sqlite3.Connection) -> None:
        raise sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)

    with monkeypatch.context() as rigged:
        rigged.setattr(engine, "commit", fail)
        with pytest.raises(OutcomeUnknown):
            await store.commit([b.step(first)])
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
    def fail(driver: sqlite3.Connection, *, empty_within_ms: int | None = None) -> bool:
        raise sqlite_error("disk I/O error", sqlite3.SQLITE_IOERR_FSYNC)

    first = await ask.must(store, b.created())
    monkeypatch.setattr(wal, "PAGES_MAX", 1)
    monkeypatch.setattr(wal, "checkpoint", fail)
    second = await ask.must(store, b.step(first))
    with pytest.raises(StoreUnavailable, match="stopped"):
        await store.commit([b.step(second)])


async def test_commit_that_meets_a_busy_file_is_refused_when_its_patience_is_over(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    store = await open_store(f"sqlite:///{path}?busy_timeout_ms=20", runtime=SystemRuntime())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as caught:
            await store.commit([b.created()])
    assert caught.value.reason == "STORE_BUSY"
    await store.close()


@pytest.mark.proof(meets=["SQLITE_BUSY retried"])
async def test_commit_that_meets_a_busy_file_waits_for_it_off_the_event_loop(
    tmp_path: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = asyncio.Event()
    loop, begin = asyncio.get_running_loop(), engine.begin

    def listen(driver: sqlite3.Connection, *, patience_ms: int = 0) -> None:
        if patience_ms:
            loop.call_soon_threadsafe(met.set)
        begin(driver, patience_ms=patience_ms)

    monkeypatch.setattr(engine, "begin", listen)
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        call = asyncio.create_task(store.commit([b.created()]))
        await met.wait()
        other.execute("ROLLBACK")
    (result,) = await call
    assert result.verdict is Verdict.COMMITTED
    happened("SQLITE_BUSY retried")


async def test_D4_a_full_file_refuses_and_goes_on(store: SqlStore) -> None:
    driver = writer_of(store)._driver
    pages_now = int(driver.execute("PRAGMA page_count").fetchone()[0])
    driver.execute(f"PRAGMA max_page_count={pages_now + 40}")
    await _fill(store, lambda: driver.execute(f"PRAGMA max_page_count={pages_now + 9_000}"))


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


# --- the log -------------------------------------------------------------------------------------


LOG_BYTES = 300_000


@pytest.fixture
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is copied, and emptied, after much less than it would be."""
    monkeypatch.setattr(wal, "PAGES_MAX", 40)
    monkeypatch.setattr(wal, "LOG_BYTES_MAX", LOG_BYTES)
    monkeypatch.setattr(wal, "RETRY_SECONDS", 0.0)


def log_bytes(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


@contextmanager
def readers_that_take_turns(path: Path) -> Iterator[None]:
    """Somebody is always reading: each of two ends when the other one has begun."""
    over = threading.Event()

    def read() -> None:
        readers = [sqlite3.connect(path, isolation_level=None) for _ in range(2)]
        with closing(readers[0]), closing(readers[1]):
            while not over.is_set():
                old, new = readers
                new.execute("BEGIN")
                new.execute("SELECT count(*) FROM runs").fetchall()
                if old.in_transaction:
                    old.execute("COMMIT")
                readers.reverse()
                over.wait(0.001)

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(read)
        try:
            yield
        finally:
            over.set()
            done.result()


@pytest.mark.parametrize("readers", [nullcontext, readers_that_take_turns])
async def test_log_stays_small_whether_somebody_always_reads_or_not(
    tmp_path: Path,
    store: SqlStore,
    small_log: None,
    readers: Callable[[Path], AbstractContextManager[None]],
) -> None:
    path = tmp_path / "a.db"
    commit = await ask.must(store, b.created())
    sizes: list[int] = []
    with readers(path):
        for _ in range(300):
            commit = await ask.must(store, b.step(commit, events=3))
            sizes.append(log_bytes(path))
    assert max(sizes) < 2 * LOG_BYTES


async def test_log_that_a_killed_process_left_is_emptied_at_opening(tmp_path: Path) -> None:
    sizes: list[int] = []
    for life in range(5):
        # What is copied while nobody writes is what a kill would leave.
        path = tmp_path / f"{life}.db"
        store = await opened(path)
        commit = await ask.must(store, b.created(f"run-{life}"))
        for _ in range(20):
            commit = await ask.must(store, b.step(commit))
        for end in ("", "-wal"):
            shutil.copyfile(f"{path}{end}", tmp_path / f"{life + 1}.db{end}")
        sizes.append(log_bytes(path))
        await store.close()
    assert max(sizes) < 2 * sizes[0]


async def test_reader_that_stays_holds_up_no_commit_and_is_logged(
    tmp_path: Path, small_log: None
) -> None:
    path = tmp_path / "a.db"
    # As long as a commit would be held up if the log were waited for like a lock.
    store = await open_store(f"sqlite:///{path}?busy_timeout_ms=60000", runtime=SystemRuntime())
    commit = await ask.must(store, b.created())
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM runs").fetchall()
        with capture_logs() as lines:
            while log_bytes(path) < 3 * LOG_BYTES:
                commit = await ask.must(store, b.step(commit, events=50))
            commit = await ask.must(store, b.step(commit))
        assert [line["event"] for line in lines] == ["the write-ahead log grows"]
        reader.execute("COMMIT")
    for _ in range(2):
        commit = await ask.must(store, b.step(commit))
    assert log_bytes(path) < LOG_BYTES
    await store.close()


async def test_log_that_filled_the_disk_takes_no_room_from_commits(
    tmp_path: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    monkeypatch.setattr(wal, "RETRY_SECONDS", 0.0)
    await ask.must(store, wide("before", os.urandom(1_000_000)))
    file_bytes = path.stat().st_size
    driver = writer_of(store)._driver
    pages_now = int(driver.execute("PRAGMA page_count").fetchone()[0])
    free_bytes = 900_000
    monkeypatch.setattr(Files, "free_bytes", lambda _: free_bytes)
    driver.execute(f"PRAGMA max_page_count={pages_now + 5}")
    with pytest.raises(StoreFull):
        await store.commit([wide("large", os.urandom(100_000))])
    # The writer keeps house after it has answered, and before it writes again.
    for name in ("small", "smaller"):
        await ask.must(store, b.created(name))
    assert log_bytes(path) > 1_000_000
    assert path.stat().st_size == file_bytes
    free_bytes = 1_200_000
    for name in ("after", "later"):
        await ask.must(store, b.created(name))
    assert log_bytes(path) < 200_000
    assert path.stat().st_size > 1_000_000


async def test_full_disk_is_logged_and_no_replica_is_ready_until_there_is_room(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [Presence(tenant_id="", worker_id="replica", instance_id="one", replica_id="one")]
    await store.put_presence(own, ttl_ms=1_000)
    free_bytes = 0
    monkeypatch.setattr(Files, "free_bytes", lambda _: free_bytes)
    driver = writer_of(store)._driver
    pages_now = int(driver.execute("PRAGMA page_count").fetchone()[0])
    driver.execute(f"PRAGMA max_page_count={pages_now + 5}")
    with capture_logs() as lines:
        for name in ("large", "larger"):
            with pytest.raises(StoreFull):
                await store.commit([wide(name, os.urandom(100_000))])
        with pytest.raises(StoreFull):
            await store.put_presence(own, ttl_ms=1_000)
        await ask.must(store, b.created("small"))
        await store.put_presence(own, ttl_ms=1_000)
        with pytest.raises(StoreFull):
            await store.commit([wide("large", os.urandom(100_000))])
        free_bytes = 2**30
        await store.put_presence(own, ttl_ms=1_000)

    assert [line["event"] for line in lines] == [
        "writes are refused",
        "the disk has room",
        "writes are refused",
    ]


# --- files that go --------------------------------------------------------------------------------


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    copy.rename(path)


@pytest.mark.parametrize("end", ["", "-wal"])
@pytest.mark.parametrize("act", [delete, replace])
async def test_S3_nothing_is_acknowledged_once_a_file_is_gone(
    tmp_path: Path, store: SqlStore, act: Callable[[Path], None], end: str
) -> None:
    first = await ask.must(store, b.created())
    act(tmp_path / f"a.db{end}")
    with capture_logs() as lines:
        with pytest.raises(OutcomeUnknown, match=r"a\.db.* was (deleted|replaced)"):
            await store.commit([b.step(first)])
        with pytest.raises(StoreStopped, match="stopped"):
            await store.put_presence([b.presence(tenant="")], ttl_ms=1_000)
    assert [line["event"] for line in lines] == ["the store stopped"]
