"""Power cut after power cut over one store: what was acknowledged is compared with what is found.

A cut comes at a change that the seed draws, counted in the file system instead of by time, so that
a slow machine cuts at the same places. `STEPWELL_CUT_SEED=…` plays another series.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Thread
from typing import NamedTuple

import asyncpg
import msgspec
import redis

from stepwell.core.port import Store
from stepwell.core.records.states import Durability, Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from tests.chaos.disk.disk import Disk, drawn
from tests.chaos.disk.powered import Powered, Serve
from tests.chaos.disk.stored import Survival
from tests.chaos.load.lives import Life, Task, whole_runs
from tests.chaos.oracle import history
from tests.chaos.world.observed import Entry, read
from tests.support.backends.child import NotStarted
from tests.support.patience import PATIENCE_S
from tests.support.proofs.record import note

SEED = os.environ.get("STEPWELL_CUT_SEED", "20261122")
KILLS_ONLY = 0.25
LOOK_S = 0.02
WITHOUT_POWER = (
    NotStarted | OSError | redis.RedisError | asyncpg.PostgresError | asyncpg.InterfaceError
)
"""The errors with which a start may end when power goes off on the way."""


class Setting(NamedTuple):
    """One row of the figures."""

    name: str
    serve: Serve
    durability: Durability
    """The class that `describe` returns; below POWER the series must show losses."""
    plant: str = ""
    size: str = "power cuts"
    """The number of cuts: its row in tests/support/proofs/sizes.py."""
    syncs_what_it_shows: bool = True
    """Rows that were read are kept, too. Redis shows what a kill has left unsynced in its log."""
    sees_holes: bool = True
    """A hole in what was being written is found. Redis' log has no checksums."""

    @property
    def keeps(self) -> bool:
        """Return true if nothing acknowledged may be lost."""
        return self.durability is Durability.POWER and not self.plant


class Part(NamedTuple):
    """One test case: some of a setting's cuts, over a store of their own."""

    setting: Setting
    cuts: range

    def __str__(self) -> str:
        return f"{self.setting.name}, from {self.cuts.start}"


class _Start(Thread):
    """A thread that brings up the store's server, while another watches for power going off."""

    def __init__(self, start: Callable[[], object]) -> None:
        super().__init__()
        self._begin = start
        self.error: Exception | None = None
        """Why it failed, once it is over."""

    def run(self) -> None:
        try:
            self._begin()
        except Exception as error:  # Who looks on knows whether power went off.
            self.error = error


class Series:
    """All lives of one store, and the answers that they got."""

    def __init__(self, part: Part, disk: Disk, powered: Powered, folder: Path) -> None:
        self._setting, self._disk, self._powered, self._folder = part.setting, disk, powered, folder
        self._seed = f"{SEED} {part}"
        self._chance = Random(self._seed)
        self._known: dict[str, int] = {}
        """Version by run: what was acknowledged, or read, and is not known to be lost."""
        self._acknowledged: dict[str, int] = {}
        """Version by run: the newest that was acknowledged."""
        self._found: dict[str, int] = {}
        """Version by run as the last life that looked found it."""
        self.diary: list[Entry] = []
        self.acknowledged = 0
        self.lost = 0
        self.lives = self.cuts = self.kills = 0
        self._starting: _Start | None = None

    def _life(self, task: Task) -> Life:
        self.lives += 1
        seed = f"{self._seed} {self.lives}"
        known, plant = self._found, self._setting.plant
        return Life(self.lives, self._powered.url, self._folder, seed, task, known, plant)

    def cut(self) -> None:
        """One life up to a power cut, or up to a kill that leaves unsynced writes to the next life."""
        killed = self.lives > 0 and self._chance.random() < KILLS_ONLY
        # Now and then so early that the store is only being opened.
        if self.lives and self._chance.random() < 0.2:
            self._disk.cut_at(self._chance.randint(1, self._powered.early_max))
            if not self._starts():
                self._end_of_power(killed=killed)
                return
        else:
            self._powered.start()
            most = self._powered.changes_max
            self._disk.cut_at(self._chance.randint(1 if self.lives else most // 2, most))
        self._live(Task.BEGIN, killed=killed)
        if killed and self._chance.random() < 0.5:
            # Nothing is written now: what is read must be on the disk already.
            self._powered.start()
            self._live(Task.READ, killed=False)

    def _starts(self) -> bool:
        """Start what serves the store; tell whether power lasted until it was up.

        Raises:
            Exception: it failed, and power had nothing to do with it.
        """
        starting = self._starting = _Start(self._powered.start)
        starting.start()
        while starting.is_alive():
            if self._disk.is_off(LOOK_S):
                return False
        if starting.error is not None and not self._disk.is_off(LOOK_S):
            raise starting.error
        return starting.error is None

    def _live(self, task: Task, *, killed: bool) -> None:
        life = self._life(task)
        process = life.begin()
        until = time.monotonic() + PATIENCE_S
        while not (life.found.exists() if task is Task.READ else self._disk.is_off(0.5)):
            assert process.is_alive(), f"{life} ended by itself:\n{life.why()}"
            assert time.monotonic() < until, f"{life}: {self._disk.counted()} changes only"
            if task is Task.READ:
                time.sleep(0.002)
        self._end_of_power(process.kill, killed=killed)
        process.join()
        self._compare(life)

    def _end_of_power(self, kill: Callable[[], object] = lambda: None, *, killed: bool) -> None:
        """Kill everybody while nothing reaches the disk, and have power back."""
        self._disk.off()
        self._powered.kill()
        kill()
        if killed:
            self._disk.thaw()
            self.kills += 1
        else:
            # The first is the plainest: nothing survives.
            in_order = not self._setting.sees_holes
            self._disk.on(drawn(self._chance, in_order=in_order) if self.cuts else Survival())
            self.cuts += 1
        starting, self._starting = self._starting, None
        if starting is not None:
            starting.join()
        self._powered.wait_gone()
        if starting is not None and not isinstance(starting.error, WITHOUT_POWER | None):
            raise starting.error

    def end(self) -> None:
        """A last life, which ends all runs; then the whole history is checked."""
        self._disk.heal()
        self._powered.start()
        life = self._life(Task.END)
        process = life.begin()
        process.join(PATIENCE_S)
        assert process.exitcode == 0, f"{life}: {process.exitcode}:\n{life.why()}"
        self._compare(life)
        asyncio.run(self._check())

    def _compare(self, life: Life) -> None:
        """Count what was acknowledged before this life and isn't there; then add its own answers."""
        if life.found.exists():
            found = msgspec.json.decode(life.found.read_bytes(), type=dict[str, int])
            for run_id, version in self._known.items():
                lost = version - found.get(run_id, 0)
                self.lost += max(lost, 0)
                was = "acknowledged" if self._acknowledged.get(run_id) == version else "read"
                assert lost <= 0 or not self._setting.keeps, (
                    f"S3: {run_id} v{version}, which was {was}: {life}"
                )
            # Whoever reads has seen these.
            self._found = found
            self._known = {
                run_id: version
                if self._setting.syncs_what_it_shows
                else min(version, self._acknowledged.get(run_id, 0))
                for run_id, version in found.items()
            }
        entries = read(life.diary) if life.diary.exists() else []
        self.diary += entries
        sent = {entry.sent.commit_id: entry.sent for entry in entries if entry.sent is not None}
        for entry in entries:
            if entry.result is not None and entry.result.verdict is Verdict.COMMITTED:
                self.acknowledged += 1
                commit = sent[entry.commit_id]
                self._known[commit.run_id] = self._acknowledged[commit.run_id] = commit.version

    async def _check(self) -> None:
        store = await open_store(self._powered.url, runtime=SystemRuntime())
        try:
            await self._check_class(store)
            runs = await whole_runs(store, {})
            assert all(run.ended for run in runs), "L1"
            if self._setting.keeps:
                await history.check(store, self.diary)
        finally:
            await store.close()

    async def _check_class(self, store: Store) -> None:
        info = await store.describe()
        assert info.durability is self._setting.durability, info


def play(part: Part, disk: Disk, folder: Path) -> Series:
    """Play a part's cuts, and write down what they came to."""
    print(f"STEPWELL_CUT_SEED={SEED} pytest tests/chaos/test_power_cuts.py  # {part}")
    with part.setting.serve(disk) as powered:
        series = Series(part, disk, powered, folder)
        while series.cuts < len(part.cuts):
            series.cut()
        series.end()
    figures = {
        "cuts": series.cuts,
        "kills": series.kills,
        "acknowledged commits": series.acknowledged,
        "lost": series.lost,
    }
    if powered.repaired():
        figures["logs mended by hand"] = powered.repaired()
    note(f"power cuts, {part.setting.name}", figures, seed=SEED)
    return series
