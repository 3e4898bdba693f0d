"""The event loop beside SQLite's writer: a slow disk holds up nothing but commits, and no write holds the loop long."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.core.port import Commit, OldLogs
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import engine, link, open_store, transactions, wal
from stepwell_drivers.sql.sqlite.writer import Writer
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.support.slow_disk import slow

TURNS = 20
"""Turns of the event loop after which whatever was ready has happened."""


async def opened(path: Path, runtime: SystemRuntime) -> SqlStore:
    store = await open_store(f"sqlite:///{path}", runtime=runtime)
    assert isinstance(store, SqlStore)
    await ask.must(store, b.created("first"))
    return store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    found = await opened(tmp_path / "a.db", SystemRuntime())
    yield found
    await found.close()


def driver_of(store: SqlStore) -> sqlite3.Connection:
    assert isinstance(store._writer, Writer)
    return store._writer._driver


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


# --- a slow disk -----------------------------------------------------------------------------------


async def test_slow_sync_holds_up_commits_and_neither_reads_nor_claims(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow(monkeypatch, engine, "commit") as disk:
        first = asyncio.create_task(ask.verdicts(store, b.created("slow")))
        await disk.met()
        second = asyncio.create_task(ask.verdicts(store, b.created("queued")))
        assert await ask.version_of(store, "first") == 1
        assert await ask.version_of(store, "slow") == 0
        await ask.ready_steps(store)
        await turns()
        assert not first.done()
        assert not second.done()
        disk.let_go()
        assert await first == await second == [Verdict.COMMITTED]


async def test_nothing_uses_the_writing_connection_while_it_is_synced(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: list[str] = []
    with slow(monkeypatch, engine, "commit") as disk:
        first = asyncio.create_task(store.commit([b.created("slow")]))
        await disk.met()
        driver_of(store).set_trace_callback(statements.append)
        others = [
            asyncio.create_task(store.commit([b.created("queued")])),
            asyncio.create_task(store.put_presence([b.presence()], ttl_ms=1_000)),
            asyncio.create_task(store.delete_run(b.TENANT, "first", version=1)),
        ]
        await turns()
        assert statements == []
        disk.let_go()
        await asyncio.gather(first, *others)
        assert statements
    driver_of(store).set_trace_callback(None)


async def test_checkpoint_comes_after_the_answer_and_holds_up_the_next_commit(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "PAGES_MAX", 1)
    with slow(monkeypatch, wal, "checkpoint") as disk:
        await ask.must(store, b.created("answered"))
        await disk.met()
        second = asyncio.create_task(store.commit([b.created("queued")]))
        assert await ask.version_of(store, "answered") == 1
        await turns()
        assert not second.done()
        disk.let_go()
        await second


TURNS = 20
"""Commits after which it is known whether the disk is quick."""


class Paced(SystemRuntime):
    """A runtime on whose clock only commits take time."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


async def test_small_commits_stay_on_the_event_loop_while_the_disk_is_quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Paced()
    store = await opened(tmp_path / "a.db", runtime)
    commit, here = engine.commit, list[bool]()
    took_s = transactions.QUICK_S / 2

    def timed(driver: sqlite3.Connection) -> None:
        here.append(threading.current_thread() is threading.main_thread())
        runtime.now += took_s
        commit(driver)

    monkeypatch.setattr(engine, "commit", timed)
    for at in range(TURNS):
        await ask.must(store, b.created(f"quick-{at}"))
    took_s = 1.0
    for at in range(3):
        await ask.must(store, b.created(f"slow-{at}"))
    took_s = 0.0
    for at in range(TURNS):
        await ask.must(store, b.created(f"again-{at}"))
    await ask.must(store, *[b.created(f"many-{at}") for at in range(transactions.SMALL_ROWS)])
    await ask.must(store, b.created("last"))
    await store.close()
    quick, slow, again = here[:TURNS], here[TURNS : TURNS + 3], here[TURNS + 3 : -2]
    # Whether the disk is quick shows after a few.
    assert quick == sorted(quick)
    assert (quick[0], quick[-1]) == (False, True)
    # The first slow one could not be foreseen.
    assert slow == [True, False, False]
    assert again == sorted(again)
    assert (again[0], again[-1]) == (False, True)
    assert here[-2:] == [False, True]


# --- long transactions -------------------------------------------------------------------------------

STATEMENT_S = 0.000_1


class Counted(SystemRuntime):
    """A runtime on whose clock nothing takes time but statements, and each of them the same."""

    statements = 0

    def monotonic(self) -> float:
        return self.statements * STATEMENT_S


class Held:
    """The most statements that ran on the event loop between two of its turns."""

    def __init__(self, driver: sqlite3.Connection, runtime: Counted) -> None:
        self._driver, self._runtime = driver, runtime
        self.most = 0
        self._now = 0

    def _count(self, _: str) -> None:
        self._runtime.statements += 1
        if threading.current_thread() is threading.main_thread():
            self._now += 1
            self.most = max(self.most, self._now)

    async def of(self, call: Any) -> int:
        """Make a call; return the most that it held the event loop."""
        self.most = self._now = 0
        self._driver.set_trace_callback(self._count)
        task = asyncio.ensure_future(call)
        while not task.done():
            self._now = 0
            await asyncio.sleep(0)
        self._driver.set_trace_callback(None)
        task.result()
        return self.most


def large(tasks: int) -> Commit:
    names = [f"t{at}" for at in range(tasks)]
    return b.created("large", plan=b.plan(*names), tasks=[b.task(name) for name in names])


async def test_long_writes_hold_the_event_loop_for_a_few_statements_at_once(
    tmp_path: Path,
) -> None:
    runtime = Counted()
    store = await opened(tmp_path / "a.db", runtime)
    held = Held(driver_of(store), runtime)
    at_once = link.HELD_S / STATEMENT_S + link.ROWS_AT_ONCE
    assert 0 < await held.of(ask.must(store, large(2_000))) <= at_once
    assert await held.of(store.delete_run(b.TENANT, "large", version=1)) <= at_once
    await store.append_logs(b.TENANT, "first", [b.line("x") for _ in range(2_000)])
    assert 0 < await held.of(store.remove_logs(OldLogs(older_ms=0, limit=2_000))) <= at_once
    await store.close()
