"""Faults of the safety phase besides those of messages and store calls.

Every actor may crash and may stand still for a while: replicas, workers, callers, watchers. A replica may
go down in good order, too, a stream may tear, and the store's clock may be set.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tests.simulation.simulator.client import Client
from tests.simulation.simulator.clock import ServerClock
from tests.simulation.simulator.ledger import Ledger
from tests.simulation.simulator.replica import CONFIG, Replica
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.setting import Setting
from tests.simulation.simulator.watcher import Watcher
from tests.simulation.simulator.worker import Worker

LEASE_S = CONFIG.lease_ms / 1_000
BACK_S_MAX = 12.0
"""So far the store's clock is set back at most, in all: whatever has a deadline waits that much longer."""


class Stage(Protocol):
    """The part of the world that a fault needs."""

    setting: Setting
    runtime: SimRuntime
    rng: Rng
    ledger: Ledger
    clock: ServerClock
    replicas: list[Replica]
    workers: dict[str, Worker]
    clients: list[Client]
    watchers: list[Watcher]
    faults_over: bool

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run it beside everything else."""
        ...

    async def restart(self, worker: Worker, after_s: float, *, lingers: bool = False) -> None:
        """Start a worker's next instance."""
        ...


async def inject_faults(stage: Stage) -> None:
    """Let faults happen until the faults stop."""
    # Seeds follow from this name: another one would give each of them another history.
    rng = stage.rng.stream("mishaps")
    kinds = _FAULTS + (_SET_CLOCK if stage.setting.clock_steps else ())
    while True:
        await stage.runtime.sleep(rng.random() * 2 * stage.setting.fault_interval_s)
        if stage.faults_over:
            return
        stage.spawn(rng.pick(kinds)(stage, rng), "fault")


# --- replicas ---


async def _crash_replica(stage: Stage, rng: Rng) -> None:
    replica = rng.pick(stage.replicas)
    if not replica.up:
        return
    replica.crash()
    await stage.runtime.sleep(rng.random() * 3)
    if not replica.up:
        replica.start()


async def _pause_replica(stage: Stage, rng: Rng) -> None:
    replica = rng.pick(stage.replicas)
    if not replica.up:
        return
    stage.ledger.history.note(f"{replica.name} stands still")
    go_on = replica.pause()
    await stage.runtime.sleep(rng.random() * 6)
    go_on()


async def _drain_replica(stage: Stage, rng: Rng) -> None:
    replica = rng.pick(stage.replicas)
    if not replica.up or replica.draining:
        return
    await replica.drain()
    await stage.runtime.sleep(rng.random())
    if not replica.up:
        replica.start()


# --- workers ---


async def _crash_worker(stage: Stage, rng: Rng) -> None:
    if stage.workers:
        worker = rng.pick(list(stage.workers.values()))
        await stage.restart(worker, rng.random() * 2, lingers=rng.happens(0.3))


async def _stop_worker(stage: Stage, rng: Rng) -> None:
    if stage.workers:
        worker = rng.pick(list(stage.workers.values()))
        stage.ledger.history.note(f"{worker.instance_id} stops")
        worker.stop()
        await stage.runtime.sleep(rng.random() * 2.5 * LEASE_S)
        worker.cont()


async def _break_stream(stage: Stage, rng: Rng) -> None:
    if stage.workers:
        worker = rng.pick(list(stage.workers.values()))
        if worker.stream is not None:
            worker.stream.tear()


# --- callers and watchers ---


async def _crash_caller(stage: Stage, rng: Rng) -> None:
    """It knows nothing any more of what it asked last, and goes on with something else."""
    rng.pick(stage.clients).crash()


async def _pause_caller(stage: Stage, rng: Rng) -> None:
    client = rng.pick(stage.clients)
    client.awake.clear()
    await stage.runtime.sleep(rng.random() * 4)
    client.awake.set()


async def _crash_watcher(stage: Stage, rng: Rng) -> None:
    """It begins again where it last wrote down how far it was."""
    if stage.watchers:
        rng.pick(stage.watchers).crash()


async def _pause_watcher(stage: Stage, rng: Rng) -> None:
    if stage.watchers:
        watcher = rng.pick(stage.watchers)
        watcher.awake.clear()
        await stage.runtime.sleep(rng.random() * 6)
        watcher.awake.set()


# --- the store's clock ---


async def _set_clock_forth(stage: Stage, rng: Rng) -> None:
    _step(stage, rng.pick([0.5, LEASE_S, 2 * LEASE_S, 60.0, 3_600.0]) * rng.random())


async def _set_clock_back(stage: Stage, rng: Rng) -> None:
    ahead_s = stage.clock.offset_us / 1_000_000 + BACK_S_MAX
    step_s = min(rng.pick([0.5, LEASE_S, 2 * LEASE_S]) * (0.5 + rng.random()), ahead_s)
    since_us = stage.clock.now_us() - round(step_s * 1_000_000)
    over = any(
        model.renewed_us.get(execution.execution_id, 0) > since_us
        for model in stage.ledger.models.values()
        for execution in model.leased()
    )
    stage.ledger.history.seen["clock stepped back over a lease"] += over
    _step(stage, -step_s)


def _step(stage: Stage, seconds: float) -> None:
    stage.ledger.history.note(f"the store's clock is set by {seconds:.6f} s")
    for model in stage.ledger.models.values():
        model.clock_is_set(stage.clock.now_us())
    stage.clock.step(seconds)


_Fault = Callable[[Stage, Rng], Coroutine[Any, Any, None]]
_FAULTS: tuple[_Fault, ...] = (
    *(_crash_replica, _pause_replica, _drain_replica),
    *(_crash_worker, _crash_worker, _crash_worker, _stop_worker, _stop_worker, _break_stream),
    *(_crash_caller, _pause_caller, _crash_watcher, _pause_watcher),
)
_SET_CLOCK: tuple[_Fault, ...] = (_set_clock_forth, *(_set_clock_back,) * 4)
