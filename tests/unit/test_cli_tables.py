"""Tables on narrow terminals: ids stay whole, and what matters least is left out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from stepwell.cli.terminal import put_rows, table

QUESTION = "which of these many words is the one that was meant, and why not another one?"


def printed(width: int) -> list[list[str]]:
    """Return the words of each line of a table of this width."""
    out = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    rows = table(["RUN", "INPUT", "KIND", "ASKED"])
    rows.add_column("QUESTION")
    question = Text(QUESTION, no_wrap=True, overflow="ellipsis")
    rows.add_row("3f2a9c1e", "approval:task-1#1", "approval", "14s ago", question)
    put_rows(rows, "KIND", "ASKED", out=out)
    assert isinstance(out.file, io.StringIO)
    return [line.split() for line in out.file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (100, ["RUN", "INPUT", "KIND", "ASKED", "QUESTION"]),
        (56, ["RUN", "INPUT", "ASKED", "QUESTION"]),
        (42, ["RUN", "INPUT", "QUESTION"]),
    ],
)
def test_columns_that_find_no_room_are_left_out_and_ids_stay_whole(
    width: int, titles: list[str]
) -> None:
    header, row = printed(width)

    assert header == titles
    assert row[:2] == ["3f2a9c1e", "approval:task-1#1"]
    assert row[-1].endswith("…")
