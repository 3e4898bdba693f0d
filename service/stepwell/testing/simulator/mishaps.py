"""What goes wrong in the safety phase besides messages and store calls: crashes, stops, torn streams."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from stepwell.testing.simulator.chance import Chance
from stepwell.testing.simulator.history import History
from stepwell.testing.simulator.replica import CONFIG, Replica
from stepwell.testing.simulator.runtime import SimRuntime
from stepwell.testing.simulator.setting import Setting
from stepwell.testing.simulator.worker import Worker


class Stage(Protocol):
    """What a mishap needs to know of the world."""

    setting: Setting
    chance: Chance
    runtime: SimRuntime
    history: History
    replicas: list[Replica]
    workers: dict[str, Worker]
    calm: bool

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run it beside everything else."""
        ...

    async def restart(self, worker: Worker, after_s: float, *, lingers: bool = False) -> None:
        """Start a worker's next instance."""
        ...


async def go_wrong(stage: Stage) -> None:
    """Let mishaps happen until the faults stop."""
    chance = stage.chance.of("mishaps")
    while True:
        await stage.runtime.sleep(chance.random() * 2 * stage.setting.mishaps_s)
        if stage.calm:
            return
        stage.spawn(chance.pick(_MISHAPS)(stage, chance), "mishap")


async def _crash_replica(stage: Stage, chance: Chance) -> None:
    replica = chance.pick(stage.replicas)
    if not replica.up:
        return
    replica.crash()
    await stage.runtime.sleep(chance.random() * 3)
    if not replica.up:
        replica.start()


async def _freeze_replica(stage: Stage, chance: Chance) -> None:
    replica = chance.pick(stage.replicas)
    if not replica.up:
        return
    stage.history.note(f"{replica.name} freezes")
    store = replica.store
    store.freeze()
    await stage.runtime.sleep(chance.random() * 6)
    store.thaw()


async def _crash_worker(stage: Stage, chance: Chance) -> None:
    if stage.workers:
        worker = chance.pick(list(stage.workers.values()))
        await stage.restart(worker, chance.random() * 2, lingers=chance.happens(0.3))


async def _stop_worker(stage: Stage, chance: Chance) -> None:
    if stage.workers:
        worker = chance.pick(list(stage.workers.values()))
        stage.history.note(f"{worker.instance_id} stops")
        worker.stop()
        await stage.runtime.sleep(chance.random() * 2.5 * CONFIG.lease_ms / 1_000)
        worker.cont()


async def _break_stream(stage: Stage, chance: Chance) -> None:
    if stage.workers:
        worker = chance.pick(list(stage.workers.values()))
        if worker.stream is not None:
            worker.stream.tear()


_MISHAPS: tuple[Callable[[Stage, Chance], Coroutine[Any, Any, None]], ...] = (
    _crash_replica,
    _crash_worker,
    _crash_worker,
    _stop_worker,
    _freeze_replica,
    _break_stream,
)
