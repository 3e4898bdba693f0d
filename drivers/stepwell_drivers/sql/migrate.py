"""The schema's version: an empty file is made, an older one is brought up, a newer one refused.

The version is read by hand: Alembic is imported when there is something to do, because it takes longer
to import than a store takes to open.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, column, inspect, select, table

from stepwell.core.errors import StoreRefused
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.statements import Insert, Query

HEAD = schema.REVISIONS[-1]
MIGRATIONS = Path(__file__).parent / "migrations"
_alembic_version = table("alembic_version", column("version_num"))
_meta = Query(select(schema.meta.c.key, schema.meta.c.value))
_put_meta = Insert(schema.meta, ("key", "value"), key=("key",))


def check(connection: Connection) -> str | None:
    """Return the file's schema version, None for an empty file; change nothing.

    Raises:
        StoreRefused: a newer program made this store, or it is no store of ours.
    """
    found = _version(connection)
    if found is not None and found not in schema.REVISIONS:
        raise StoreRefused(
            f"the store has schema {found}, and this program knows {HEAD} at the newest; use the"
            " program that made it, or a newer one"
        )
    return found


def migrate(connection: Connection) -> None:
    """Bring the schema to this version, within the caller's transaction."""
    if check(connection) == HEAD:
        return
    config = import_module("alembic.config").Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    import_module("alembic.command").upgrade(config, "head")


def _version(connection: Connection) -> str | None:
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    found: list[str] = []
    if "alembic_version" in tables:
        found = list(connection.scalars(select(_alembic_version.c.version_num)))
    if len(found) != 1:
        raise StoreRefused("the file is a database, but no store of this program; name another")
    return found[0]


def identify(connection: Connection, *, store_id: str, now_us: int) -> dict[str, str]:
    """Return the store's own facts; at its birth, write them."""
    _put_meta.run(connection, [("store_id", store_id), ("born_us", str(now_us))])
    facts: dict[str, Any] = {row[0]: row[1] for row in _meta.run(connection)}
    return facts
