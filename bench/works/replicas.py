"""Speed of one run on three replicas, against the same run and the same workers on one.

The stores are those of the tests of replicas; the servers are plain ones.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.stage import Stage
from stepwell_client import Client, RunStatus, Task
from tests.chaos.world.programs import Program, wait_for
from tests.chaos.world.stores import STORES

SHARED = {"postgres": "postgres", "cluster": "redis_cluster", "grpc:sqlite": "grpc"}
"""The tests' names of the stores that several servers can share."""
WORKERS = 3
CONCURRENCY = 16

_ADDRESS = re.compile(r"listens on (127\.0\.0\.1:\d+)")


class Ratio(NamedTuple):
    """Throughput on three replicas by that on one."""

    ratio: float


@dataclass(frozen=True)
class Replicas:
    """One run of so many tasks, 32 at once, on three replicas and on one."""

    tasks: int = 500
    name: str = "replicas"
    stores: Sequence[str] = tuple(SHARED)
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Ratio]:
        await stage.close()
        speeds: list[float] = []
        with stage.backend.fresh() as place:
            for replicas in (1, 3):
                folder = place.folder / f"replicas-{replicas}"
                await asyncio.to_thread(folder.mkdir)
                speeds.append(await self._speed(SHARED[stage.backend.name], folder, replicas))
        return [Ratio(speeds[1] / speeds[0])]

    async def _speed(self, kind: str, folder: Path, replicas: int) -> float:
        programs: list[Program] = []
        token = folder / "state/stepwell/token"
        with STORES[kind](folder) as shared:
            serve = ["-m", "stepwell", "serve", "--store", shared.url, "--port", "0"]
            try:
                for number in range(replicas):
                    programs.append(Program(f"r{number}", folder, serve))
                    programs[-1].start()
                    await asyncio.to_thread(wait_for, programs[-1], "listens on")
                targets = [_target(server) for server in programs]
                for number in range(WORKERS):
                    where = ["--target", targets[number % replicas], "--token-file", str(token)]
                    how = ["--id", f"w{number}", "--concurrency", str(CONCURRENCY)]
                    agent = ["-m", "stepwell", "worker", "tests.chaos.world.agent:agent"]
                    programs.append(Program(f"w{number}", folder, [*agent, *where, *how]))
                    programs[-1].start()
                    await asyncio.to_thread(wait_for, programs[-1], "serves replica")
                async with Client(targets[0], token_file=token) as client:
                    await self._seconds(client)
                    return self.tasks / await self._seconds(client)
            finally:
                for program in reversed(programs):
                    program.kill()

    async def _seconds(self, client: Client) -> float:
        plan = [Task(f"t{index}", type="instant") for index in range(self.tasks)]
        handle = await client.start("speed", plan=plan, max_parallel=32)
        run = await handle.wait()
        assert run.status == RunStatus.SUCCEEDED
        # By the run's own times: a wait at another replica than the one that ends it hears of it later.
        assert run.ended_time is not None
        assert run.created_time is not None
        return (run.ended_time - run.created_time).total_seconds()


def _target(program: Program) -> str:
    found = _ADDRESS.search(program.log)
    assert found is not None, program.log
    return found[1]
