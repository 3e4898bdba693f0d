"""Speed of one run on three replicas, against the same run and the same workers on one.

The stores are those of the tests of replicas; the servers are plain ones.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from bench.processes import cpu_seconds
from stepwell_client import Client, Plan, RunStatus, Task
from tests.chaos.world.programs import Program, wait_for
from tests.chaos.world.stores import STORES

SHARED = {"postgres": "postgres", "cluster": "redis_cluster", "grpc:sqlite": "grpc"}
"""The tests' names of the stores that several servers can share."""
WORKERS = 3
CONCURRENCY = 16
TASKS = 500
ROUNDS = 3

_ADDRESS = re.compile(r"listens on (127\.0\.0\.1:\d+)")
_METRICS = re.compile(r"metrics +(http://\S+)")
_COUNT = re.compile(r'stepwell_executor_total\{what="(\w+)"\} ([0-9.e+]+)')


class Speed(NamedTuple):
    """Speed that one run came to; the best of a few rounds."""

    replicas: int
    steps_per_second: float
    counts: Counter[str]
    """Sums over all rounds and replicas: commits_committed, commits_conflict, leases …"""
    server_us: float
    """CPU of all replicas per step, in microseconds."""
    worker_us: float
    store_us: float
    """CPU time of the store's process, where it is one of ours."""

    def line(self) -> str:
        """Return it as a line."""
        won, lost = self.counts["commits_committed"], self.counts["commits_conflict"]
        return (
            f"{self.replicas} replica{'s' if self.replicas > 1 else ' '}"
            f"{self.steps_per_second:>10.0f} steps/s{won:>8} commits{lost:>8} conflicts"
            f"   CPU per step, µs: replicas {self.server_us:.0f}, workers {self.worker_us:.0f}"
            + (f", store {self.store_us:.0f}" if self.store_us else "")
        )


async def measure(kind: str, folder: Path, replicas: int) -> Speed:
    """Run 500 tasks that don't wait for one another, 32 at once, over so many replicas."""
    programs: list[Program] = []
    token = folder / "state/stepwell/token"
    with STORES[kind](folder) as shared:
        serve = ["-m", "stepwell", "serve", "--store", shared.url]
        settings = {"STEPWELL_METRICS__PORT": "0"}
        try:
            servers: list[Program] = []
            for number in range(replicas):
                server = Program(f"r{number}", folder, [*serve, "--port", "0"], settings)
                programs.append(server)
                servers.append(server)
                server.start()
                await asyncio.to_thread(wait_for, server, "metrics")
            targets = [_found(_ADDRESS, server) for server in servers]
            for number in range(WORKERS):
                where = ["--target", targets[number % replicas], "--token-file", str(token)]
                how = ["--id", f"w{number}", "--concurrency", str(CONCURRENCY)]
                agent = "tests.chaos.world.agent:agent"
                worker = Program(
                    f"w{number}", folder, ["-m", "stepwell", "worker", agent, *where, *how]
                )
                programs.append(worker)
                worker.start()
                await asyncio.to_thread(wait_for, worker, "serves replica")
            async with Client(targets[0], token_file=token) as client:
                await _run(client, 50)
                before = _counts(servers)
                workers = programs[replicas:]
                pids = (servers, workers, [shared.program] if shared.program else [])
                cpu = [_cpu(each) for each in pids]
                seconds = min([await _run(client, TASKS) for _ in range(ROUNDS)])
                used = [
                    (_cpu(each) - then) / (TASKS * ROUNDS) * 1e6
                    for each, then in zip(pids, cpu, strict=True)
                ]
                return Speed(replicas, TASKS / seconds, _counts(servers) - before, *used)
        finally:
            for program in reversed(programs):
                program.kill()


async def _run(client: Client, tasks: int) -> float:
    plan = Plan([Task(f"t{index}", type="instant") for index in range(tasks)])
    handle = await client.start("speed", plan=plan, max_parallel=32)
    run = await handle.wait()
    assert run.status == RunStatus.SUCCEEDED
    # By the run's own times: a wait at another replica than the one that ends it hears of it later.
    return run.ended_time.ToNanoseconds() / 1e9 - run.created_time.ToNanoseconds() / 1e9


def _cpu(programs: list[Program]) -> float:
    """Return the CPU time that these have used so far, in seconds."""
    return sum(cpu_seconds(program.pid) for program in programs)


def _found(pattern: re.Pattern[str], program: Program) -> str:
    found = pattern.search(program.log)
    assert found is not None, program.log
    return found[1]


def _counts(servers: list[Program]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for server in servers:
        with urlopen(_found(_METRICS, server), timeout=10) as page:
            for name, value in _COUNT.findall(page.read().decode()):
                counts[name] += int(float(value))
    return counts


async def compare(store: str, write: Callable[[str], None]) -> float:
    """Print both figures; return three replicas' throughput by one's."""
    found: list[Speed] = []
    for replicas in (1, 3):
        with tempfile.TemporaryDirectory(prefix="stepwell-speed-") as folder:
            found.append(await measure(SHARED[store], Path(folder), replicas))
            write(found[-1].line())
    one, three = found
    ratio = three.steps_per_second / one.steps_per_second
    write(f"one run of {TASKS} tasks on 3 replicas: {ratio:.2f} of the throughput on one")
    return ratio
