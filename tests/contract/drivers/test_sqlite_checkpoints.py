"""Checkpoints on SQLite: their bytes, and how a person reads them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.sqlite import open_store
from stepwell_testkit.conformance import ask
from tests.contract.drivers.chained import EPOCH_US, chain

STEPS = 50
"""The length of a run in the benchmark of 64 runs."""
SHARE_MAX = 0.02
RUNTIME = SystemRuntime()


def bytes_of(file: sqlite3.Connection, table: str) -> int:
    """Return the length of all values of a table as text or bytes."""
    names = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
    length = " + ".join(f'ifnull(length(CAST("{name}" AS BLOB)), 0)' for name in names)
    (total,) = file.execute(f"SELECT ifnull(sum({length}), 0) FROM {table}").fetchone()
    return total


@pytest.mark.parametrize("steps", [STEPS, 20 * STEPS])
async def test_checkpoints_are_a_fiftieth_of_a_run_s_bytes_at_most(
    tmp_path: Path, steps: int
) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'a.db'}", runtime=RUNTIME)
    for commit in chain(steps):
        await ask.must(store, commit)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        tables = {table.name for table in (*schema.OF_A_RUN, schema.outcomes)}
        of_run = {name: bytes_of(file, name) for name in tables}
        bases = file.execute("SELECT count(*) FROM checkpoints WHERE base IS NOT NULL").fetchone()
    share = of_run["checkpoints"] / sum(of_run.values())
    print(f"{steps} steps: {share:.2%} of {sum(of_run.values()):,} bytes")
    assert 0 < share <= SHARE_MAX
    assert bases == (int(steps > STEPS),)


async def test_person_reads_checkpoints_by_their_columns(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path / 'a.db'}", runtime=RUNTIME)
    for commit in chain(2):
        await ask.must(store, commit)
    await store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        rows = file.execute("SELECT cycle, state, created_us FROM checkpoints ORDER BY version")
        found = [(cycle, json.loads(state), created_us) for cycle, state, created_us in rows]
    assert [cycle for cycle, _, _ in found] == [1, 1]
    assert [[event["type"] for event in state["events"]] for _, state, _ in found] == [
        ["RUN_STARTED", "PLAN_ACCEPTED"],
        ["ITERATION_COMPLETED", "RUN_SUCCEEDED"],
    ]
    assert found[1][1]["run"]["counts"] == {"total": 2, "completed": 2}
    assert found[1][1]["since"]["counts"] == {"completed": 2}
    assert found[0][2] == EPOCH_US
