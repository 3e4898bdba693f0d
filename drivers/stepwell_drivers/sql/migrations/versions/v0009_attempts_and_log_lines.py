"""0009: the views of executions and of log entries."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"
only_adds = True

STATEMENTS = Path(__file__).parents[1] / "attempts_and_log_lines"
"""The folder of the files, as in 0008."""


def upgrade() -> None:
    """Create the views."""
    file = STATEMENTS / f"{op.get_context().dialect.name}.sql"
    for statement in file.read_text().split(";\n\n"):
        op.execute(statement.rstrip(";\n").replace(":", "\\:"))
