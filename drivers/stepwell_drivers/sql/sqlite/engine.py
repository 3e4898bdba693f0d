"""Connections to the file: one writes, some read; each asserts its settings.

WAL with `synchronous=FULL` loses no acknowledged commit in a power cut (NORMAL lost some in 47 of 49).
Checkpoints are the driver's, not SQLite's automatic ones: those hide a failed fsync.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool

from stepwell.core.records.errors import StoreRefused
from stepwell_drivers.sql.sqlite.url import SqliteUrl

STATEMENTS_KEPT = 256
"""Prepared statements a connection keeps: ours are some hundred."""
WRITER_CACHE_KIB = 65_536
READER_CACHE_KIB = 8_192
_PART_BYTES = 1024 * 1024


def make_file(path: Path) -> None:
    """Make the file if it isn't there, readable for its owner alone."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreRefused(f"{str(path)!r} can't be opened: {error.strerror}") from error


def sync_log(path: Path) -> None:
    """Rewrite the log with its own contents and sync it: whatever can be read in it is then on disk.

    A process that was killed leaves commits that it wrote and didn't sync. Where a sync failed, the system
    shows what the disk never got, and says of the next sync that all is well. Either would be read, and
    be gone after a power cut. Nobody else may be writing.

    Raises:
        OSError: the disk refused it.
    """
    try:
        log = os.open(path.with_name(path.name + "-wal"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        at = 0
        while part := os.pread(log, _PART_BYTES, at):
            at += os.pwrite(log, part, at)
        _sync(log)
    finally:
        os.close(log)


def sync_folder(path: Path) -> None:
    """Sync the folder, so that the file and its log are found there after a power cut.

    SQLite does so for a log that it makes, but ignores a failure.

    Raises:
        OSError: the disk refused it.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sync(file: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):
        # macOS' fsync leaves it in the drive's memory.
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    else:
        os.fsync(file)


def writing_engine(url: SqliteUrl) -> Engine:
    """Return the engine of the one connection that writes; every transaction is IMMEDIATE."""

    def connect() -> sqlite3.Connection:
        return _connect(url, "rw", _WRITER_CACHE, "PRAGMA temp_store=MEMORY")

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", on_begin)
    return engine


def make_durable(connection: Connection) -> None:
    """Switch to WAL with FULL, and read both back. This marks the file: check it before.

    Raises:
        StoreRefused: the file system can't.
    """
    driver = raw(connection)
    driver.execute("PRAGMA journal_mode=WAL")
    driver.execute("PRAGMA synchronous=FULL")
    driver.execute("PRAGMA fullfsync=ON")
    driver.execute("PRAGMA checkpoint_fullfsync=ON")
    driver.execute("PRAGMA wal_autocheckpoint=0")
    _assert_durable(driver)


def reading_connection(url: SqliteUrl) -> sqlite3.Connection:
    """Return a connection that reads; a transaction on it is one snapshot."""
    return _connect(url, "ro", "PRAGMA query_only=ON", _READER_CACHE)


# PRAGMA takes no parameters.
_WRITER_CACHE = f"PRAGMA cache_size=-{WRITER_CACHE_KIB}"
_READER_CACHE = f"PRAGMA cache_size=-{READER_CACHE_KIB}"


def _connect(url: SqliteUrl, mode: str, *pragmas: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(url.path))}?mode={mode}",
        uri=True,
        timeout=url.busy_timeout_ms / 1_000,
        # None: Python begins and ends no transaction behind our back.
        isolation_level=None,
        # A reader is used by one thread at a time, but not always by the same.
        check_same_thread=False,
        cached_statements=STATEMENTS_KEPT,
    )
    try:
        for pragma in pragmas:
            connection.execute(pragma)
    except sqlite3.Error:
        # The file is first read here; on an error the connection would stay open.
        connection.close()
        raise
    return connection


def _assert_durable(connection: sqlite3.Connection) -> None:
    journal = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
    synchronous = int(connection.execute("PRAGMA synchronous").fetchone()[0])
    if journal.lower() != "wal" or synchronous != 2:
        raise StoreRefused(
            f"SQLite answers journal_mode={journal}, synchronous={synchronous} instead of WAL and"
            " FULL (2): this file system can't keep what an acknowledgement promises"
        )


def raw(connection: Connection) -> sqlite3.Connection:
    """Return the driver's connection, for statements outside transactions, such as checkpoints."""
    found = connection.connection.driver_connection
    assert isinstance(found, sqlite3.Connection)
    return found


def begin(driver: sqlite3.Connection, *, patience_ms: int = 0) -> None:
    """Begin a transaction that writes; wait so long for other programs that do.

    Raises:
        sqlite3.OperationalError: SQLITE_BUSY, if one still does.
    """
    with _patience(driver, patience_ms):
        driver.execute("BEGIN IMMEDIATE")


def commit(driver: sqlite3.Connection) -> None:
    """Commit: it is on the disk when this returns."""
    driver.execute("COMMIT")


def roll_back(driver: sqlite3.Connection) -> None:
    """End a failed transaction; some errors have ended it already."""
    if driver.in_transaction:
        driver.execute("ROLLBACK")


def database_bytes(driver: sqlite3.Connection) -> int:
    """Return the size of the database with all that its log holds: what its file has once that is copied."""
    (pages,) = driver.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = driver.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(page_bytes)


def checkpoint(driver: sqlite3.Connection, *, empty_within_ms: int | None = None) -> bool:
    """Copy the log into the file, as far as no reader needs it; only the writer may call this.

    With `empty_within_ms` wait so long at the most for those who read the log, and cut its file to nothing.
    Return whether that was done.
    """
    if empty_within_ms is None:
        driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return False
    try:
        with _patience(driver, empty_within_ms):
            (is_busy, _, _) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy
    except sqlite3.OperationalError as error:
        # A full disk may refuse even that. Nothing is lost: the log is whole, or all of it is in the file.
        if error.sqlite_errorcode != sqlite3.SQLITE_IOERR_TRUNCATE:
            raise
        return False


def patience_of(driver: sqlite3.Connection) -> int:
    """Return the milliseconds for which the connection waits for other programs, and have it wait for none."""
    (patience_ms,) = driver.execute("PRAGMA busy_timeout").fetchone()
    driver.execute("PRAGMA busy_timeout=0")
    return int(patience_ms)


@contextmanager
def _patience(driver: sqlite3.Connection, patience_ms: int) -> Generator[None]:
    """Have a connection that waits for nobody wait for a while."""
    if not patience_ms:
        yield
        return
    driver.execute(f"PRAGMA busy_timeout={patience_ms}")
    try:
        yield
    finally:
        driver.execute("PRAGMA busy_timeout=0")
