"""The schema's version: an empty database is made one, an older one is brought up, an unknown one refused.

The version is read by hand: Alembic is imported when there is something to do, because it takes longer
to import than a store takes to open.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from sqlalchemy import Connection, select, text

from stepwell.core.records.errors import StoreRefused
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.dialect import Link, table_names
from stepwell_drivers.sql.statements import Insert, Query

HEAD = schema.REVISIONS[-1]
MIGRATIONS = Path(__file__).parent / "migrations"
_version_num = Query(text("SELECT version_num FROM alembic_version"))
_meta = Query(select(schema.meta.c.key, schema.meta.c.value))
_put_meta = Insert(schema.meta, ("key", "value"), key=("key",))


def check(connection: Link) -> str | None:
    """Return the stored schema's version, None where there is nothing; change nothing.

    Raises:
        StoreRefused: this program doesn't know that version, or it is no store of ours.
    """
    found = _version(connection)
    if found is not None and found not in schema.REVISIONS:
        raise StoreRefused(
            f"the store has schema {found}, and this program doesn't know it ({HEAD} is its own); use"
            " the program that made it, or name a new store"
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


def _version(connection: Link) -> str | None:
    tables = table_names(connection)
    if not tables:
        return None
    found = _version_num.run(connection) if "alembic_version" in tables else []
    if len(found) != 1:
        raise StoreRefused("there is a database, but no store of this program; name another")
    return str(found[0][0])


def identify(connection: Link, *, store_id: str, now_us: int) -> dict[str, str]:
    """Return the store's own facts; at its birth, write them."""
    facts = facts_of(connection)
    if "store_id" not in facts:
        _put_meta.run(connection, [("store_id", store_id), ("born_us", str(now_us))])
        facts = facts_of(connection)
    return facts


def facts_of(connection: Link) -> dict[str, str]:
    """Return the store's facts; empty: it was not created yet."""
    return {row[0]: row[1] for row in _meta.run(connection)}
