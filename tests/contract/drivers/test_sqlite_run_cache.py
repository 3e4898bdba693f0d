"""Verdicts of SQLite's writer on runs that it knows without a look, and on others: they are those of the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.core.port import Commit
from stepwell.core.records.errors import StoreFull
from stepwell.core.records.model import Payload
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import open_store, run_cache
from stepwell_drivers.sql.sqlite.writer import Writer
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b

COMMITTED, CONFLICT, LEASE_LOST = Verdict.COMMITTED, Verdict.CONFLICT, Verdict.LEASE_LOST


async def opened(path: Path) -> SqlStore:
    store = await open_store(f"sqlite:///{path}", runtime=SystemRuntime())
    assert isinstance(store, SqlStore)
    return store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    found = await opened(tmp_path / "a.db")
    yield found
    await found.close()


def driver_of(store: SqlStore) -> sqlite3.Connection:
    assert isinstance(store._writer, Writer)
    return store._writer._driver


def next_of(before: Commit, number: int) -> Commit:
    """Return a step's end and the lease of the next one."""
    last, new = f"task:a#{number}", f"task:a#{number + 1}"
    return b.step(
        before,
        executions=[b.ended(last), b.leased(new)],
        leases=[b.lease(new, token=f"t{number + 1}")],
        fences=[b.fence(last, token=f"t{number}")],
    )


async def test_run_that_is_not_known_any_more_is_looked_up(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_cache, "RUNS_MAX", 1)
    one = await ask.must(store, b.created_leased("one"))
    two = await ask.must(store, b.created_leased("two"))
    for number in range(1, 4):
        wrong = b.step(one, fences=[b.fence(f"task:a#{number}", token="wrong")])
        assert await ask.verdicts(store, wrong) == [LEASE_LOST]
        one, two = next_of(one, number), next_of(two, number)
        assert await ask.verdicts(store, one, two) == [COMMITTED, COMMITTED]
        assert await ask.verdicts(store, two, one) == [COMMITTED, COMMITTED]


async def test_refused_commit_leaves_no_trace_in_what_is_known(store: SqlStore) -> None:
    first = await ask.must(store, b.created_leased())
    pages_now = int(driver_of(store).execute("PRAGMA page_count").fetchone()[0])
    driver_of(store).execute(f"PRAGMA max_page_count={pages_now + 5}")
    second = next_of(first, 1)
    large = Payload(data=os.urandom(500_000), media_type="application/octet-stream")
    with pytest.raises(StoreFull):
        await store.commit([second, b.created("large", input=large)])
    assert await ask.verdicts(store, next_of(second, 2)) == [CONFLICT]
    assert await ask.verdicts(store, second, next_of(second, 2)) == [COMMITTED, COMMITTED]


async def test_what_another_program_wrote_is_seen(tmp_path: Path, store: SqlStore) -> None:
    first = await ask.must(store, b.created_leased())
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
        other.execute("UPDATE run_rows SET version = 7, commit_id = 'theirs'")
        other.execute("UPDATE executions SET token = 'theirs'")
    assert await ask.verdicts(store, next_of(first, 1)) == [CONFLICT]
    eighth = b.step(first, version=8, fences=[b.fence(token="theirs")])
    assert await ask.verdicts(store, eighth) == [COMMITTED]


async def test_run_that_was_deleted_is_judged_by_its_tombstone(store: SqlStore) -> None:
    first = await ask.must(store, b.created_leased())
    assert await store.delete_run(b.TENANT, b.RUN, version=1)
    assert await ask.verdicts(store, next_of(first, 1), first) == [CONFLICT, CONFLICT]
