"""The connection that writes, as the SQL functions take it: for short transactions, and for long ones."""

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
"""The time after which a long transaction lets the event loop go on."""
REST_S = 0.001
"""The time that it leaves to the event loop then: an answer takes several turns of it."""
ROWS_AT_ONCE = 8
"""Rows between two looks at the clock: their payloads may have 1 MiB each."""

T = TypeVar("T")

_dialect = sqlite.dialect()


class _Counted(NamedTuple):
    """The count of the rows that a statement changed, where `sqlite3.Cursor` has it."""

    rowcount: int


class PausingDriver:
    """The connection in a long transaction, whose functions run in a greenlet on the event loop.

    Rows are read and written in small pieces with pauses. In the thread they would be slow: for each of them
    Python's lock would have to be fetched back from the event loop.
    """

    def __init__(self, driver: sqlite3.Connection, thread: DiskThread, runtime: Runtime) -> None:
        self._driver = driver
        self._thread = thread
        self._runtime = runtime
        self._until = runtime.monotonic() + HELD_S

    def execute(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Run a statement; one that changes or deletes nobody knows how many rows, in the thread."""
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
        """Go through rows with pauses."""
        for at, row in enumerate(rows):
            if not at % ROWS_AT_ONCE:
                self.pause()
            yield row

    def pause(self) -> None:
        """Let the event loop go on if it was held for long."""
        if self._runtime.monotonic() >= self._until:
            await_(self._runtime.sleep(REST_S))
            self._until = self._runtime.monotonic() + HELD_S


class SqliteLink:
    """One connection. A transaction on it is begun and ended by its holder."""

    def __init__(self, driver: sqlite3.Connection | PausingDriver) -> None:
        self.driver_connection = driver

    def in_turns(self, rows: Sequence[T]) -> Iterable[T]:
        """Go through rows; in a long transaction, with pauses."""
        driver = self.driver_connection
        return driver.in_turns(rows) if isinstance(driver, PausingDriver) else rows

    @property
    def dialect(self) -> Dialect:
        return _dialect

    @property
    def connection(self) -> SqliteLink:
        """This link: it holds the driver's connection, too."""
        return self
