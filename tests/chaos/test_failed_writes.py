"""EIO and ENOSPC at every n-th change that SQLite makes to its disk, once or from then on.

Whatever fails: what was acknowledged is there, what was refused isn't, after a failed fsync nothing
is acknowledged until the file was reopened, and a full disk is reported as one and work goes on
when there is room. `STEPWELL_CUT_SEED=…` picks other n where not all are played.
"""

from __future__ import annotations

import errno
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.state import RunState
from stepwell.core.port import Commit, Store
from stepwell.core.records.errors import OutcomeUnknown, StoreError, StoreFull
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell_drivers.sql.sqlite import open_store, wal
from tests.chaos.disk.disk import Disk
from tests.chaos.disk.series import SEED
from tests.chaos.disk.stored import Survival
from tests.chaos.load.lives import whole_runs
from tests.chaos.load.players import start
from tests.chaos.oracle.history import TENANT
from tests.support.proofs.record import note
from tests.support.proofs.sizes import size

COMMITS = 3
CHECKPOINT_PAGES = 25
"""Pages between two checkpoints, so that the little that is written here has some."""
PART_MAX = 75
"""Trials in one test case, so that processes share the work."""


class Fault(NamedTuple):
    """The error at the n-th change."""

    name: str
    errno: int
    forever: bool


FAULTS = (
    Fault("EIO once", errno.EIO, False),
    Fault("EIO from then on", errno.EIO, True),
    Fault("ENOSPC once", errno.ENOSPC, False),
    Fault("ENOSPC from then on", errno.ENOSPC, True),
)


def birth(name: str) -> Commit:
    """Return the first commit of a run; of one in three it is on several pages."""
    wide = name.endswith("0")
    plan = [TaskSpec(task_id="a", prompt="x" * 3_000), TaskSpec(task_id="b", depends_on=("a",))]
    command = start(name, *plan[: 1 + wide], data=b"y" * 6_000 if wide else b"")
    context = Context(commit_id=f"{name}@1", now_us=1)
    commit = advance(RunState.empty(TENANT, name), [command], context).commit
    assert commit is not None
    return commit


class Trial:
    """One store on a disk of which one change fails."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.path = disk.folder / "store.db"
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.unknown: set[str] = set()
        self.seen = Counter[str]()

    async def open(self) -> Store:
        return await open_store(f"sqlite:///{self.path}", runtime=SystemRuntime())

    async def commit(self, store: Store, name: str) -> bool:
        """Send a birth; note what was said of it, and tell whether it is there for certain."""
        try:
            (result,) = await store.commit([birth(name)])
        except OutcomeUnknown:
            self.unknown.add(name)
            self.seen["unknown"] += 1
        except StoreError as error:
            self.refused.add(name)
            self.seen["disk full" if isinstance(error, StoreFull) else "refused"] += 1
        else:
            assert result.verdict is Verdict.COMMITTED
            self.acknowledged.add(name)
            self.refused.discard(name)
            self.unknown.discard(name)
            return True
        return False

    async def play(self, fault: Fault, nth: int) -> None:
        """Fail the n-th change, and check all its consequences."""
        self.disk.back()
        self.disk.fail(nth, fault.errno, forever=fault.forever)
        try:
            store = await self.open()
        except StoreError as error:
            self.seen[f"not opened: {type(error).__name__}"] += 1
            assert not self._held_open(), "R1"
        else:
            await self._work(store, fault)
            await self._closed(store)
        self.disk.heal()
        if nth % 2:
            await self._check("opened anew")
        # Now the system has forgotten what it only had in memory.
        self.disk.on(Survival())
        await self._check("after a power cut")

    async def _work(self, store: Store, fault: Fault) -> None:
        """Commit; a full disk must be the only thing that work survives, and then it must."""
        for at in range(COMMITS):
            before = self.disk.counted().refused
            done = await self.commit(store, f"run-{at}")
            assert not (done and "FSYNC" in before), "D3: acknowledged after a failed fsync"
        if fault.errno == errno.ENOSPC and not self.unknown:
            refused = self.disk.heal().refused
            # The log may have been copied since, in vain, and the store stopped by that.
            if not refused or "FSYNC" in refused:
                return
            for name in sorted(self.refused) or ["after"]:
                assert await self.commit(store, name), (
                    f"D4: no work though there is room: {refused}"
                )
            self.seen["went on"] += 1

    def _held_open(self) -> list[str]:
        """Return what this process has open on the disk."""
        files: list[Path] = []
        for one in Path("/proc/self/fd").iterdir():
            # A thread may close it meanwhile.
            with suppress(FileNotFoundError):
                files.append(one.readlink())
        return [str(file) for file in files if file.is_relative_to(self.disk.folder)]

    async def _closed(self, store: Store) -> None:
        try:
            await store.close()
        except StoreError:
            self.seen["not closed well"] += 1

    async def _check(self, when: str) -> None:
        """Open it, find all that was acknowledged and nothing that was refused, and go on."""
        store = await self.open()
        found = {run.spec.run_id for run in await whole_runs(store, {})} - {"before"}
        lost = self.acknowledged - found
        assert not lost, f"S3: {when}: {lost}"
        phantoms = found & self.refused
        assert not phantoms, f"S5: {when}: {phantoms}"
        strangers = found - self.acknowledged - self.unknown
        assert not strangers, f"S5: {when}: {strangers}"
        for name in sorted(self.unknown):
            self.seen["unknown, and applied" if name in found else "unknown, and not"] += 1
            assert await self.commit(store, name), f"S4: {name}"
        assert await self.commit(store, f"{when}"), "L1"
        # Before it is closed, which may tidy up.
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)], when
        await store.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wal, "PAGES_MAX", CHECKPOINT_PAGES)


async def changes_in_all(disk: Disk) -> int:
    """Make the store that all trials begin with, and count what one without a fault changes."""
    trial = Trial(disk)
    store = await trial.open()
    assert await trial.commit(store, "before")
    await store.close()
    disk.sync()
    disk.save()
    disk.back()
    disk.heal()
    store = await trial.open()
    for at in range(COMMITS):
        assert await trial.commit(store, f"run-{at}")
    await store.close()
    return disk.counted().changes


PARTS = -(-size("failed writes") // len(FAULTS) // PART_MAX) or 1


def every(changes: int, fault: Fault, part: int) -> Iterator[int]:
    """Return this part's share of all n, or of as many as are to be played."""
    all_of_them = range(1, changes + 1)
    wanted = min(size("failed writes") // len(FAULTS), changes)
    chance = Random(f"{SEED} {fault.name}")
    return iter(sorted(chance.sample(all_of_them, wanted))[part::PARTS])


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
async def test_D3_D4_failed_write_stops_the_store_or_is_refused(
    disk: Disk, often: None, fault: Fault, part: int
) -> None:
    seen = Counter[str]()
    changes = await changes_in_all(disk)
    trials = count()
    for nth in every(changes, fault, part):
        trial = Trial(disk)
        try:
            await trial.play(fault, nth)
        except Exception as error:
            error.add_note(f"{fault.name}, change {nth} of {changes}: {disk.counted().refused}")
            raise
        seen.update(trial.seen)
        next(trials)
    figures = {"failed changes": next(trials), "acknowledged and lost": 0}
    note("failed writes, sqlite", figures, seen, SEED)
