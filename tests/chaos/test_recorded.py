"""J1: a process ends before or after each COMMIT of recorded entries; the next one finds what was acknowledged."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stepwell.core.port import Commit, JournalQuery, Store
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b

GROUPS = 4
"""Groups of two entries, each in a transaction of its own."""
CRASHED = 9

RECORDS = """
    import asyncio, os, sys
    from stepwell.runtime import SystemRuntime
    from stepwell.store.opener import open_store
    from stepwell_drivers.sql.sqlite import engine
    from stepwell_testkit.conformance import builders as b

    url, at, side = sys.argv[1:]

    async def main():
        store = await open_store(url, runtime=SystemRuntime())
        await store.commit([b.created_leased()])
        commit, group = engine.commit, 0

        def crashing(driver):
            if group == int(at) and side == "before":
                os._exit(9)
            commit(driver)
            if group == int(at):
                os._exit(9)

        engine.commit = crashing
        for group in range(4):
            entries = [b.entry(f"{group}.{one}", b"x" * 1_000) for one in "ab"]
            await store.write_journal([b.journal_write(*entries)])
            print(group, flush=True)

    asyncio.run(main())
"""


async def keys(store: Store) -> list[str]:
    """Return the keys of all entries that are kept."""
    page = await store.page(JournalQuery(tenant_id=b.TENANT, run_id=b.RUN))
    return [stored.entry.key for stored in page.items]


def keys_of(groups: int) -> list[str]:
    """Return the keys of the entries of the first groups."""
    return [f"{group}.{one}" for group in range(groups) for one in "ab"]


async def end(store: Store, first: Commit, recorded: int) -> None:
    """End the lease by a commit that knows of so many entries."""
    fence = b.fence(recorded=recorded)
    await ask.must(store, b.step(first, executions=[b.ended()], fences=[fence]))


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("at", range(GROUPS))
async def test_J1_entries_acknowledged_before_a_crash_are_kept_and_counted(
    tmp_path: Path, side: str, at: int
) -> None:
    script, url = tmp_path / "records.py", f"sqlite:///{tmp_path}/store.db"
    script.write_text(textwrap.dedent(RECORDS))
    command = [sys.executable, str(script), url, str(at), side]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == CRASHED, done.stderr
    assert done.stdout.split() == [str(group) for group in range(at)]

    store = await open_store(url, runtime=SystemRuntime())
    try:
        # Of the group that was not acknowledged all is there, or nothing.
        groups = at + (side == "after")
        assert await keys(store) == keys_of(groups)
        (row,) = (await ask.loaded(store)).executions
        assert (row.recorded.entries, row.recorded.bytes) == (2 * groups, 2_000 * groups)
        # Said again it is there once.
        for group in range(GROUPS):
            entries = [b.entry(f"{group}.{one}", b"x" * 1_000) for one in "ab"]
            (answer,) = await store.write_journal([b.journal_write(*entries)])
            assert all(written.accepted for written in answer.written)
        assert await keys(store) == keys_of(GROUPS)
        await end(store, b.created_leased(), 2 * GROUPS)
    finally:
        await store.close()
