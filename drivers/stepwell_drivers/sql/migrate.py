"""The schema's version: an empty database gets the schema, an older schema is migrated, an unknown
one refused.

A newer schema is accepted unchanged if its migrations only added to it.

The store names the oldest version whose programs may still use it (`LEAST`), and a migration that
does more than add writes its own version there. The version is read without Alembic, which is
imported only for a migration, because importing it takes longer than opening a store.
"""

from __future__ import annotations

from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select, text

from stepwell.core.records.errors import StoreRefused
from stepwell.logger import get_logger
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.dialect import Link, table_names
from stepwell_drivers.sql.statements import Insert, Query

log = get_logger(__name__)

HEAD = schema.REVISIONS[-1]
LEAST = "least_schema"
"""The key of that version among the store's facts; `migrations/env.py` writes it."""
MIGRATIONS = Path(__file__).parent / "migrations"
_version_num = Query(text("SELECT version_num FROM alembic_version"))
_meta = Query(select(schema.meta.c.key, schema.meta.c.value))
_put_meta = Insert(schema.meta, ("key", "value"), key=("key",))


def check(connection: Link) -> str | None:
    """Return the stored schema's version, or None in an empty database; change nothing.

    Raises:
        StoreRefused: the database is not one of our stores, or this program can't use its version:
            it is older than the first, or newer with more than additions.
    """
    found = _version(connection)
    if found is None or found in schema.REVISIONS:
        return found
    if facts_of(connection).get(LEAST) not in schema.REVISIONS:
        raise StoreRefused(
            f"the store has schema {found}, and this program doesn't know it ({HEAD} is its own); use"
            " the program that made it, or name a new store"
        )
    return found


def is_behind(found: str | None) -> bool:
    """Return whether a schema that `check` found must be migrated; a newer one must not."""
    return found is None or found in schema.REVISIONS[:-1]


def warn_if_newer(found: str | None, store: str) -> None:
    """Log a warning if a newer program has added to the schema."""
    if found is not None and found not in schema.REVISIONS:
        log.warning(
            "the store's schema is newer, and this program may use it: it was only added to",
            store=store,
            schema=found,
            own=HEAD,
        )


def migrate(connection: Connection) -> None:
    """Migrate the schema to this version, within the caller's transaction; leave a newer one unchanged."""
    if is_behind(check(connection)):
        _upgrade({"connection": connection})


def script(dialect: str) -> str:
    """Return all migrations as SQL, from an empty database, each in its own transaction."""
    written = StringIO()
    _upgrade({"dialect": dialect}, written)
    return written.getvalue()


def _upgrade(attributes: dict[str, Any], script: StringIO | None = None) -> None:
    """Run the migrations on a connection, or write them into a script; `env.py` reads the attributes."""
    config = import_module("alembic.config").Config(output_buffer=script)
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes |= attributes
    import_module("alembic.command").upgrade(config, "head", sql=script is not None)


def _version(connection: Link) -> str | None:
    tables = table_names(connection)
    if not tables:
        return None
    found = _version_num.run(connection) if "alembic_version" in tables else []
    if len(found) != 1:
        raise StoreRefused("there is a database, but no store of this program; name another")
    return str(found[0][0])


def identify(connection: Link, *, store_id: str, now_us: int) -> dict[str, str]:
    """Return the store's own facts; write them in a new store."""
    facts = facts_of(connection)
    if "store_id" not in facts:
        _put_meta.run(connection, [("store_id", store_id), ("born_us", str(now_us))])
        facts = facts_of(connection)
    return facts


def facts_of(connection: Link) -> dict[str, str]:
    """Return the store's facts, or none in a store that isn't created yet."""
    return {row[0]: row[1] for row in _meta.run(connection)}
