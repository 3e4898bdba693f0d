"""SQLite's own promises: a bounded queue, errors, full and busy files, a small log."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from stepwell.core.port import Commit
from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import open_store, writer
from stepwell_drivers.sql.sqlite.engine import raw
from stepwell_drivers.sql.store import SqlStore
from stepwell_drivers.sql.trouble import Trouble
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
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


@pytest.mark.proof(meets=["SQLITE_BUSY retried"])
async def test_a_commit_that_met_a_busy_file_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    store = await open_store(f"sqlite:///{path}?busy_timeout_ms=20", runtime=SystemRuntime())
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as caught:
            await store.commit([b.created()])
    assert caught.value.reason == "STORE_BUSY"
    met, free = threading.Event(), threading.Event()
    translate = writer.trouble_of

    def listen(error: BaseException, *, committing: bool = False) -> Trouble:
        trouble = translate(error, committing=committing)
        if trouble.retry:
            met.set()
            # The writer's thread goes on only when the file is free, so that the second try is the last.
            assert free.wait(30)
        return trouble

    monkeypatch.setattr(writer, "trouble_of", listen)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        call = asyncio.create_task(store.commit([b.created()]))
        assert await asyncio.to_thread(met.wait, 30)
        other.execute("ROLLBACK")
        free.set()
        (result,) = await call
    assert result.verdict is Verdict.COMMITTED
    await store.close()
    happened("SQLITE_BUSY retried")


async def test_D4_a_full_file_refuses_and_goes_on(store: SqlStore) -> None:
    driver = raw(writer_of(store)._connection)
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
