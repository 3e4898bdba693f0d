"""The cost of a step in SQL, counted in one table: a guard that no timer is.

A step is a commit that takes one task's result of 1 KiB and leases the next task. A number here is changed with a
reason only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pytest

from stepwell.core.port import Commit
from stepwell_drivers.sql import batch, bodies, columns, schema
from stepwell_drivers.sql.batch import Batch
from stepwell_drivers.sql.sqlite.writer import Writer
from stepwell_drivers.sql.store import SqlStore
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.chained import chain
from tests.contract.drivers.postgres_place import Place
from tests.contract.drivers.sql_places import File
from tests.contract.drivers.test_postgres_calls import statements_of

RESULT = b'{"text": "' + b"x" * 1_012 + b'"}'


class Rows(NamedTuple):
    """Rows of one list, and the values in them."""

    rows: int
    values: int


LISTED = {
    # The run as it is now.
    "moved_runs": Rows(1, 9),
    # One task is completed, the next is running.
    "tasks": Rows(2, 12),
    # One attempt has ended, the next is leased.
    "executions": Rows(2, 38),
    # The result, and the receipt of its delivery.
    "outcomes": Rows(1, 7),
    # The commit with its events.
    "commits": Rows(1, 8),
}
"""The rows that both databases are given, by list."""
ENCODED = {"Run": 1, "Task": 2, "Execution": 2, "list": 1}
"""The records that are encoded: each body once, and all events of the commit as one."""
STORED_BYTES = 2_181
"""The lengths of all values of the rows that a step leaves behind."""
SQLITE_STATEMENTS = [
    "BEGIN IMMEDIATE",
    # Whether another program has written. Nothing else is read.
    "PRAGMA data_version",
    "UPDATE run_rows SET",
    "INSERT INTO task_rows",
    "INSERT INTO task_rows",
    "UPDATE executions SET",
    "INSERT INTO executions",
    "INSERT INTO outcomes",
    "INSERT INTO commits",
    "COMMIT",
]
"""Statements of SQLite, by their beginnings: one for each row."""
RECORD_STATEMENTS = [
    "BEGIN IMMEDIATE",
    "PRAGMA data_version",
    # Whether the entry's name is taken. Leases and sums are known.
    "SELECT journal_entries.run_key, journal_entries.step,",
    "INSERT INTO journal_entries",
    "INSERT INTO lease_sums",
    "COMMIT",
]
"""Statements of SQLite for one recorded entry: the middle ones once for each row."""
ENTRY_KIB_MAX = 1.5
"""The growth of a file by an entry with a value of 1 KiB."""
SQLITE_KIB_MAX = 3.2
"""The growth of a file by a step, with all indexes and what is left free on its pages."""


def steps(many: int, run_id: str = "00000000-0000-4000-8000-000000000001") -> list[Commit]:
    """Return the first commits of a run of fifty tasks: its start, and then its steps."""
    found = chain(50, run_id=run_id, result=RESULT)
    return [next(found) for _ in range(many + 1)]


@pytest.fixture
async def store(place: File | Place) -> AsyncIterator[SqlStore]:
    """Yield a store that writes over one link, on which statements are counted."""
    opened = await (place.open(pool_size="2") if isinstance(place, Place) else place.open())
    yield opened
    await opened.close()


async def stored_bytes(place: File | Place) -> int:
    """Return the lengths of all values in all tables but the number of a transaction."""
    total = 0
    for table in schema.OF_A_RUN:
        names = [column.name for column in table.c if column.name != "xid"]
        for row in await place.fetch(f"SELECT {', '.join(map(_quoted, names))} FROM {table.name}"):
            total += sum(_length(value) for value in row)
    return total


def _quoted(name: str) -> str:
    return f'"{name}"'


def _length(value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    return 0 if value is None else len(str(value).encode())


def test_a_step_is_few_rows() -> None:
    collected = Batch(0)
    collected.add(steps(10)[-1], 1)
    lists = asdict(collected.rows())
    found = {name: Rows(len(rows), sum(map(len, rows))) for name, rows in lists.items() if rows}
    assert found == LISTED


def test_each_record_of_a_step_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: Counter[str] = Counter()

    def count(value: object) -> str:
        encoded[type(value).__name__] += 1
        return columns.to_json(value)

    for module in (batch, bodies):
        monkeypatch.setattr(module, "to_json", count)
    collected = Batch(0)
    collected.add(steps(10)[-1], 1)
    assert encoded == ENCODED


async def sent(store: SqlStore, call: Awaitable[object]) -> list[str]:
    """Return the beginnings of the statements that SQLite is sent meanwhile."""
    assert isinstance(store._writer, Writer)
    found: list[str] = []
    store._writer._driver.set_trace_callback(found.append)
    await call
    store._writer._driver.set_trace_callback(None)
    return [" ".join(sql.replace(" OR IGNORE", "").split()[:3]) for sql in found]


async def test_a_step_is_few_statements(place: File | Place, store: SqlStore) -> None:
    *before, step = steps(10)
    for commit in before:
        await ask.must(store, commit)
    if isinstance(place, Place):
        assert len(await statements_of(store._writer, ask.must(store, step))) == 1
        return
    assert await sent(store, ask.must(store, step)) == SQLITE_STATEMENTS


async def test_a_recorded_entry_is_few_statements(place: File | Place, store: SqlStore) -> None:
    await ask.must(store, b.created_leased())
    await store.write_journal([b.journal_write(b.entry("before"))])
    one = b.journal_write(b.entry("one"))
    if isinstance(place, Place):
        assert len(await statements_of(store._writer, store.write_journal([one]))) == 1
        return
    assert await sent(store, store.write_journal([one])) == RECORD_STATEMENTS


async def test_the_same_entry_again_writes_nothing(tmp_path: Path) -> None:
    store = await File(tmp_path).open()
    await ask.must(store, b.created_leased())
    again = b.journal_write(b.entry("one"))
    await store.write_journal([again])
    reading = [sql for sql in RECORD_STATEMENTS if not sql.startswith("INSERT")]
    assert await sent(store, store.write_journal([again, b.journal_write()])) == reading
    await store.close()


async def test_a_file_grows_little_by_an_entry(tmp_path: Path) -> None:
    file = File(tmp_path)
    store = await file.open()
    names = [f"r{at}" for at in range(64)]
    await ask.must(store, *[b.created_leased(name) for name in names])
    for at in range(50):
        entry = b.entry(f"search/{at:08x}#1", RESULT)
        await store.write_journal([b.journal_write(entry, run_id=name) for name in names])
    await store.close()
    grown = file.path.stat().st_size
    assert grown / (64 * 50) / 1_024 <= ENTRY_KIB_MAX


async def test_a_step_leaves_few_bytes(place: File | Place, store: SqlStore) -> None:
    *before, step = steps(10)
    for commit in before:
        await ask.must(store, commit)
    already = await stored_bytes(place)
    await ask.must(store, step)
    assert await stored_bytes(place) - already == STORED_BYTES


async def test_a_file_grows_little_by_a_step(tmp_path: Path) -> None:
    file = File(tmp_path)
    store = await file.open()
    chains = [steps(50, f"00000000-0000-4000-8000-{at:012x}") for at in range(64)]
    for commits in zip(*chains, strict=True):
        await ask.must(store, *commits)
    await store.close()
    grown = file.path.stat().st_size
    assert grown / sum(map(len, chains)) / 1_024 <= SQLITE_KIB_MAX
