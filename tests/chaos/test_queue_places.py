"""Places of a limited queue around kills: none is lost for good, and no two steps have one at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random

import pytest

from stepwell_client import Client, RunHandle, RunStatus, Task
from stepwell_client.errors import StepwellClientError
from tests.chaos.world.agent import GATES
from tests.chaos.world.cluster import Cluster
from tests.chaos.world.programs import Program
from tests.chaos.world.stores import STORES
from tests.support.patience import PATIENCE_S, until
from tests.support.proofs.sizes import size

QUEUE = "api"
WORKERS = ("w1", "w2")
pytestmark = [pytest.mark.proof, pytest.mark.timeout(300)]
SEED = int(os.environ.get("STEPWELL_KILL_SEED", "20261122"))


class World:
    """Replicas with a queue of one place, and the workers that serve it."""

    client: Client

    def __init__(self, cluster: Cluster, rnd: Random) -> None:
        self.cluster = cluster
        self.rnd = rnd
        self.gates = cluster.folder / "gates"
        self.gates.mkdir(exist_ok=True)
        self.revoked: set[str] = set()
        """Runs whose steps may go on for a moment after their leases were ended by a command."""

    def overlaps(self) -> list[str]:
        """Return the pairs of runs that had steps at the same time."""
        found = [path.name for path in self.gates.glob("overlap *")]
        return [one for one in found if not self.revoked & {*one.split()}]

    async def is_free(self, limit: int = 1) -> bool:
        (queue,) = (await self.client.queues()).queues
        return (queue.in_use, queue.limit, queue.waiting_runs) == (0, limit, 0)

    async def serve(self, name: str, limit: int = 1) -> None:
        """Start a replica whose settings have this limit."""
        path = self.cluster.folder / f"{limit}.toml"
        path.write_text(f"[queues.{QUEUE}]\nmax_parallel = {limit}\n")
        await self.cluster.start(name, STEPWELL_CONFIG=str(path))

    def work(self, name: str) -> None:
        """Start a worker, which prefers one of the replicas."""
        homes = self.rnd.sample(self.cluster.names, len(self.cluster.names))
        arguments = ["-m", "stepwell", "worker", "tests.chaos.world.agent:agent"]
        arguments += ["--token-file", str(self.cluster.token_file), "--id", name]
        arguments += ["--target", self.cluster.target(*homes), "--queue", QUEUE]
        environment = {GATES: str(self.gates)}
        worker = Program(name, self.cluster.folder, arguments, environment)
        self.cluster.workers[name] = worker
        worker.start()

    async def start(self) -> RunHandle:
        plan = [Task("a", "alone"), Task("b", "alone")]
        return await self.client.start("x", plan=plan, queue=QUEUE)

    async def kill_worker(self, _run: RunHandle) -> None:
        """Stop a worker, perhaps as its step is delivered, then kill it and start another life."""
        name = self.rnd.choice(WORKERS)
        worker = self.cluster.workers[name]
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(self.rnd.uniform(0, 0.1))
        worker.kill()
        self.work(name)

    async def kill_replica(self, _run: RunHandle) -> None:
        name = self.rnd.choice(self.cluster.names)
        self.cluster.kill(name)
        await self.serve(name)

    async def change_limit(self, _run: RunHandle) -> None:
        """Restart a replica with two places, and then with one again."""
        name = self.rnd.choice(self.cluster.names)
        assert self.overlaps() == []
        for limit in (2, 1):
            self.cluster.kill(name)
            await self.serve(name, limit)
        await until(self.is_free)
        for path in self.gates.glob("overlap *"):
            path.unlink()

    async def skip_task(self, run: RunHandle) -> None:
        self.revoked.add(run.id)
        # The task may have begun or ended by now.
        with suppress(StepwellClientError):
            await run.skip_task("b")

    async def delete(self, run: RunHandle) -> None:
        self.revoked.add(run.id)
        with suppress(StepwellClientError):
            await run.cancel()
        await run.wait()
        await run.delete()


Mishap = Callable[[World, RunHandle], Awaitable[None]]


async def play(folder: Path, names: tuple[str, ...], mishaps: Sequence[Mishap]) -> None:
    """Play rounds of mishaps, and check that the place is free then."""
    print(f"seed {SEED}; again with STEPWELL_KILL_SEED={SEED}")
    rnd = Random(SEED)
    with ExitStack() as stack:
        cluster = Cluster(folder, stack.enter_context(STORES["postgres"](folder)), names)
        stack.callback(cluster.close)
        world = World(cluster, rnd)
        for name in names:
            await world.serve(name)
        for name in WORKERS:
            world.work(name)
        async with cluster.client() as client:
            world.client = client
            await cluster.working(*WORKERS)
            for n in range(size("kills around a queue's place")):
                run = await world.start()
                await asyncio.sleep(rnd.uniform(0, 0.06))
                await mishaps[n % len(mishaps)](world, run)
            assert (await (await world.start()).wait(PATIENCE_S)).status is RunStatus.SUCCEEDED
            await until(world.is_free)
            assert world.overlaps() == []


async def test_place_is_free_after_kills_of_workers_and_replicas(
    backends: None, tmp_path: Path
) -> None:
    await play(
        tmp_path,
        ("r1", "r2"),
        [
            World.kill_worker,
            World.kill_replica,
            World.delete,
            World.change_limit,
            World.skip_task,
        ],
    )
