"""Tables on narrow terminals: ids stay whole, and what matters least is left out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stepwell.cli.view.terminal import put_rows, table

QUESTION = "which of these many words is the one that was meant, and why not another one?"


def printed(width: int) -> list[list[str]]:
    """Return the words of each line of a table of this width."""
    rows = table(["RUN", "ID", "KIND", "ASKED"])
    rows.add_column("QUESTION")
    question = Text(QUESTION, no_wrap=True, overflow="ellipsis")
    rows.add_row("3f2a9c1e", "approval:task-1#1", "approval", "14s ago", question)
    return [line.split() for line in put_lines(rows, width, "KIND", "ASKED")]


def put_lines(rows: Table, width: int, *spare: str) -> list[str]:
    """Return the lines of a table of this width."""
    out = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    put_rows(rows, *spare, out=out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (100, ["RUN", "ID", "KIND", "ASKED", "QUESTION"]),
        (56, ["RUN", "ID", "ASKED", "QUESTION"]),
        (42, ["RUN", "ID", "QUESTION"]),
    ],
)
def test_columns_that_find_no_room_are_left_out_and_ids_stay_whole(
    width: int, titles: list[str]
) -> None:
    header, row = printed(width)

    assert header == titles
    assert row[:2] == ["3f2a9c1e", "approval:task-1#1"]
    assert row[-1].endswith("…")


def test_row_whose_ids_find_no_room_is_printed_as_lines() -> None:
    header_line, *lines = printed(24)

    assert header_line == ["RUN", "3f2a9c1e"]
    assert lines[0] == ["ID", "approval:task-"]
    assert lines[1] == ["1#1"]
    assert lines[2][:2] == ["QUESTION", "which"]


def test_cells_stay_whole_where_columns_were_left_out() -> None:
    rows = table(right=["PLAN", "TASKS"], left=["FINGERPRINT", "WHEN"], wide="REASON")
    rows.add_row("1", "6", "0123456789", "2026-11-24 13:38:45", "because")

    assert put_lines(rows, 50, "FINGERPRINT")[1].split() == [
        *("1", "6", "2026-11-24", "13:38:45", "because")
    ]


def test_last_column_is_left_out_where_it_is_empty() -> None:
    rows = table(["RUN", "WHEN"], wide="REASON")
    rows.add_row("3f2a9c1e", "2026-11-24 13:38:45", "")

    assert [line.split() for line in put_lines(rows, 31)] == [
        ["RUN", "WHEN"],
        ["3f2a9c1e", "2026-11-24", "13:38:45"],
    ]
