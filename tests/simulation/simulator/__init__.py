"""The simulator: the real loop, executor, watch and worker protocol in virtual time, by a seed.

Nothing is mocked but the world: the event loop's clock, the network, and a store that can fail. A seed
draws who takes part, what the runs are and what goes wrong; a witness checks the invariants of
RELIABILITY.md by their names. The same seed gives the same history, in every process.

    python -m tests.simulation.simulator --seed 7
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

import structlog.testing

from stepwell.store.opener import open_store
from tests.simulation.simulator.chance import Chance
from tests.simulation.simulator.loop import Spinning, Stalled, VirtualLoop
from tests.simulation.simulator.ports import HONEST, Ports
from tests.simulation.simulator.rare import STORE_WORDS
from tests.simulation.simulator.report import Failure, describe
from tests.simulation.simulator.runtime import SimRuntime
from tests.simulation.simulator.setting import Setting
from tests.simulation.simulator.setting import draw as draw_setting
from tests.simulation.simulator.violation import InvariantViolation, checked, holds
from tests.simulation.simulator.world import World

__all__ = [
    "Chance",
    "Failure",
    "InvariantViolation",
    "Outcome",
    "Ports",
    "Setting",
    "VirtualLoop",
    "simulate",
]


class Outcome(NamedTuple):
    """What a simulation came to."""

    seed: int
    hash: str
    """Of its whole history."""
    commits: int
    seen: Counter[str]
    """How often each rare thing happened."""
    checks: Counter[str]
    """How often each invariant was looked at."""
    lines: list[str]
    """The history."""


def simulate(seed: int, *, setting: Setting | None = None, ports: Ports = HONEST) -> Outcome:
    """Play one seed to its end, with what stands at the ports.

    Raises:
        Failure: an invariant did not hold; it says which, how to replay it, and dumps the rows.
    """
    checked.clear()
    # What a seed leaves behind is found at its end; to look for it all along costs a tenth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _play(seed, setting, ports)
    finally:
        if collects:
            gc.enable()


def _play(seed: int, setting: Setting | None, ports: Ports) -> Outcome:
    chance = Chance(f"stepwell {seed}")
    loop = VirtualLoop()
    logs: list[Any] = []
    # The store outlives every replica, so its clock does too.
    runtime = SimRuntime(loop, chance.of("world"))
    store = loop.run_until_complete(open_store("memory://", runtime=runtime))
    drawn = setting or draw_setting(chance.of("setting"))
    world = World(drawn, loop, runtime, store, chance, ports)
    try:
        with structlog.testing.capture_logs() as logs:
            loop.run_until_complete(world.play())
        _no_defect_was_logged(logs)
    except (InvariantViolation, Stalled, Spinning) as found:
        raise Failure(seed, *describe(found, world)) from found
    finally:
        _abandon(loop)
        loop.close()
    history = world.history
    for replica in world.replicas:
        history.seen.update(replica.store.seen)
    for counted, word in STORE_WORDS.items():
        history.seen[word] = history.seen[counted]
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
        # The world tears itself down meanwhile, and cancels whoever waits for that too.
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
