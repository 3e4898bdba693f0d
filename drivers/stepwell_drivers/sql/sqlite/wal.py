"""Keeps the write-ahead log small: decides when it is copied into the file, and when it is emptied as well.

To copy, and wait for nobody, is enough as long as there are moments without readers: in one of them the log starts
over. Under readers that take turns there is none, and the log would grow for ever. So a log that is too large is
emptied: SQLite waits for those who read it, for a short while, and those who come meanwhile read the file instead.

A copy without room for all of it would fill the disk, and make none: the log stays whole until its last page is
copied. So it waits for room, and leaves what there is to commits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from stepwell.core.port import Runtime
from stepwell.logger import get_logger
from stepwell_drivers.sql.sqlite.engine import checkpoint, database_bytes
from stepwell_drivers.sql.sqlite.files import Files

log = get_logger(__name__)

PAGE_BYTES = 4_096
PAGES_MAX = 4_000
"""Pages written between two copies, about: 16 MiB of log. It starts over then, and is written in place from there on,
which takes a small commit half the time that a growing file does."""
PAGES_PER_TRANSACTION = 16
"""Pages that the smallest commit of a step writes: of each table and index that it touches."""
CHANGES_PER_PAGE = 4
"""Rows that a larger one changes for each page more, whether one run is at work or 60."""
LOG_BYTES_MAX = 32 * 1024 * 1024
"""The size of the log's file from which on it is emptied. That takes twice as long as a copy."""
WAIT_MS = 50
"""The time that commits wait for readers at the most while the log is emptied."""
RETRY_SECONDS = 1.0
"""After this a log that could not be emptied is tried again."""


class Checkpoints:
    """Copies the log into the file, between two transactions."""

    def __init__(self, driver: sqlite3.Connection, files: Files, runtime: Runtime) -> None:
        self._driver = driver
        self._files = files
        self._runtime = runtime
        self._pages = 0
        self._log_bytes = files.log_bytes
        self._urgent = files.log_bytes > 0
        """Empty the log whatever its size: it may be one that a killed process left."""
        self._again_at = runtime.monotonic()
        self._warn_at_bytes = 2 * LOG_BYTES_MAX

    def count(self, changes: int, payload_bytes: int) -> None:
        """Add what a transaction wrote, and what the log's file has grown by."""
        pages = PAGES_PER_TRANSACTION + changes // CHANGES_PER_PAGE + payload_bytes // PAGE_BYTES
        grown = (self._files.log_bytes - self._log_bytes) // PAGE_BYTES
        self._pages += max(pages, grown)
        self._log_bytes = self._files.log_bytes

    def disk_is_full(self) -> None:
        """Empty the log as soon as that works: it makes room, and needs hardly any."""
        self._urgent = True

    def due(self) -> Callable[[], None] | None:
        """Return what is to be done now, if anything; it waits for the disk.

        Raises, when called:
            sqlite3.Error: it failed, and is due again.
        """
        is_large = self._urgent or self._log_bytes >= LOG_BYTES_MAX
        if is_large and self._runtime.monotonic() >= self._again_at:
            return self._empty
        if self._pages >= PAGES_MAX:
            return self._copy
        return None

    def _copy(self) -> None:
        self._pages = 0
        if self._has_room():
            checkpoint(self._driver)

    def _has_room(self) -> bool:
        return self._files.has_room_for(database_bytes(self._driver))

    def _empty(self) -> None:
        self._again_at = self._runtime.monotonic() + RETRY_SECONDS
        if not self._has_room():
            return
        self._pages = 0
        if checkpoint(self._driver, empty_within_ms=WAIT_MS):
            self._urgent = False
            self._log_bytes = 0
            self._again_at = self._runtime.monotonic()
            self._warn_at_bytes = 2 * LOG_BYTES_MAX
        elif self._log_bytes >= self._warn_at_bytes:
            self._warn_at_bytes = 2 * self._log_bytes
            log.warning(
                "the write-ahead log grows",
                bytes=self._log_bytes,
                why="a program keeps a read transaction open on the SQLite file; end it there",
            )
