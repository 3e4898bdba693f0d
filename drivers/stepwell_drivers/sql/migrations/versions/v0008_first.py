"""0008: the first schema that is kept. Frozen: later versions change it by migrations of their own.

Its statements are in files, one for each database, instead of imports, because later changes of
`schema.py` and `views.py` must not change this version. The reasons for each table and view are
given there.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = None
only_adds = False

STATEMENTS = Path(__file__).parents[1] / "first"
"""The folder of the files; blank lines separate statements and occur nowhere else."""


def upgrade() -> None:
    """Create the tables and views; in Postgres also the functions."""
    for file in sorted(STATEMENTS.glob(f"{op.get_context().dialect.name}*.sql")):
        for statement in file.read_text().split(";\n\n"):
            # SQLAlchemy takes a colon as the start of a parameter.
            op.execute(statement.rstrip(";\n").replace(":", "\\:"))
