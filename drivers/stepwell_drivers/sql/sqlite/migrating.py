"""Migrates a file's schema without serving it, or checks whether it is current."""

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
    """Return the schema's version before, and this program's; migrate it unless `check`.

    Raises:
        StoreRefused: it can't be a store, another process has it, or this program doesn't know its schema.
    """
    place = parse(url)
    found = await asyncio.get_running_loop().run_in_executor(None, _version, place)
    if found != migrate.HEAD and not check:
        # The opener holds the file alone, so no server uses it meanwhile.
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
