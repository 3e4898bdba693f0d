"""Scenarios that are measured. Each has a server, a worker and a store of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.backends import Place
from bench.processes import ServerProcess, WorkerProcess, cpu_seconds, running
from stepwell_client import Client, EventType, RunStatus, Task

Write = Callable[[str], None]


class Figures(NamedTuple):
    """Figures that one scenario came to."""

    steps: int
    seconds: float
    server_cpu: float
    worker_cpu: float
    turnarounds: list[float]

    def line(self, name: str) -> str:
        """Return one row of the table."""
        times = sorted(self.turnarounds)
        p50 = f"{times[len(times) // 2] * 1e3:8.2f}" if times else "       –"
        p99 = f"{times[int(len(times) * 0.99)] * 1e3:8.2f}" if times else "       –"
        return (
            f"{name:<34}{self.steps / self.seconds:>9.0f}"
            f"{self.server_cpu / self.steps * 1e6:>12.0f}{self.worker_cpu / self.steps * 1e6:>12.0f}"
            f"{p50:>10}{p99:>10}"
        )


HEADER = (
    f"{'':<34}{'steps/s':>9}{'server µs':>12}{'worker µs':>12}{'p50 ms':>10}{'p99 ms':>10}\n"
    f"{'':<34}{'':>9}{'CPU/step':>12}{'CPU/step':>12}{'  outcome to next start':>20}"
)


def chain(count: int) -> list[Task]:
    """Tasks that follow one another."""
    return [Task(f"t{n}", depends_on=[f"t{n - 1}"] if n else []) for n in range(count)]


async def measure(store: str, folder: Path, runs: int, plan: list[Task]) -> Figures:
    """Run so many runs of a plan at once, after one to warm up."""
    with running(store, folder) as (server, worker):
        async with Client(server.target, token_file=folder / "state/stepwell/token") as client:
            warm = await client.start(plan=chain(20))
            await warm.wait()
            _times(worker)
            cpu = cpu_seconds(server.pid), cpu_seconds(worker.pid)
            begun = time.perf_counter()
            handles = await asyncio.gather(
                *(client.start(plan=plan, max_parallel=32) for _ in range(runs))
            )
            ended = await asyncio.gather(*(handle.wait() for handle in handles))
            seconds = time.perf_counter() - begun
            assert all(run.status == RunStatus.SUCCEEDED for run in ended)
            return Figures(
                steps=runs * len(plan),
                seconds=seconds,
                server_cpu=cpu_seconds(server.pid) - cpu[0],
                worker_cpu=cpu_seconds(worker.pid) - cpu[1],
                turnarounds=_times(worker),
            )


def _times(worker: WorkerProcess) -> list[float]:
    worker.times.unlink(missing_ok=True)
    os.kill(worker.pid, signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if worker.times.exists() and (text := worker.times.read_text()):
            return json.loads(text)
        time.sleep(0.01)
    raise SystemExit("the worker did not say its times")


async def growth(place: Place, folder: Path, write: Write) -> None:
    """One run of 6,400 steps: what its last 50 cost, at four lengths."""
    marks = [100, 400, 1_600, 6_400]
    write(f"{'completed steps':<20}{'last 50: ms/step':>18}{'server µs CPU':>16}{'stored, MB':>12}")
    first: float | None = None
    with running(place.url, folder) as (server, _):
        async with Client(server.target, token_file=folder / "state/stepwell/token") as client:
            handle = await client.start(plan=chain(marks[-1]))
            seen = 0
            begun = (0.0, 0.0)
            async with handle.watch() as events:
                async for event in events:
                    if event.type != EventType.TASK_COMPLETED:
                        continue
                    seen += 1
                    if seen + 50 in marks:
                        begun = time.perf_counter(), cpu_seconds(server.pid)
                    if seen in marks:
                        ms = (time.perf_counter() - begun[0]) / 50 * 1e3
                        cpu = (cpu_seconds(server.pid) - begun[1]) / 50 * 1e6
                        first = first or ms
                        size = f"{_stored(place.database) / 1e6:.1f}" if place.database else "–"
                        write(f"{seen:<20,}{ms:>18.2f}{cpu:>16.0f}{size:>12}  {ms / first:.2f} ×")


def _stored(database: Path) -> int:
    """Bytes of the database and its log; the plan of 6,400 tasks is in them from the start."""
    return sum(
        part.stat().st_size for part in database.parent.glob(database.name + "*") if part.is_file()
    )


async def resume(store: str, folder: Path, write: Write) -> None:
    """Kill -9 the server at step 800 of 1,000; time from its new start to the first new step."""
    server = ServerProcess(store, folder)
    worker = WorkerProcess(server.target, folder)
    port = int(server.target.rpartition(":")[2])
    try:
        async with Client(server.target, token_file=folder / "state/stepwell/token") as client:
            handle = await client.start(plan=chain(1_000))
            done = killed = 0
            begun = 0.0
            times: list[tuple[str, float]] = []
            async with handle.watch() as events:
                async for event in events:
                    if event.type != EventType.TASK_COMPLETED:
                        continue
                    done += 1
                    if done == 800:
                        server.kill()
                        begun = time.perf_counter()
                        server = ServerProcess(store, folder, port=port)
                        times.append(("listening", time.perf_counter() - begun))
                        killed = done
                    elif done > 800 and len(times) == 1 and done > killed:
                        times.append(("first new step seen", time.perf_counter() - begun))
            run = await handle.wait()
            assert run.status == RunStatus.SUCCEEDED
            for name, seconds in times:
                write(f"  {name:<24}{seconds:>8.2f} s after the new process was started")
    finally:
        worker.stop()
        server.stop()
