"""Alembic's environment: the connection comes from the store that is being opened, never from a file."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    # The caller's transaction: all of it, or nothing.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
