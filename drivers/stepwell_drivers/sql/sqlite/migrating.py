"""Brings a file's schema up without serving it, or looks whether it is."""

from __future__ import annotations

import asyncio
import sqlite3

from sqlalchemy.exc import DBAPIError

from stepwell.core.port import Runtime
from stepwell_drivers.sql import migrate
from stepwell_drivers.sql.sqlite.engine import writing_engine
from stepwell_drivers.sql.sqlite.lock import FileLock
from stepwell_drivers.sql.sqlite.opening import open_store, refusal
from stepwell_drivers.sql.sqlite.url import SqliteUrl, parse


async def migrate_store(url: str, *, runtime: Runtime, check: bool) -> tuple[str, str]:
    """Return the schema's version as it was found, and this program's; bring it up unless `check`.

    Raises:
        StoreRefused: it can't be a store, another process has it, or a newer program made it.
    """
    place = parse(url)
    found = await asyncio.get_running_loop().run_in_executor(None, _version, place)
    if found != migrate.HEAD and not check:
        # A file is its opener's alone, so nobody is served meanwhile.
        store = await open_store(url, runtime=runtime)
        await store.close()
    return found, migrate.HEAD


def _version(place: SqliteUrl) -> str:
    if not place.path.exists():
        return ""
    lock = FileLock(place.path)
    try:
        with writing_engine(place).connect() as connection, connection.begin():
            return migrate.check(connection) or ""
    except (DBAPIError, sqlite3.Error) as error:
        raise refusal(place, error) from error
    finally:
        lock.release()
