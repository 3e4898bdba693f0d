"""Maps SQLite's errors to the port's, and tells which of them end the store."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError

from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StepwellError,
    StoreFull,
    StoreUnavailable,
)
from stepwell_drivers.sql.error_class import Trouble

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_FATAL = frozenset(
    {
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_NO_SPACE = sqlite3.SQLITE_IOERR_SHMSIZE
"""The log's index could not grow: the only I/O error of SQLite that means a full disk."""


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another program holds the file now."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF in _BUSY


def trouble_of(error: BaseException, *, committing: bool = False) -> Trouble:
    """Classify an error; `committing`: it came from COMMIT, which may have been done."""
    if isinstance(error, StepwellError):
        return Trouble(error)
    raw = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(raw, UnicodeEncodeError | OverflowError):
        return Trouble(
            InvalidArgument("a value can't be stored: " + type(raw).__name__, reason="NOT_STORABLE")
        )
    if not isinstance(raw, sqlite3.Error):
        return Trouble(StoreUnavailable(f"the store failed: {error!r}"), fatal=committing)
    extended = int(getattr(raw, "sqlite_errorcode", 0))
    code = extended & 0xFF
    if is_busy(raw):
        return Trouble(
            StoreUnavailable(f"somebody else writes to the file: {raw}", reason="STORE_BUSY")
        )
    if code == sqlite3.SQLITE_FULL or extended == _NO_SPACE:
        return Trouble(
            StoreFull("the disk is full; nothing was done, and work goes on when there is space")
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return Trouble(
            InvalidArgument(f"a row contradicts the stored ones: {raw}", reason="CONTRADICTION")
        )
    if committing:
        words = f"the store failed while it committed ({raw}); open it again to see what was done"
        return Trouble(OutcomeUnknown(words), fatal=True)
    return Trouble(StoreUnavailable(f"the store failed: {raw}"), fatal=code in _FATAL)
