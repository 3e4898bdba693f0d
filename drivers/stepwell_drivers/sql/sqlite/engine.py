"""Connections to the file: one that writes, some that read; each checks its settings.

WAL with `synchronous=FULL` loses no acknowledged commit in a power cut (NORMAL lost some in 47 of
49). The driver makes the checkpoints, because SQLite's automatic ones hide a failed fsync.
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
"""Prepared statements that a connection keeps; the driver has about a hundred."""
WRITER_CACHE_KIB = 65_536
READER_CACHE_KIB = 8_192
_PART_BYTES = 1024 * 1024


def make_file(path: Path) -> None:
    """Create the file if it is missing, readable for its owner only."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreRefused(f"{str(path)!r} can't be opened: {error.strerror}") from error


def sync_log(path: Path) -> None:
    """Rewrite the log with its own contents and sync it, so that everything readable in it is on
    disk.

    A killed process may leave commits that it wrote and didn't sync. After a failed sync, the
    system shows data that the disk never got, and reports success for the next sync. Either would
    be read now and lost in a power cut. Nobody else may be writing.

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
    """Sync the folder, so that it still lists the file and its log after a power cut.

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
        # On macOS fsync leaves data in the drive's memory.
        fcntl.fcntl(file, fcntl.F_FULLFSYNC)
    else:
        os.fsync(file)


def writing_engine(url: SqliteUrl) -> Engine:
    """Return the engine of the one writing connection, whose transactions are all IMMEDIATE."""

    def connect() -> sqlite3.Connection:
        return _connect(url, "rw", _WRITER_CACHE, "PRAGMA temp_store=MEMORY")

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "begin", on_begin)
    return engine


def make_durable(connection: Connection) -> None:
    """Switch to WAL with FULL, and verify both. This changes the file, so check it before.

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
        # None: Python begins and ends no transactions by itself.
        isolation_level=None,
        # A reader is used by one thread at a time, but not always by the same one.
        check_same_thread=False,
        cached_statements=STATEMENTS_KEPT,
    )
    try:
        for pragma in pragmas:
            connection.execute(pragma)
    except sqlite3.Error:
        # The file is first read here; on an error the connection would otherwise stay open.
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
    """Begin a writing transaction; wait up to `patience_ms` for other programs' transactions.

    Raises:
        sqlite3.OperationalError: SQLITE_BUSY, if one still runs then.
    """
    with _patience(driver, patience_ms):
        driver.execute("BEGIN IMMEDIATE")


def commit(driver: sqlite3.Connection) -> None:
    """Commit; the transaction is on disk when this returns."""
    driver.execute("COMMIT")


def roll_back(driver: sqlite3.Connection) -> None:
    """Roll back a failed transaction; some errors have ended it already."""
    if driver.in_transaction:
        driver.execute("ROLLBACK")


def database_bytes(driver: sqlite3.Connection) -> int:
    """Return the size that the database's file has once the log is copied into it."""
    (pages,) = driver.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = driver.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(page_bytes)


def checkpoint(driver: sqlite3.Connection, *, empty_within_ms: int | None = None) -> bool:
    """Copy the log into the file, as far as no reader needs it; only the writer may call this.

    With `empty_within_ms`, wait at most that long for readers of the log, and truncate its file.
    Return whether it was truncated.
    """
    if empty_within_ms is None:
        driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        return False
    try:
        with _patience(driver, empty_within_ms):
            (is_busy, _, _) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy
    except sqlite3.OperationalError as error:
        # A full disk may refuse even that. Nothing is lost: the log is whole, or all of it is
        # copied.
        if error.sqlite_errorcode != sqlite3.SQLITE_IOERR_TRUNCATE:
            raise
        return False


def patience_of(driver: sqlite3.Connection) -> int:
    """Return the time that the connection waits for other programs, in milliseconds, and set it to none."""
    (patience_ms,) = driver.execute("PRAGMA busy_timeout").fetchone()
    driver.execute("PRAGMA busy_timeout=0")
    return int(patience_ms)


@contextmanager
def _patience(driver: sqlite3.Connection, patience_ms: int) -> Generator[None]:
    """Let a connection that doesn't wait for other programs wait for a while."""
    if not patience_ms:
        yield
        return
    driver.execute(f"PRAGMA busy_timeout={patience_ms}")
    try:
        yield
    finally:
        driver.execute("PRAGMA busy_timeout=0")
