"""Many runs at once, each step after step: speed, CPU and bytes of a step."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.plans import chain
from bench.stage import Stage
from bench.works.cpu import Cpu
from stepwell_client import RunStatus


class Chained(NamedTuple):
    """Figures of a step."""

    steps_per_second: float
    cpu_us: float
    """All processes together, the client that starts the runs and waits for them included."""
    server_us: float
    worker_us: float
    client_us: float
    database_us: float | None
    stored_kib: float | None
    """Growth of the file, for stores in one."""


@dataclass(frozen=True)
class Chains:
    """So many runs of so many steps each."""

    runs: int = 64
    steps: int = 50
    name: str = "chains"
    stores: Sequence[str] = ("sqlite", "postgres", "redis", "memory")
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Chained]:
        world = await stage.shared()
        cpu = Cpu(world)
        client = time.process_time()
        size = bytes_in(world.place.database)
        begun = time.perf_counter()
        handles = await asyncio.gather(
            *(world.client.start(plan=chain(self.steps)) for _ in range(self.runs))
        )
        ended = await asyncio.gather(*(handle.wait() for handle in handles))
        seconds = time.perf_counter() - begun
        assert all(run.status == RunStatus.SUCCEEDED for run in ended)
        steps = self.runs * self.steps
        server_us, worker_us, database_us = cpu.used(steps)
        client_us = (time.process_time() - client) / steps * 1e6
        stored = bytes_in(world.place.database) - size
        return [
            Chained(
                steps_per_second=steps / seconds,
                cpu_us=server_us + worker_us + (database_us or 0.0) + client_us,
                server_us=server_us,
                worker_us=worker_us,
                client_us=client_us,
                database_us=database_us,
                stored_kib=stored / steps / 1024 if world.place.database else None,
            )
        ]


def bytes_in(path: Path | None) -> int:
    """Return the bytes of a SQLite file's pages in use, those in its log included."""
    if path is None:
        return 0
    with closing(sqlite3.connect(path)) as database:
        return sum(
            sign * database.execute(f"PRAGMA {name}").fetchone()[0]
            for sign, name in ((1, "page_count"), (-1, "freelist_count"))
        ) * int(database.execute("PRAGMA page_size").fetchone()[0])
