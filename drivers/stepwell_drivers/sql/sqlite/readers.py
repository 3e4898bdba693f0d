"""Read connections, each used by one thread at a time, so that reads block neither the event loop nor writes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar

from stepwell_drivers.sql.sqlite.engine import roll_back
from stepwell_drivers.sql.sqlite.errors import trouble_of
from stepwell_drivers.sql.sqlite.link import SqliteLink

READERS = 3

P = ParamSpec("P")
T = TypeVar("T")


class Readers:
    """A pool of read-only connections; a read is one snapshot on one of them."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="stepwell-read")
        try:
            for _ in range(READERS):
                self._idle.put(connect())
        except BaseException:
            self.close()
            raise

    async def run(
        self,
        read: Callable[Concatenate[SqliteLink, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a read in a thread, in one snapshot, and return its result."""

        def work(driver: sqlite3.Connection) -> T:
            driver.execute("BEGIN")
            try:
                return read(SqliteLink(driver), *args, **kwargs)
            finally:
                roll_back(driver)

        return await self._run(work)

    async def ask(
        self,
        read: Callable[Concatenate[SqliteLink, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a read that is one statement and so one snapshot by itself."""

        def work(driver: sqlite3.Connection) -> T:
            return read(SqliteLink(driver), *args, **kwargs)

        return await self._run(work)

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def with_one() -> T:
            driver = self._idle.get()
            try:
                return work(driver)
            finally:
                self._idle.put(driver)

        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, with_one)
        except Exception as error:
            raise trouble_of(error).error from error

    def close(self) -> None:
        """Wait for running reads, and close the connections. Blocks meanwhile."""
        self._threads.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get().close()
