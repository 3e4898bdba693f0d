"""A run that has 10,000 steps behind it: whether a step still costs the same, and how soon it goes on after kill -9.

A plan has at most 10,000 tasks, so the run has two: one of independent tasks, and one of tasks in a row, in parts behind
gates. Before each part a short run does as many steps, with 100 done: what is compared happened within moments.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from bench.plans import REST, chain, independent
from bench.processes import ServerProcess
from bench.stage import Stage, World
from bench.works.times import turnarounds
from stepwell_client import RunStatus, StepKind


class Aged(NamedTuple):
    """Cost of a late step by that of an early one, and the times of a restart."""

    growth: float
    listening_ms: float
    welcomed_ms: float
    first_step_ms: float


@dataclass(frozen=True)
class Parts:
    """The parts of the second plan, as the run's input."""

    parts: int = 6
    steps: int = 50
    rest: int = 600


@dataclass(frozen=True)
class Long:
    """One run of so many tasks and then these parts, beside runs with `early` done."""

    tasks: int = 10_000
    early: int = 100
    parts: Parts = Parts()
    kill_after_s: float = 0.1
    name: str = "long"
    stores: Sequence[str] = ("sqlite",)
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Aged]:
        async with stage.alone() as world:
            handle = await world.client.start(
                plan=independent(self.tasks),
                input=asdict(self.parts),
                stages=[StepKind.REFLECT],
                max_iterations=2,
                max_parallel=32,
            )
            ratios: list[float] = []
            for part in range(self.parts.parts):
                gate = f"gate-p{part}"
                await world.worker.reached_gate(gate)
                await self._short_run(world)
                before = turnarounds(world.worker.seen().steps, "late-")
                world.worker.open_gate(gate)
                last = part + 1 == self.parts.parts
                await world.worker.reached_gate(f"gate-{REST}" if last else f"gate-p{part + 1}")
                after = turnarounds(world.worker.seen().steps, f"p{part}-")
                ratios.append(statistics.median(after) / statistics.median(before))
            world.worker.open_gate(f"gate-{REST}")
            await asyncio.sleep(self.kill_after_s)
            world.server.kill()
            server = await asyncio.to_thread(
                ServerProcess, world.place, port=int(world.server.target.rpartition(":")[2])
            )
            try:
                run = await handle.wait()
                assert run.status == RunStatus.SUCCEEDED
            finally:
                server.stop()
            seen = world.worker.seen()
            welcomed = min(at for at in seen.welcomed if at > server.begun)
            first = min(step.begun for step in seen.steps if step.begun > welcomed)
            return [
                Aged(
                    growth=statistics.median(ratios),
                    listening_ms=(server.listening - server.begun) * 1e3,
                    # Its line in the log may be read after the worker has come.
                    welcomed_ms=max(0.0, welcomed - server.listening) * 1e3,
                    first_step_ms=(first - welcomed) * 1e3,
                )
            ]

    async def _short_run(self, world: World) -> None:
        """Do as many steps as a part has, in a run that has few behind it."""
        early = independent(self.early, "early-")
        late = chain(self.parts.steps, "late-", after=[task.id for task in early])
        await (await world.client.start(plan=[*early, *late], max_parallel=32)).wait()
