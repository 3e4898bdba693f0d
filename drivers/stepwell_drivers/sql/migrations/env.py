"""Alembic's environment: a connection of the store that is being opened, or the dialect of a script."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import text

from stepwell_drivers.sql.migrate import LEAST

PUT_LEAST = (
    "INSERT INTO meta (key, value) VALUES ('{key}', '{value}')"
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


def note_least(
    ctx: MigrationContext, step: MigrationInfo, heads: Collection[Any], run_args: Mapping[str, Any]
) -> None:
    """Write the oldest version whose programs may use the schema: this one, unless it only adds.

    A migration that only adds sets `only_adds`: the previous version's statements find everything
    that they name, and write rows that this version understands.
    """
    del heads, run_args
    for revision in step.revision_map.get_revisions(step.up_revision_ids):
        module: Any = getattr(revision, "module")  # noqa: B009 - a script's, which Alembic types as a Revision
        if not module.only_adds:
            put = PUT_LEAST.format(key=LEAST, value=module.revision)
            ctx.execute(text(put))


attributes = context.config.attributes
if context.is_offline_mode():
    context.configure(
        dialect_name=attributes["dialect"],
        transactional_ddl=True,
        transaction_per_migration=True,
        on_version_apply=note_least,
    )
else:
    context.configure(
        connection=attributes["connection"],
        # The caller's transaction includes everything or nothing.
        transactional_ddl=True,
        on_version_apply=note_least,
    )
with context.begin_transaction():
    context.run_migrations()
