"""Crash points: every commit of each workload, before it and after it, on every embedded driver.

Whatever the point, the run recovers without help and comes to the same end as if nothing had happened
(S18): nothing acknowledged is lost (S3), an unknown commit counts once (S4).
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from stepwell.core.model import TaskSpec
from stepwell.core.ports import Store
from stepwell.core.states import Decision
from stepwell.stores import open_store
from stepwell.testing.simulator import Chance, VirtualLoop
from stepwell.testing.simulator.runtime import SimRuntime
from stepwell.testing.simulator.workloads import BOTH, Workload, chain, diamond, fan, task, tempered
from tests.simulation.crashing import AT_ONCE, Canonical, Crash, CrashWorld, Fate, Side

T = TypeVar("T")


def at_once(*plans: tuple[TaskSpec, ...]) -> tuple[tuple[TaskSpec, ...], ...]:
    """Return the plans without any back-off: on a real clock it would be waited for."""
    return tuple(tuple(replace(spec, retry=AT_ONCE) for spec in plan) for plan in plans)


FLAKY = tempered(Chance("flaky"), diamond("r"), "flaky:1", "flaky:2")
WORKLOADS = {
    "sequence": Workload(name="sequence", plans=at_once(chain("s", 4)), by_caller=True),
    "fan-out": Workload(name="fan-out", plans=at_once(fan("f", 4)), max_parallel=2),
    "diamond": Workload(name="diamond", plans=at_once(diamond("d")), stages=BOTH),
    "retries": Workload(name="retries", plans=at_once(FLAKY), by_caller=True),
    "re-plan": Workload(
        name="re-plan",
        plans=at_once(chain("a", 1), chain("b", 1), fan("c", 2)),
        decisions=(Decision.REPLAN, Decision.CONTINUE),
        stages=BOTH,
    ),
    "cancel": Workload(
        name="cancel",
        plans=at_once((*chain("k", 2), task("end", "k1", temper="cancel"), task("never", "end"))),
        by_caller=True,
    ),
}


def in_virtual_time(work: Coroutine[object, object, T]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def on_memory(workload: Workload, crash: Crash | None) -> tuple[Canonical, int, int]:
    runtime = SimRuntime(asyncio.get_running_loop(), Chance("store"))
    keeper = await open_store("memory://crash-points", runtime=runtime)

    async def another_door() -> Store:
        return await open_store("memory://crash-points", runtime=runtime)

    world = CrashWorld(workload, another_door, crash)
    found = await world.play()
    await keeper.close()
    return found, world.commits, world.lives


async def on_sqlite(
    workload: Workload, crash: Crash | None, path: Path
) -> tuple[Canonical, int, int]:
    runtime = SimRuntime(asyncio.get_running_loop(), Chance(path.name))

    async def the_file() -> Store:
        return await open_store(f"sqlite:///{path}", runtime=runtime)

    world = CrashWorld(workload, the_file, crash)
    return await world.play(), world.commits, world.lives


@pytest.mark.parametrize("fate", Fate, ids=lambda fate: fate.name.lower())
@pytest.mark.parametrize("name", WORKLOADS)
def test_S18_a_crash_at_any_commit_changes_no_result_on_memory(name: str, fate: Fate) -> None:
    workload = WORKLOADS[name]
    whole, commits, lives = in_virtual_time(on_memory(workload, None))
    assert commits >= 4
    assert lives == 1

    for at, side in itertools.product(range(1, commits + 1), Side):
        found, _, lives = in_virtual_time(on_memory(workload, Crash(at, side, fate)))
        assert found == whole, f"crash at commit {at} of {commits}, {side}"
        assert lives == 2


@pytest.mark.parametrize("side", Side, ids=lambda side: side.name.lower())
@pytest.mark.parametrize("name", WORKLOADS)
async def test_S18_a_crash_at_any_commit_changes_no_result_on_sqlite(
    name: str, side: Side, tmp_path: Path
) -> None:
    workload = WORKLOADS[name]
    empty = tmp_path / "empty.db"
    runtime = SimRuntime(asyncio.get_running_loop(), Chance("empty"))
    await (await open_store(f"sqlite:///{empty}", runtime=runtime)).close()
    whole, commits, lives = await on_sqlite(
        workload, None, Path(shutil.copy(empty, tmp_path / "whole"))
    )
    assert commits >= 4
    assert lives == 1
    assert whole == (await asyncio.to_thread(in_virtual_time, on_memory(workload, None)))[0], "D1"

    # The leases of a vanished worker have to expire, which a real clock makes long: see memory.
    crashes = 0
    fates = itertools.cycle([Fate.SURVIVES, Fate.RESTARTS])
    for at in range(1, commits + 1):
        path = Path(shutil.copy(empty, tmp_path / f"{at}.db"))
        found, _, lives = await on_sqlite(workload, Crash(at, side, next(fates)), path)
        assert found == whole, f"crash at commit {at} of {commits}, {side}"
        crashes += lives - 1
    # On a real clock outcomes may meet in one commit, so the last points may not come.
    assert crashes > commits / 2
