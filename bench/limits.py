"""Limits of the machine itself, measured in the same run: no store can be faster for long."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tests.support.backends.binaries import postgres_bin
from tests.support.backends.postgres import ROLE, Postgres
from tests.support.backends.redis import Redis

PGBENCH_SECONDS = 3
REDIS_WRITES = 2_000


def fsync_per_second(folder: Path) -> float:
    """Return how many appends of 4 KiB can be made durable in a second, one by one."""
    path = folder / "fsync"
    times: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(200):
            begun = time.perf_counter()
            file.write(os.urandom(4096))
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    path.unlink()
    return 1 / statistics.median(times)


def pgbench_commits(server: Postgres, *, clients: Iterable[int]) -> list[str]:
    """Return Postgres' own speed: transactions of one insert of 1 KiB, by so many clients at once."""
    name = server.new_database()
    server.execute("CREATE TABLE line (id bigserial PRIMARY KEY, data text)", database=name)
    script = server.folder / "insert.sql"
    script.write_text("INSERT INTO line (data) VALUES (repeat('x', 1024));\n")
    found: list[str] = []
    for count in clients:
        done = subprocess.run(
            [
                *(str(postgres_bin(server.version) / "pgbench"), "--no-vacuum"),
                *("--protocol", "prepared", "--client", str(count), "--jobs", "1"),
                *("--time", str(PGBENCH_SECONDS), "--file", str(script)),
                *("--host", "127.0.0.1", "--port", str(server.port), "--username", ROLE, name),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        speed = re.search(r"tps = ([\d.]+)", done.stdout)
        assert speed is not None, done.stdout
        word = "client" if count == 1 else "clients"
        found.append(f"pgbench, single commits, {count} {word}: {float(speed[1]):,.0f}/s")
    return found


def redis_writes(server: Redis, *, pipelined: Iterable[int]) -> list[str]:
    """Return Redis' own speed: durable writes of 1 KiB, so many to a round trip."""
    found: list[str] = []
    with server.admin_over_tcp() as client:
        for count in pipelined:
            data = os.urandom(1024)
            begun = time.perf_counter()
            for start in range(0, REDIS_WRITES, count):
                pipeline = client.pipeline(transaction=False)
                for number in range(start, start + count):
                    pipeline.set(f"line:{number}", data)
                pipeline.execute()
            seconds = time.perf_counter() - begun
            found.append(f"Redis, {count} to a round trip: {REDIS_WRITES / seconds:,.0f} writes/s")
    return found
