"""What goes wrong in the safety phase besides messages and store calls.

Every actor may crash and may stand still for a while: replicas, workers, callers, watchers. A replica may
go down in good order, too, a stream may tear, and somebody may set the store's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tests.simulation.simulator.chance import Chance
from tests.simulation.simulator.client import Client
from tests.simulation.simulator.clock import ServerClock
from tests.simulation.simulator.ledger import Ledger
from tests.simulation.simulator.replica import CONFIG, Replica
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.setting import Setting
from tests.simulation.simulator.watcher import Watcher
from tests.simulation.simulator.worker import Worker

LEASE_S = CONFIG.lease_ms / 1_000
BACK_S_MAX = 12.0
"""So far the store's clock is set back at most, in all: whatever has a deadline waits that much longer."""


class Stage(Protocol):
    """What a mishap needs to know of the world."""

    setting: Setting
    runtime: SimRuntime
    chance: Chance
    ledger: Ledger
    clock: ServerClock
    replicas: list[Replica]
    workers: dict[str, Worker]
    clients: list[Client]
    watchers: list[Watcher]
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
    kinds = _MISHAPS + (_SET_CLOCK if stage.setting.clock_steps else ())
    while True:
        await stage.runtime.sleep(chance.random() * 2 * stage.setting.mishaps_s)
        if stage.calm:
            return
        stage.spawn(chance.pick(kinds)(stage, chance), "mishap")


# --- replicas ---


async def _crash_replica(stage: Stage, chance: Chance) -> None:
    replica = chance.pick(stage.replicas)
    if not replica.up:
        return
    replica.crash()
    await stage.runtime.sleep(chance.random() * 3)
    if not replica.up:
        replica.start()


async def _pause_replica(stage: Stage, chance: Chance) -> None:
    replica = chance.pick(stage.replicas)
    if not replica.up:
        return
    stage.ledger.history.note(f"{replica.name} stands still")
    go_on = replica.pause()
    await stage.runtime.sleep(chance.random() * 6)
    go_on()


async def _drain_replica(stage: Stage, chance: Chance) -> None:
    replica = chance.pick(stage.replicas)
    if not replica.up or replica.draining:
        return
    await replica.drain()
    await stage.runtime.sleep(chance.random())
    if not replica.up:
        replica.start()


# --- workers ---


async def _crash_worker(stage: Stage, chance: Chance) -> None:
    if stage.workers:
        worker = chance.pick(list(stage.workers.values()))
        await stage.restart(worker, chance.random() * 2, lingers=chance.happens(0.3))


async def _stop_worker(stage: Stage, chance: Chance) -> None:
    if stage.workers:
        worker = chance.pick(list(stage.workers.values()))
        stage.ledger.history.note(f"{worker.instance_id} stops")
        worker.stop()
        await stage.runtime.sleep(chance.random() * 2.5 * LEASE_S)
        worker.cont()


async def _break_stream(stage: Stage, chance: Chance) -> None:
    if stage.workers:
        worker = chance.pick(list(stage.workers.values()))
        if worker.stream is not None:
            worker.stream.tear()


# --- callers and watchers ---


async def _crash_caller(stage: Stage, chance: Chance) -> None:
    """It knows nothing any more of what it asked last, and goes on with something else."""
    chance.pick(stage.clients).crash()


async def _pause_caller(stage: Stage, chance: Chance) -> None:
    client = chance.pick(stage.clients)
    client.awake.clear()
    await stage.runtime.sleep(chance.random() * 4)
    client.awake.set()


async def _crash_watcher(stage: Stage, chance: Chance) -> None:
    """It begins again where it last wrote down how far it was."""
    if stage.watchers:
        chance.pick(stage.watchers).crash()


async def _pause_watcher(stage: Stage, chance: Chance) -> None:
    if stage.watchers:
        watcher = chance.pick(stage.watchers)
        watcher.awake.clear()
        await stage.runtime.sleep(chance.random() * 6)
        watcher.awake.set()


# --- the store's clock ---


async def _set_clock_forth(stage: Stage, chance: Chance) -> None:
    _step(stage, chance.pick([0.5, LEASE_S, 2 * LEASE_S, 60.0, 3_600.0]) * chance.random())


async def _set_clock_back(stage: Stage, chance: Chance) -> None:
    ahead_s = stage.clock.offset_us / 1_000_000 + BACK_S_MAX
    step_s = min(chance.pick([0.5, LEASE_S, 2 * LEASE_S]) * (0.5 + chance.random()), ahead_s)
    since_us = stage.clock.now_us() - round(step_s * 1_000_000)
    over = any(
        book.said_us.get(execution.execution_id, 0) > since_us
        for book in stage.ledger.books.values()
        for execution in book.leased()
    )
    stage.ledger.history.seen["clock stepped back over a lease"] += over
    _step(stage, -step_s)


def _step(stage: Stage, seconds: float) -> None:
    stage.ledger.history.note(f"the store's clock is set by {seconds:.6f} s")
    for book in stage.ledger.books.values():
        book.clock_is_set(stage.clock.now_us())
    stage.clock.step(seconds)


_Mishap = Callable[[Stage, Chance], Coroutine[Any, Any, None]]
_MISHAPS: tuple[_Mishap, ...] = (
    *(_crash_replica, _pause_replica, _drain_replica),
    *(_crash_worker, _crash_worker, _crash_worker, _stop_worker, _stop_worker, _break_stream),
    *(_crash_caller, _pause_caller, _crash_watcher, _pause_watcher),
)
_SET_CLOCK: tuple[_Mishap, ...] = (_set_clock_forth, *(_set_clock_back,) * 4)
