"""The simulator: the real loop, executor, watch and worker protocol in virtual time, by a seed.

Nothing is mocked but the world: the event loop's clock, the network, and a store that can fail. A seed
draws the actors, the runs and the faults; a witness checks the invariants of RELIABILITY.md by name. The same seed gives the same history, in every process.

    python -m tests.simulation.simulator --seed 7
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple
from unittest import mock

from stepwell.core.loop import checkpoints
from stepwell.store.opener import open_store
from tests.simulation.simulator.faults import inject_faults
from tests.simulation.simulator.loop import Spinning, Stalled, VirtualLoop
from tests.simulation.simulator.ports import HONEST, Ports
from tests.simulation.simulator.rare_events import STORE_EVENTS
from tests.simulation.simulator.report import Failure, describe
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.setting import Setting
from tests.simulation.simulator.setting import draw as draw_setting
from tests.simulation.simulator.violation import InvariantViolation, checked, holds
from tests.simulation.simulator.world import World
from tests.support.logs import capture_logs

__all__ = [
    "Failure",
    "InvariantViolation",
    "Outcome",
    "Ports",
    "Rng",
    "Setting",
    "VirtualLoop",
    "simulate",
]


EARLY_BASES = (checkpoints, "BASE_EVENTS_MIN", 12)
"""Runs of a seed are short: their checkpoints have a base all the same."""


class Outcome(NamedTuple):
    """The outcome of a simulation."""

    seed: int
    hash: str
    """The hash of its whole history."""
    commits: int
    seen: Counter[str]
    """The count of each rare event."""
    checks: Counter[str]
    """The count of checks of each invariant."""
    lines: list[str]
    """The history."""


def simulate(seed: int, *, setting: Setting | None = None, ports: Ports = HONEST) -> Outcome:
    """Play one seed to its end, with what stands at the ports.

    Raises:
        Failure: an invariant did not hold; it names the invariant and the replay, and dumps the rows.
    """
    checked.clear()
    # The garbage of a seed is collected at its end; to collect it all along costs a tenth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _play(seed, setting, ports)
    finally:
        if collects:
            gc.enable()


def _play(seed: int, setting: Setting | None, ports: Ports) -> Outcome:
    rng = Rng(f"stepwell {seed}")
    loop = VirtualLoop()
    logs: list[Any] = []
    # The store outlives every replica, so its clock does too.
    runtime = SimRuntime(loop, rng.stream("world"))
    store = loop.run_until_complete(open_store("memory://", runtime=runtime))
    drawn = setting or draw_setting(rng.stream("setting"))
    world = World(drawn, loop, runtime, store, rng, ports, inject_faults)
    try:
        with capture_logs() as logs, mock.patch.object(*EARLY_BASES):
            loop.run_until_complete(world.play())
        _no_defect_was_logged(logs)
    except (InvariantViolation, Stalled, Spinning) as error:
        raise Failure(seed, *describe(error, world)) from error
    finally:
        _abandon(loop)
        loop.close()
    history = world.history
    for replica in world.replicas:
        history.seen.update(replica.store.seen)
    for counted, name in STORE_EVENTS.items():
        history.seen[name] = history.seen[counted]
    return Outcome(
        seed, history.hash, len(world.ledger.order), history.seen, Counter(checked), history.lines
    )


def _abandon(loop: VirtualLoop) -> None:
    """Cancel what a stalled or spinning simulation has left, so that nothing of it outlives its loop."""
    for _ in range(3):
        left = asyncio.all_tasks(loop)
        if not left:
            return
        for task in left:
            task.cancel()
        # The world tears itself down meanwhile, and cancels the tasks that wait for that too.
        with suppress(Stalled, Spinning, asyncio.CancelledError):
            loop.run_until_complete(_gone(left))


async def _gone(tasks: Collection[asyncio.Task[Any]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


def _no_defect_was_logged(logs: list[Any]) -> None:
    """A turn that broke by anything but an error of the service is a defect."""
    holds(True, "DEFECT")
    for entry in logs:
        if entry.get("log_level") == "error":
            error = entry.get("exc_info")
            raise InvariantViolation("DEFECT", f"{entry.get('event')}: {error!r}") from (
                error if isinstance(error, BaseException) else None
            )
