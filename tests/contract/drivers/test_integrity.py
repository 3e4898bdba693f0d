"""No row is left without its run, in tables and in views, while runs are created, deleted and purged at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from stepwell.core.port import EndedQuery, Store
from stepwell.core.records.states import RunStatus, TaskStatus, Verdict
from stepwell_drivers.sql import schema
from stepwell_testkit.conformance import builders as b
from tests.contract.drivers.postgres_place import Place
from tests.contract.drivers.sql_places import File

RUNS = 60
SEEDS = (1, 2)
ORPHANS = {
    table.name: f"SELECT count(*) FROM {table.name} AS t WHERE NOT EXISTS"
    " (SELECT 1 FROM run_rows AS r WHERE r.run_key = t.run_key)"
    # The feed names a deletion for a while.
    + (" AND version > 0" if table is schema.commits else "")
    for table in schema.OF_A_RUN
    if table is not schema.runs
} | {
    "tasks": "SELECT count(*) FROM tasks AS t"
    " WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = t.run_id)",
    "events": "SELECT count(*) FROM events AS e"
    " WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = e.run_id)",
    "events of tasks": "SELECT count(*) FROM events WHERE task_name <> '' AND task_id IS NULL",
}
ALL = " UNION ALL ".join(
    f"SELECT '{name}', n FROM ({sql}) AS o(n)" for name, sql in ORPHANS.items()
)


async def orphans(place: File | Place) -> dict[str, int]:
    """Return the tables and views that have rows of no run, in one snapshot."""
    sql = (
        ALL
        if isinstance(place, Place)
        else ALL.replace(" AS o(n)", "").replace("count(*)", "count(*) AS n")
    )
    return {name: many for name, many in await place.fetch(sql) if many}


class Load:
    """Runs that are worked on, deleted and purged at once, by seed."""

    def __init__(self, doors: list[Store], seed: int) -> None:
        self.doors = doors
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.ended = asyncio.Event()

    def door(self) -> Store:
        """Return one of the store's doors."""
        return self.chance.choice(self.doors)

    async def live(self, run_id: str) -> None:
        """Play one run, with somebody who deletes it at any moment, or lets it end."""
        await asyncio.sleep(self.chance.random() / 2)
        parts = [self.work(run_id), self.write_logs(run_id)]
        if self.chance.random() < 0.6:
            parts.append(self.delete(run_id))
        await asyncio.gather(*parts)

    async def work(self, run_id: str) -> None:
        """Create the run and take it step by step to its end, if it isn't deleted before."""
        commit = b.created(
            run_id,
            plan=b.plan("a", "b"),
            tasks=[b.task("a"), b.task("b", TaskStatus.PENDING)],
            executions=[b.leased()],
            leases=[b.lease()],
            timers=[b.timer(60_000)],
            questions=[b.question("q")],
        )
        last = self.chance.randint(2, 6)
        for at in range(2, last + 2):
            await asyncio.sleep(self.chance.random() / 50)
            about = tuple(replace(one, task_id="a") for one in commit.events)
            (result,) = await self.door().commit([replace(commit, events=about)])
            if result.verdict is Verdict.CONFLICT:
                self.done["overtaken"] += 1
                return
            commit = b.step(
                commit,
                status=RunStatus.SUCCEEDED if at > last else RunStatus.RUNNING,
                tasks=[b.task("a", TaskStatus.COMPLETED), b.task(f"more-{at}")],
                executions=[b.ended(f"task:a#{at}")],
                outcomes=[b.outcome(b"{}", f"task:a#{at}")],
                messages=[b.message("a word")],
                request=b.request(f"r{at}", at),
            )
        (result,) = await self.door().commit([commit])
        self.done[f"ended {result.verdict.value}"] += 1

    async def write_logs(self, run_id: str) -> None:
        """Append to the run's log, whether it is there or not."""
        for _ in range(5):
            await self.door().append_logs(b.TENANT, run_id, [b.line("a line")])

    async def delete(self, run_id: str) -> None:
        """Delete the run at the version that it has just then."""
        for _ in range(200):
            run = await self.door().get_run(b.TENANT, run_id)
            if run is not None and await self.door().delete_run(
                b.TENANT, run_id, version=run.version
            ):
                self.done["deleted"] += 1
                return

    async def purge(self) -> None:
        """Delete half of the runs that have ended, again and again, as retention does."""
        query = EndedQuery(tenant_id=b.TENANT, statuses=(RunStatus.SUCCEEDED,), limit=8)
        while not self.ended.is_set():
            for run in (await self.door().page(query)).items[::2]:
                if await self.door().delete_run(b.TENANT, run.run_id, version=run.version):
                    self.done["purged"] += 1
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", SEEDS)
async def test_deletes_and_purges_under_load_leave_no_orphan(
    place: File | Place, seed: int
) -> None:
    doors: list[Any] = [await place.open() for _ in range(2 if isinstance(place, Place) else 1)]
    load = Load(doors, seed)
    scans = 0

    async def scan() -> None:
        nonlocal scans
        while not load.ended.is_set():
            assert await orphans(place) == {}, f"seed {seed}"
            scans += 1
            await asyncio.sleep(0.02)

    others = [asyncio.ensure_future(one) for one in (load.purge(), scan())]
    await asyncio.gather(*[load.live(f"run-{at}") for at in range(RUNS)])
    load.ended.set()
    await asyncio.gather(*others)
    assert await orphans(place) == {}, f"seed {seed}"
    assert scans, "nobody looked"
    assert min(load.done[what] for what in ("deleted", "purged", "overtaken")), load.done
    ((left, with_tasks),) = await place.fetch(
        "SELECT count(DISTINCT runs.id), count(DISTINCT tasks.run_id)"
        " FROM runs LEFT JOIN tasks ON tasks.run_id = runs.id"
    )
    assert left == with_tasks == RUNS - load.done["deleted"] - load.done["purged"], load.done
    for door in doors:
        await door.close()
