"""CPU that the processes of a world use while a work goes on."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from bench.processes import cpu_seconds
from bench.stage import World


class Used(NamedTuple):
    """Microseconds of CPU for one step, or one call."""

    server_us: float
    worker_us: float
    database_us: float | None
    """None: the store has no process of its own."""


class Cpu:
    """CPU of server, worker and database from now on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before = self._by_process()

    def used(self, many: int) -> Used:
        """Return what one of so many steps or calls cost so far.

        A database may begin and end processes meanwhile: what began counts whole, what ended doesn't.
        """
        server, worker, database = (
            sum(seconds - before.get(pid, 0.0) for pid, seconds in now.items()) / many * 1e6
            for before, now in zip(self._before, self._by_process(), strict=True)
        )
        return Used(server, worker, database if self._before[2] else None)

    def _by_process(self) -> list[dict[int, float]]:
        world = self._world
        parts = ([world.server.pid], [world.worker.pid], world.backend.pids(world.place))
        return list(map(_seconds, parts))


def _seconds(pids: Iterable[int]) -> dict[int, float]:
    found: dict[int, float] = {}
    for pid in pids:
        # It may have ended since it was listed.
        with suppress(OSError):
            found[pid] = cpu_seconds(pid)
    return found
