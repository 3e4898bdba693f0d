"""Opens a store: checks the path, takes the lock, migrates the schema, sets the clock, starts the threads."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import DBAPIError

from stepwell.core.port import Claim, Claimed, Runtime, Store, StoreInfo
from stepwell.core.records.errors import StoreFull, StoreMissing, StoreRefused, StoreUnavailable
from stepwell.core.records.states import Durability
from stepwell_drivers.clock import StoreClock
from stepwell_drivers.hints import HintBus
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.deletes import TOMBSTONE_US
from stepwell_drivers.sql.migrate import HEAD, check, identify, is_behind, migrate, warn_if_newer
from stepwell_drivers.sql.sqlite import claims
from stepwell_drivers.sql.sqlite.engine import (
    make_durable,
    make_file,
    reading_connection,
    sync_folder,
    sync_log,
    writing_engine,
)
from stepwell_drivers.sql.sqlite.files import Files
from stepwell_drivers.sql.sqlite.lock import FileLock
from stepwell_drivers.sql.sqlite.readers import Readers
from stepwell_drivers.sql.sqlite.url import SqliteUrl, parse
from stepwell_drivers.sql.sqlite.writer import Writer
from stepwell_drivers.sql.statements import Query
from stepwell_drivers.sql.store import SqlStore, changed_by

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

_newest = (
    Query(select(schema.commits.c.committed_us).order_by(schema.commits.c.seq.desc()).limit(1)),
    Query(select(func.max(schema.tombstones.c.expires_us) - TOMBSTONE_US)),
)


class _Opened(NamedTuple):
    """A file whose schema is this program's, with the connections to it."""

    connection: Connection
    files: Files
    readers: Readers
    schema: str
    """The schema's version."""
    store_id: str
    last_us: int


async def open_store(url: str, *, runtime: Runtime, create: bool = True) -> Store:
    """Open the store that the URL names; with `create`, create it if the file is missing.

    Raises:
        StoreMissing: the file is missing, without `create`.
        StoreRefused: the file can't hold a store, another process has it, or this program doesn't
            know its schema.
    """
    place = parse(url)
    if not create and not place.path.exists():
        raise StoreMissing(f"the file {str(place.path)!r} is not there; check the path")
    lock = FileLock(place.path)
    try:
        clock = StoreClock(runtime)
        opened = await asyncio.get_running_loop().run_in_executor(
            None, _open, place, runtime.new_id(), clock.now_us()
        )
    except BaseException:
        lock.release()
        raise
    clock.at_least(opened.last_us + 1)
    hints = HintBus()
    writer = Writer(
        opened.connection,
        opened.files,
        clock=clock,
        runtime=runtime,
        after=lambda done: hints.publish(changed_by(done)),
    )
    info = StoreInfo(
        driver="sqlite",
        durability=Durability.POWER,
        detail="WAL, synchronous=FULL",
        schema_version=opened.schema,
        store_id=opened.store_id,
    )
    holds, claiming = claims.Holds(), asyncio.Lock()

    async def claim(claim: Claim) -> Claimed:
        async with claiming:
            return await opened.readers.run(claims.claim, claim, holds, clock.now_us())

    async def shut() -> None:
        try:
            # Readers are closed first, so that the writer closes last and checkpoints.
            await asyncio.get_running_loop().run_in_executor(None, opened.readers.close)
            await writer.close()
        finally:
            lock.release()

    return SqlStore(
        writer=writer,
        beats=writer,
        readers=opened.readers,
        claim=claim,
        hints=hints,
        clock=lambda _: clock.now_us(),
        runtime=runtime,
        info=info,
        shut=shut,
    )


def _open(place: SqliteUrl, store_id: str, now_us: int) -> _Opened:
    """Connect, migrate the schema, and read the store's id and newest time."""
    make_file(place.path)
    try:
        connection = writing_engine(place).connect()
        try:
            return _prepare(connection, place, store_id, now_us)
        except BaseException:
            connection.close()
            raise
    except (DBAPIError, sqlite3.Error) as error:
        raise refusal(place, error) from error
    except OSError as error:
        words = f"{str(place.path)!r} can't be synced: {error.strerror}"
        raise (StoreFull if error.errno in NO_SPACE else StoreRefused)(words) from error


def _prepare(connection: Connection, place: SqliteUrl, store_id: str, now_us: int) -> _Opened:
    with connection.begin():
        found = check(connection)
        warn_if_newer(found, str(place.path))
        sync_log(place.path)
    make_durable(connection)
    with connection.begin():
        migrate(connection)
        facts = identify(connection, store_id=store_id, now_us=now_us)
        last_us = max(_last_us(connection), int(facts["born_us"]))
    sync_folder(place.path)
    files = Files(place.path)
    version = HEAD if found is None or is_behind(found) else found
    readers = Readers(partial(reading_connection, place))
    return _Opened(connection, files, readers, version, facts["store_id"], last_us)


def _last_us(connection: Connection) -> int:
    """Return the newest time that the store has stamped, as far as indexes show it."""
    found = [query.first(connection) for query in _newest]
    return max((row[0] or 0 for row in found if row is not None), default=0)


def refusal(place: SqliteUrl, error: DBAPIError | sqlite3.Error) -> StoreRefused | StoreUnavailable:
    """Return the port's error for a failure at opening."""
    raw = error.orig if isinstance(error, DBAPIError) else error
    code = int(getattr(raw, "sqlite_errorcode", 0)) & 0xFF
    name = repr(str(place.path))
    if code == sqlite3.SQLITE_NOTADB:
        return StoreRefused(f"{name} is no SQLite database; name another file")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreRefused(
            f"{name} is damaged ({raw}); restore it from a backup, or save what can be read with"
            " `sqlite3 FILE .recover`"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"the disk of {name} is full")
    if code == sqlite3.SQLITE_BUSY:
        return StoreRefused(f"another program writes to {name}; close it there first")
    return StoreRefused(f"{name} can't be opened: {raw}")
