"""The writing connection, as the SQL functions take it: for short transactions, and for long ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.util.concurrency import await_

from stepwell.core.port import Runtime
from stepwell_drivers.sql.columns import Values
from stepwell_drivers.sql.sqlite.thread import DiskThread

HELD_S = 0.002
"""The time after which a long transaction lets the event loop run."""
REST_S = 0.001
"""The time that it then leaves to the event loop: an answer takes several turns."""
ROWS_AT_ONCE = 8
"""Rows between two checks of the clock: the payload of each may be 1 MiB."""

T = TypeVar("T")

_dialect = sqlite.dialect()


class _Counted(NamedTuple):
    """The number of rows that a statement changed, like `sqlite3.Cursor`'s."""

    rowcount: int


class PausingDriver:
    """The connection in a long transaction, whose functions run in a greenlet on the event loop.

    Rows are read and written in small pieces with pauses. In a thread each row would be slow,
    because Python's lock would have to be taken back from the event loop.
    """

    def __init__(self, driver: sqlite3.Connection, thread: DiskThread, runtime: Runtime) -> None:
        self._driver = driver
        self._thread = thread
        self._runtime = runtime
        self._until = runtime.monotonic() + HELD_S

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a statement; one that changes or deletes an unknown number of rows runs in the thread."""
        if sql.startswith(("DELETE", "UPDATE")):
            return await_(self._thread.run(self._driver.execute, sql, values))
        self.pause()
        return self._driver.execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Values]) -> _Counted:
        """Run a statement for each row, with pauses."""
        left = iter(rows)
        count = 0
        while piece := list(islice(left, ROWS_AT_ONCE)):
            count += self._driver.executemany(sql, piece).rowcount
            self.pause()
        return _Counted(count)

    def in_turns(self, rows: Sequence[T]) -> Iterator[T]:
        """Iterate over rows with pauses."""
        for at, row in enumerate(rows):
            if not at % ROWS_AT_ONCE:
                self.pause()
            yield row

    def pause(self) -> None:
        """Let the event loop run if it was blocked for long."""
        if self._runtime.monotonic() >= self._until:
            await_(self._runtime.sleep(REST_S))
            self._until = self._runtime.monotonic() + HELD_S


class SqliteLink:
    """One connection. Its holder begins and ends transactions on it."""

    def __init__(self, driver: sqlite3.Connection | PausingDriver) -> None:
        self.driver_connection = driver

    def in_turns(self, rows: Sequence[T]) -> Iterable[T]:
        """Iterate over rows; in a long transaction, with pauses."""
        driver = self.driver_connection
        return driver.in_turns(rows) if isinstance(driver, PausingDriver) else rows

    @property
    def dialect(self) -> Dialect:
        return _dialect

    @property
    def connection(self) -> SqliteLink:
        """This link, which also holds the driver's connection."""
        return self
