"""0008: Postgres' function that records takes no late copy of what was dropped since. The one before it stays.

Its statements are a file, as those of 0007. In SQLite, whose programs look themselves, nothing changes.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"
only_adds = True

STATEMENTS = Path(__file__).parents[1] / "second" / "postgresql_record.sql"


def upgrade() -> None:
    """Make the function, beside that of the programs before."""
    if op.get_context().dialect.name != "postgresql":
        return
    for statement in STATEMENTS.read_text().split(";\n\n"):
        # A colon is a parameter's to SQLAlchemy.
        op.execute(statement.rstrip(";\n").replace(":", "\\:"))
