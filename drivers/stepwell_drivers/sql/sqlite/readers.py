"""Read connections, each in a thread of its own: no read holds up the event loop or a write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine

from stepwell_drivers.sql.sqlite.errors import trouble_of

READERS = 3

P = ParamSpec("P")
T = TypeVar("T")


class Readers:
    """A pool of read-only connections; a read is one short transaction on one of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="stepwell-read")
        try:
            for _ in range(READERS):
                self._idle.put(engine.connect())
        except BaseException:
            self.close()
            raise

    async def run(
        self,
        read: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a read in a thread and return what it returns."""

        def work() -> T:
            connection = self._idle.get()
            try:
                with connection.begin():
                    return read(connection, *args, **kwargs)
            finally:
                self._idle.put(connection)

        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, work)
        except Exception as error:
            raise trouble_of(error).error from error

    async def ask(
        self,
        read: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a read that is one statement: a transaction around it costs next to nothing here."""
        return await self.run(read, *args, **kwargs)

    def close(self) -> None:
        """Wait for the reads that were begun, and close the connections. Blocks for that long."""
        self._threads.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get().close()
        self._engine.dispose()
