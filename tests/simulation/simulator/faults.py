"""Faults of the safety phase besides those of messages and store calls.

Every actor may crash and may stand still for a while: replicas, workers, callers, watchers. A replica may
go down in good order, too, a stream may tear, and the store's clock may be set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.simulator.replica import CONFIG
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.world import World

LEASE_S = CONFIG.lease_ms / 1_000
BACK_S_MAX = 12.0
"""So far the store's clock is set back at most, in all: whatever has a deadline waits that much longer."""


async def inject_faults(world: World) -> None:
    """Let faults happen until the faults stop."""
    # Seeds follow from this name: another one would give each of them another history.
    rng = world.rng.stream("mishaps")
    kinds = _FAULTS + (_SET_CLOCK if world.setting.clock_steps else ())
    while True:
        await world.runtime.sleep(rng.random() * 2 * world.setting.fault_interval_s)
        if world.faults_over:
            return
        world.spawn(rng.pick(kinds)(world, rng), "fault")


# --- replicas ---


async def _crash_replica(world: World, rng: Rng) -> None:
    replica = rng.pick(world.replicas)
    if not replica.up:
        return
    replica.crash()
    await world.runtime.sleep(rng.random() * 3)
    if not replica.up:
        replica.start()


async def _pause_replica(world: World, rng: Rng) -> None:
    replica = rng.pick(world.replicas)
    if not replica.up:
        return
    world.ledger.history.note(f"{replica.name} stands still")
    go_on = replica.pause()
    await world.runtime.sleep(rng.random() * 6)
    go_on()


async def _drain_replica(world: World, rng: Rng) -> None:
    replica = rng.pick(world.replicas)
    if not replica.up or replica.draining:
        return
    await replica.drain()
    await world.runtime.sleep(rng.random())
    if not replica.up:
        replica.start()


# --- workers ---


async def _crash_worker(world: World, rng: Rng) -> None:
    if world.workers:
        worker = rng.pick(list(world.workers.values()))
        await world.restart(worker, rng.random() * 2, lingers=rng.happens(0.3))


async def _stop_worker(world: World, rng: Rng) -> None:
    if world.workers:
        worker = rng.pick(list(world.workers.values()))
        world.ledger.history.note(f"{worker.instance_id} stops")
        worker.stop()
        await world.runtime.sleep(rng.random() * 2.5 * LEASE_S)
        worker.cont()


async def _break_stream(world: World, rng: Rng) -> None:
    if world.workers:
        worker = rng.pick(list(world.workers.values()))
        if worker.stream is not None:
            worker.stream.tear()


# --- callers and watchers ---


async def _crash_caller(world: World, rng: Rng) -> None:
    """It knows nothing any more of what it asked last, and goes on with something else."""
    rng.pick(world.clients).crash()


async def _pause_caller(world: World, rng: Rng) -> None:
    await _pause(world, rng.pick(world.clients).awake, rng.random() * 4)


async def _crash_watcher(world: World, rng: Rng) -> None:
    """It begins again where it last wrote down how far it was."""
    if world.watchers:
        rng.pick(world.watchers).crash()


async def _pause_watcher(world: World, rng: Rng) -> None:
    if world.watchers:
        await _pause(world, rng.pick(world.watchers).awake, rng.random() * 6)


async def _pause(world: World, awake: asyncio.Event, seconds: float) -> None:
    awake.clear()
    await world.runtime.sleep(seconds)
    awake.set()


# --- the store's clock ---


async def _set_clock_forth(world: World, rng: Rng) -> None:
    _step(world, rng.pick([0.5, LEASE_S, 2 * LEASE_S, 60.0, 3_600.0]) * rng.random())


async def _set_clock_back(world: World, rng: Rng) -> None:
    ahead_s = world.clock.offset_us / 1_000_000 + BACK_S_MAX
    step_s = min(rng.pick([0.5, LEASE_S, 2 * LEASE_S]) * (0.5 + rng.random()), ahead_s)
    since_us = world.clock.now_us() - round(step_s * 1_000_000)
    over = any(
        model.renewed_us.get(execution.execution_id, 0) > since_us
        for model in world.ledger.models.values()
        for execution in model.leased()
    )
    world.ledger.history.seen["clock stepped back over a lease"] += over
    _step(world, -step_s)


def _step(world: World, seconds: float) -> None:
    world.ledger.history.note(f"the store's clock is set by {seconds:.6f} s")
    for model in world.ledger.models.values():
        model.clock_is_set(world.clock.now_us())
    world.clock.step(seconds)


_Fault = Callable[[World, Rng], Coroutine[Any, Any, None]]
_FAULTS: tuple[_Fault, ...] = (
    *(_crash_replica, _pause_replica, _drain_replica),
    *(_crash_worker, _crash_worker, _crash_worker, _stop_worker, _stop_worker, _break_stream),
    *(_crash_caller, _pause_caller, _crash_watcher, _pause_watcher),
)
_SET_CLOCK: tuple[_Fault, ...] = (_set_clock_forth, *(_set_clock_back,) * 4)
