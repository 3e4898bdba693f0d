"""Limits of the machine and of the databases: no store can be faster for long."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.stage import Stage
from tests.support.backends.binaries import postgres_bin
from tests.support.backends.postgres import ROLE, Postgres
from tests.support.backends.redis import Redis


class Speeds(NamedTuple):
    """Durable writes in a second; None: not of this store."""

    fsyncs: float | None = None
    sqlite_commits: float | None = None
    pgbench_1: float | None = None
    pgbench_16: float | None = None
    redis_1: float | None = None
    redis_64: float | None = None


@dataclass(frozen=True)
class Limits:
    """Writes of the disk, SQLite, Postgres and Redis by themselves."""

    writes: int = 200
    seconds: int = 1
    name: str = "limits"
    stores: Sequence[str] = ("sqlite", "postgres", "redis")
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Speeds]:
        return [await asyncio.to_thread(self._measured, stage)]

    def _measured(self, stage: Stage) -> Speeds:
        match stage.backend.server:
            case None:
                return Speeds(
                    fsyncs=self._fsyncs(stage.backend.folder),
                    sqlite_commits=self._sqlite(stage.backend.folder),
                )
            case Postgres() as server:
                one, many = self._pgbench(server)
                return Speeds(pgbench_1=one, pgbench_16=many)
            case Redis() as server:
                return Speeds(
                    redis_1=self._redis(server, self.writes, 1),
                    redis_64=self._redis(server, self.writes * 5, 64),
                )
            case _:
                return Speeds()

    def _fsyncs(self, folder: Path) -> float:
        path = folder / "fsync"
        times: list[float] = []
        with path.open("wb", buffering=0) as file:
            for _ in range(self.writes):
                begun = time.perf_counter()
                file.write(os.urandom(4096))
                os.fsync(file.fileno())
                times.append(time.perf_counter() - begun)
        path.unlink()
        return 1 / statistics.median(times)

    def _sqlite(self, folder: Path) -> float:
        path = folder / "limit.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=FULL")
            database.execute("CREATE TABLE line (id INTEGER PRIMARY KEY, data BLOB)")
            begun = time.perf_counter()
            for _ in range(self.writes):
                database.execute("INSERT INTO line (data) VALUES (?)", (os.urandom(1024),))
            speed = self.writes / (time.perf_counter() - begun)
        path.unlink()
        return speed

    def _pgbench(self, server: Postgres) -> Iterator[float]:
        """Yield the transactions of one insert of 1 KiB, by 1 and by 16 clients."""
        name = server.new_database()
        server.execute("CREATE TABLE line (id bigserial PRIMARY KEY, data text)", database=name)
        script = server.folder / "insert.sql"
        script.write_text("INSERT INTO line (data) VALUES (repeat('x', 1024));\n")
        for clients in (1, 16):
            done = subprocess.run(
                [
                    *(str(postgres_bin(server.version) / "pgbench"), "--no-vacuum"),
                    *("--protocol", "prepared", "--client", str(clients), "--jobs", "1"),
                    *("--time", str(self.seconds), "--file", str(script)),
                    *("--host", "127.0.0.1", "--port", str(server.port)),
                    *("--username", ROLE, name),
                ],
                capture_output=True,
                text=True,
                check=True,
            )
            speed = re.search(r"tps = ([\d.]+)", done.stdout)
            assert speed is not None, done.stdout
            yield float(speed[1])
        server.drop_database(name)

    def _redis(self, server: Redis, writes: int, at_once: int) -> float:
        with server.admin_over_tcp() as client:
            data = os.urandom(1024)
            begun = time.perf_counter()
            for start in range(0, writes, at_once):
                pipeline = client.pipeline(transaction=False)
                for number in range(start, start + at_once):
                    pipeline.set(f"line:{number}", data)
                pipeline.execute()
            return writes / (time.perf_counter() - begun)
