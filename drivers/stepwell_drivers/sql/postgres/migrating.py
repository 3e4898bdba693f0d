"""Migrates a schema without opening the store, or checks whether it is current."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.util.concurrency import greenlet_spawn

from stepwell.core.port import Runtime
from stepwell_drivers.sql import migrate
from stepwell_drivers.sql.postgres import server_settings
from stepwell_drivers.sql.postgres.errors import refusal_of
from stepwell_drivers.sql.postgres.links import WRITE, Connector
from stepwell_drivers.sql.postgres.schema_setup import make
from stepwell_drivers.sql.postgres.url import parse


async def migrate_store(
    url: str, *, runtime: Runtime, check: bool, sql: Callable[[str], object] | None = None
) -> tuple[str, str]:
    """Return the schema's version before, and this program's version; migrate it unless `check`.

    With `sql`, the function gets all migrations as a script instead, and the store is not read.

    Raises:
        StoreRefused: the database can't hold a store, or this program doesn't know its schema.
        StoreUnavailable: no server answers.
    """
    place = parse(url)
    if sql is not None:
        # The URL's rules allow only letters, digits and _ here.
        sql(f'CREATE SCHEMA IF NOT EXISTS "{place.schema}";\nSET search_path = "{place.schema}";\n')
        sql(migrate.script("postgresql"))
        return "", migrate.HEAD
    connector = Connector(place)
    try:
        found = await _version(connector)
        if found and not migrate.is_behind(found):
            return found, found
        if not check:
            await make(connector, runtime)
    except Exception as error:
        raise refusal_of(error, place.shown) from error
    return found or "", migrate.HEAD


async def _version(connector: Connector) -> str | None:
    link = await connector.connect()
    try:
        await link.begin(WRITE)
        row = (await link.driver_connection.fetch(server_settings.FACTS))[0]
        server_settings.check(server_settings.Facts.of(row), connector.url.shown)
        found = await greenlet_spawn(migrate.check, link)
        await link.end("COMMIT")
        return found
    finally:
        link.cut()
