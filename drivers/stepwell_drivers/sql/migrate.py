"""The schema's version: an empty database is made one, an older one is brought up, an unknown one refused.

A newer one is taken as it is where its program only added to the schema: the store names the oldest version
whose programs may still use it (`LEAST`), and each migration that does more than add puts its own there.

The version is read by hand: Alembic is imported when there is something to do, because it takes longer
to import than a store takes to open.
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
    """Return the stored schema's version, None where there is nothing; change nothing.

    Raises:
        StoreRefused: it is no store of ours, or this program can't use that version: it is older than the
            first, or newer and more than added to.
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
    """Return whether a schema that `check` found is to be brought up; a newer one isn't."""
    return found is None or found in schema.REVISIONS[:-1]


def warn_if_newer(found: str | None, store: str) -> None:
    """Log a warning where this program uses a schema that a newer one has added to."""
    if found is not None and found not in schema.REVISIONS:
        log.warning(
            "the store's schema is newer, and this program may use it: it was only added to",
            store=store,
            schema=found,
            own=HEAD,
        )


def migrate(connection: Connection) -> None:
    """Bring the schema to this version, within the caller's transaction; a newer one stays."""
    if is_behind(check(connection)):
        _upgrade({"connection": connection})


def script(dialect: str) -> str:
    """Return all migrations as SQL, from an empty database on, each in a transaction of its own."""
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
    """Return the store's own facts; at its birth, write them."""
    facts = facts_of(connection)
    if "store_id" not in facts:
        _put_meta.run(connection, [("store_id", store_id), ("born_us", str(now_us))])
        facts = facts_of(connection)
    return facts


def facts_of(connection: Link) -> dict[str, str]:
    """Return the store's facts; empty: it was not created yet."""
    return {row[0]: row[1] for row in _meta.run(connection)}
