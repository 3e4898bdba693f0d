"""Migrates a file's schema without serving it, or checks whether it is current."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError

from stepwell.core.port import Runtime
from stepwell_drivers.sql import migrate
from stepwell_drivers.sql.sqlite.engine import writing_engine
from stepwell_drivers.sql.sqlite.lock import FileLock
from stepwell_drivers.sql.sqlite.opening import open_store, refusal
from stepwell_drivers.sql.sqlite.url import SqliteUrl, parse


async def migrate_store(
    url: str, *, runtime: Runtime, check: bool, sql: Callable[[str], object] | None = None
) -> tuple[str, str]:
    """Return the schema's version before, and this program's version; migrate it unless `check`.

    With `sql`, the function gets all migrations as a script instead, and the store is not read.

    Raises:
        StoreRefused: the file can't hold a store, another process has it, or this program doesn't
            know its schema.
    """
    place = parse(url)
    if sql is not None:
        sql(migrate.script("sqlite"))
        return "", migrate.HEAD
    found = await asyncio.get_running_loop().run_in_executor(None, _version, place)
    if found and not migrate.is_behind(found):
        return found, found
    if not check:
        # The opener locks the file, so no server uses it meanwhile.
        store = await open_store(url, runtime=runtime)
        await store.close()
    return found or "", migrate.HEAD


def _version(place: SqliteUrl) -> str | None:
    if not place.path.exists():
        return None
    lock = FileLock(place.path)
    try:
        with writing_engine(place).connect() as connection, connection.begin():
            return migrate.check(connection)
    except (DBAPIError, sqlite3.Error) as error:
        raise refusal(place, error) from error
    finally:
        lock.release()
