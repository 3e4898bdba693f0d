"""CPU of a database's processes, of which some begin and some end while a work goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

from bench.stage import World
from bench.works.cpu import Cpu

BUSY_S = 0.05
SCRIPT = f"""
import time
while time.process_time() < {BUSY_S}: pass
print(flush=True)
input()
"""


@contextmanager
def busy() -> Iterator[int]:
    """Yield the id of a process once it has used some CPU; it ends with this."""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


def world_of(database: list[int], own: int) -> World:
    """Return as much of a world as is asked for its processes."""
    place = object()
    one = SimpleNamespace(pid=own)
    backend = SimpleNamespace(pids=lambda _: list(database))
    return cast(World, SimpleNamespace(server=one, worker=one, backend=backend, place=place))


def test_processes_that_begin_meanwhile_count_and_those_that_ended_do_not() -> None:
    with busy() as own, busy() as lasting:
        database = [lasting]
        with busy() as first:
            database.append(first)
            cpu = Cpu(world_of(database, own))
        # Listed still, as one is that ends right after.
        with busy() as later:
            database.append(later)
            used = cpu.used(2)
            assert used.database_us is not None
            assert used.database_us >= BUSY_S / 2 * 1e6
            assert 0 <= used.server_us < BUSY_S / 2 * 1e6


def test_store_without_a_process_used_no_cpu_of_its_own() -> None:
    with busy() as own:
        assert Cpu(world_of([], own)).used(1).database_us is None
