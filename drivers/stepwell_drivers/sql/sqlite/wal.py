"""Keeps the write-ahead log small: decides when to copy it into the file, and when to truncate it
as well.

A copy that waits for nobody is enough as long as there are moments without readers, when the log
starts over. With overlapping readers there are none, and the log would grow without limit. A log
that is too large is therefore truncated: SQLite waits a short while for its readers, and new
readers use the file. The log stays whole until its last page is copied, so a copy that doesn't fit
completely would fill the disk and free nothing. Such a copy waits for room, and leaves the rest of
the disk to commits.
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
"""About the number of pages written between two copies: 16 MiB of log. The log then starts over and
is written in place, which halves the time of a small commit compared to a growing file."""
PAGES_PER_TRANSACTION = 16
"""The pages that a step's smallest commit writes: some of each table and index that it touches."""
CHANGES_PER_PAGE = 4
"""The number of changed rows for each further page, with one active run as with 60."""
LOG_BYTES_MAX = 32 * 1024 * 1024
"""The size of the log's file at which it is truncated, which takes twice as long as a copy."""
WAIT_MS = 50
"""The most time that commits wait for readers while the log is truncated."""
RETRY_SECONDS = 1.0
"""The pause before a log that could not be truncated is tried again."""


class Checkpoints:
    """Copies the log into the file, between two transactions."""

    def __init__(self, driver: sqlite3.Connection, files: Files, runtime: Runtime) -> None:
        self._driver = driver
        self._files = files
        self._runtime = runtime
        self._pages = 0
        self._log_bytes = files.log_bytes
        self._urgent = files.log_bytes > 0
        """True: truncate the log whatever its size, as a killed process may have left it."""
        self._again_at = runtime.monotonic()
        self._warn_at_bytes = 2 * LOG_BYTES_MAX

    def count(self, changes: int, payload_bytes: int) -> None:
        """Add the pages of a transaction, by its changes or by the growth of the log's file."""
        pages = PAGES_PER_TRANSACTION + changes // CHANGES_PER_PAGE + payload_bytes // PAGE_BYTES
        grown = (self._files.log_bytes - self._log_bytes) // PAGE_BYTES
        self._pages += max(pages, grown)
        self._log_bytes = self._files.log_bytes

    def disk_is_full(self) -> None:
        """Truncate the log as soon as possible: that frees room, and needs hardly any."""
        self._urgent = True

    def due(self) -> Callable[[], None] | None:
        """Return the work that is due, if any; calling it waits for the disk.

        Raises, when called:
            sqlite3.Error: the work failed, and is due again.
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
