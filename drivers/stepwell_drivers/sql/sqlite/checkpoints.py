"""Keeps the write-ahead log small: decides when it is copied into the file, and when it is emptied as well.

To copy, and wait for nobody, is enough as long as there are moments without readers: in one of them the log starts
over. Under readers that take turns there is none, and the log would grow for ever. So a log that is too large is
emptied: SQLite waits for those who read it, for a short while, and those who come meanwhile read the file instead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial

from stepwell.core.port import Runtime
from stepwell.logger import get_logger
from stepwell_drivers.sql.sqlite.engine import checkpoint

log = get_logger(__name__)

CHANGES_MAX = 8_000
"""Rows changed between two copies: some 20 MiB of log, whether one run is at work or 60."""
CHANGES_PER_TRANSACTION = 10
"""Counted for each transaction besides its rows: it writes pages of every index that it touches."""
PAYLOAD_BYTES_MAX = 16 * 1024 * 1024
"""Payload bytes between two copies."""
LOG_BYTES_MAX = 32 * 1024 * 1024
"""The size of the log's file from which on it is emptied. That takes twice as long as a copy."""
WAIT_MS = 50
"""The time that commits wait for readers at the most while the log is emptied."""
RETRY_SECONDS = 1.0
"""After this a log that could not be emptied is tried again."""


class Checkpoints:
    """Copies the log into the file, between two transactions."""

    def __init__(self, driver: sqlite3.Connection, runtime: Runtime) -> None:
        self._driver = driver
        self._runtime = runtime
        self._changes = 0
        self._payload_bytes = 0
        self._urgent = True
        """Empty the log whatever its size: it may be one that a killed process left."""
        self._again_at = runtime.monotonic()
        self._warn_at_bytes = 2 * LOG_BYTES_MAX

    def count(self, changes: int, payload_bytes: int) -> None:
        """Add what a transaction wrote."""
        self._changes += changes + CHANGES_PER_TRANSACTION
        self._payload_bytes += payload_bytes

    def disk_is_full(self) -> None:
        """Empty the log as soon as that works: it makes room, and needs hardly any."""
        self._urgent = True

    def due(self, log_bytes: int) -> Callable[[], None] | None:
        """Return what is to be done now, if anything; it waits for the disk. `log_bytes`: the size of its file.

        Raises, when called:
            sqlite3.Error: it failed, and is due again.
        """
        if (
            self._urgent or log_bytes >= LOG_BYTES_MAX
        ) and self._runtime.monotonic() >= self._again_at:
            return partial(self._empty, log_bytes)
        if self._changes >= CHANGES_MAX or self._payload_bytes >= PAYLOAD_BYTES_MAX:
            return self._copy
        return None

    def _copy(self) -> None:
        self._changes = self._payload_bytes = 0
        checkpoint(self._driver)

    def _empty(self, log_bytes: int) -> None:
        self._again_at = self._runtime.monotonic() + RETRY_SECONDS
        self._changes = self._payload_bytes = 0
        if checkpoint(self._driver, empty_within_ms=WAIT_MS):
            self._urgent = False
            self._again_at = self._runtime.monotonic()
            self._warn_at_bytes = 2 * LOG_BYTES_MAX
        elif log_bytes >= self._warn_at_bytes:
            self._warn_at_bytes = 2 * log_bytes
            log.warning(
                "the write-ahead log grows",
                bytes=log_bytes,
                why="a program keeps a read transaction open on the SQLite file; end it there",
            )
