"""0008: the first schema that is kept. Frozen: later versions change it by migrations of their own.

Its statements are files, one for each database, not imports: what `schema.py` and `views.py` become must not
change the past. Why each table and view is as it is stands there.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = None
only_adds = False

STATEMENTS = Path(__file__).parents[1] / "first"
"""The folder of the files; a blank line stands between statements, and in none."""


def upgrade() -> None:
    """Make the tables and the views; in Postgres, whose clock is the store's, the functions, too."""
    for file in sorted(STATEMENTS.glob(f"{op.get_context().dialect.name}*.sql")):
        for statement in file.read_text().split(";\n\n"):
            # A colon is a parameter's to SQLAlchemy.
            op.execute(statement.rstrip(";\n").replace(":", "\\:"))
