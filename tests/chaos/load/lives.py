"""A process that commits runs to a store as fast as it can, until it is killed; the answers are kept elsewhere.

The runs are real ones: the core decides each step, and a worker of our own takes the leases and reports. The
next life finds what is left of them, looks whether each hangs together, and goes on with it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from enum import StrEnum
from itertools import count
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection

from stepwell.core.port import ExecutionQuery, RunQuery, Store, TaskQuery
from stepwell.core.records.fold import fold
from stepwell.core.records.model import Plan, Run
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_drivers.sql.sqlite import engine, opening
from tests.chaos.load.players import Player
from tests.chaos.oracle.history import TENANT, events_of
from tests.chaos.world.observed import Scribe
from tests.chaos.world.programs import FORKS, detach

LANES = 4


class Task(StrEnum):
    """The purpose of a life."""

    BEGIN = "end what was begun, and begin new runs for ever"
    END = "end what was begun, and go"
    READ = "look at what is there, and do nothing more"


class Life(NamedTuple):
    """The work of one process."""

    number: int
    url: str
    folder: Path
    """The folder for what it sent and the answers: on a disk that keeps everything."""
    seed: str
    task: Task = Task.BEGIN
    known: Mapping[str, int] = {}
    """The runs' versions as they were looked at before."""
    plant: str = ""
    """A mistake that this process makes: `NORMAL`."""

    @property
    def diary(self) -> Path:
        """Each commit that it sent, and its answer."""
        return self.folder / f"diary-{self.number}"

    @property
    def found(self) -> Path:
        """The runs' versions as it found them when it opened the store."""
        return self.folder / f"found-{self.number}"

    @property
    def failure(self) -> Path:
        return self.folder / f"failure-{self.number}"

    def why(self) -> str:
        """Return why it ended by itself."""
        return self.failure.read_text() if self.failure.exists() else "nobody knows"

    def begin(self) -> ForkServerProcess:
        """Start the process."""
        process = FORKS.Process(target=_live, args=(self,), daemon=True)
        process.start()
        return process


def _live(life: Life) -> None:
    detach()
    if life.plant == "NORMAL":
        opening.make_durable = _make_fast
    try:
        asyncio.run(_play(life))
    except BaseException:
        life.failure.write_text(traceback.format_exc())
        raise


def _make_fast(connection: Connection) -> None:
    engine.make_durable(connection)
    engine.raw(connection).execute("PRAGMA synchronous=NORMAL")


async def _play(life: Life) -> None:
    inner = await open_store(life.url, runtime=SystemRuntime())
    try:
        runs = await whole_runs(inner, life.known)
        _write(life.found, {run.spec.run_id: run.version for run in runs})
        if life.task is Task.READ:
            await asyncio.Event().wait()
        left = [run.spec.run_id for run in runs if not run.ended]
        new = count(1)
        store = Scribe(inner, life.diary, f"life {life.number}")

        async def lane(number: int) -> None:
            player = Player(store, f"{life.number}.{number}", life.seed)
            for run_id in left[number::LANES]:
                await player.play(run_id)
            while life.task is Task.BEGIN:
                await player.play(f"run-{life.number}-{next(new)}")

        async with asyncio.TaskGroup() as group:
            for number in range(LANES):
                group.create_task(lane(number))
    finally:
        await inner.close()


def _write(path: Path, words: dict[str, int]) -> None:
    """Write a file that is there as a whole or not at all."""
    half = path.with_suffix(".half")
    half.write_bytes(msgspec.json.encode(words))
    half.rename(path)


async def whole_runs(store: Store, known: Mapping[str, int]) -> list[Run]:
    """Return all runs; on the way, that each hangs together in itself unless its version is known."""
    found: list[Run] = []
    cursor = ""
    while True:
        page = await store.page(RunQuery(tenant_id=TENANT, cursor=cursor, limit=500))
        found += page.items
        cursor = page.cursor
        if not cursor:
            break
    for run in found:
        if known.get(run.spec.run_id) != run.version:
            await _hangs_together(store, run)
    return found


async def _hangs_together(store: Store, run: Run) -> None:
    name = run.spec.run_id
    events = await events_of(store, name)
    assert [event.number for event in events] == list(range(1, len(events) + 1)), f"E1: {name}"
    versions = list(dict.fromkeys(event.version for event in events))
    assert versions == list(range(1, run.version + 1)), f"S2: {name}: {versions}"
    plans: dict[int, Plan] = {}
    for revision in range(1, run.plan_revision + 1):
        plan = await store.read_plan(TENANT, name, revision)
        assert plan is not None, f"S1: {name} without its plan"
        plans[revision] = plan
    rows = fold(run.spec, plans, events)
    assert rows.run == run, f"S20: {name}"
    tasks = (await store.page(TaskQuery(tenant_id=TENANT, run_id=name, limit=1_000))).items
    assert rows.tasks == {one.task_id: one for one in tasks}, f"S20: tasks of {name}"
    executions = (
        await store.page(ExecutionQuery(tenant_id=TENANT, run_id=name, limit=1_000))
    ).items
    assert rows.executions == {e.execution_id: e for e in executions}, f"S20: steps of {name}"
    kept = [e.execution_id for e in executions if e.has_result]
    payloads = await store.read_payloads(TENANT, name, kept)
    assert len(payloads) == len(kept), f"S1: {name} without the bytes of a result"
