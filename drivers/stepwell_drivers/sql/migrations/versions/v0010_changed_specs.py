"""0010: commits that change a run's specification."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
only_adds = True

INSERTED = "FROM unnest(new_run_specs) AS s WHERE keys[s.at] IS NOT NULL"
"""The end of the statement that inserts specifications, in the function of 0008."""
REPLACED = f"{INSERTED} ON CONFLICT (run_key) DO UPDATE SET spec = excluded.spec"


def upgrade() -> None:
    """Have Postgres's function replace a specification that is there; SQLite needs no function."""
    if op.get_context().dialect.name != "postgresql":
        return
    defined = "pg_get_functiondef('stepwell_commit_0008'::regproc)"
    statement = f"DO $do$ BEGIN EXECUTE replace({defined}, '{INSERTED};', '{REPLACED};'); END $do$"
    op.execute(statement.replace(":", "\\:"))
