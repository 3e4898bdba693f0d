"""Output: tables and lines for people, plain text for pipes, JSON for programs."""

from __future__ import annotations

import json as json_lib
import sys
from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from stepwell.cli.view.json_output import jsonable
from stepwell.cli.view.text import json_safe

PIPE_COLUMNS = 200
"""The width of lines that no terminal shows."""
_GAP = 2
"""The blanks between two columns."""
REST_CHARS_MIN = 12
"""The least width of a table's last column, which is cut or wraps."""


def console() -> Console:
    """Return the console of standard output, wide where it is no terminal."""
    made = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = PIPE_COLUMNS
    return made


def put(renderable: RenderableType, out: Console | None = None) -> None:
    """Print something of rich's; in a pipe without the blanks that fill its lines."""
    out = out or console()
    if out.is_terminal:
        out.print(renderable)
        return
    with out.capture() as captured:
        out.print(renderable)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def table(left: Sequence[str], right: Sequence[str] = (), wide: str | None = None) -> Table:
    """Return a table without lines: columns aligned right, then left, then one that wraps."""
    made = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for title in right:
        made.add_column(title, no_wrap=True, justify="right")
    for title in left:
        made.add_column(title, no_wrap=True)
    if wide is not None:
        made.add_column(wide, overflow="fold")
    return made


def put_rows(rows: Table, *spare: str, out: Console | None = None) -> None:
    """Print a table; where it finds no room, without these columns, the first-named left out first.

    The others keep their whole cells; the last column gets what is left of the line, and is left out where it is
    empty. Where even that finds no room, each row is printed as lines.
    """
    out = out or console()
    rest = rows.columns[-1]
    if not any(str(cell) for cell in rest.cells):
        _keep(rows, [one for one in rows.columns if one is not rest])
    for title in spare:
        if _least_width(rows, rest) <= out.width:
            break
        _keep(rows, [one for one in rows.columns if one.header != title])
    if _least_width(rows, rest) <= out.width:
        put(rows, out)
        return
    for number in range(rows.row_count):
        lines = Table.grid(padding=(0, _GAP, 0, 0))
        lines.add_column(style="bold", no_wrap=True)
        lines.add_column(overflow="fold")
        for one in rows.columns:
            cell = list(one.cells)[number]
            lines.add_row(one.header, Text(cell.plain if isinstance(cell, Text) else str(cell)))
        put(lines, out)


def _keep(rows: Table, columns: Sequence[Column]) -> None:
    """Keep these columns in the table and renumber them, because rich finds the last one by its number."""
    rows.columns = [replace(one, _index=number) for number, one in enumerate(columns)]


def _least_width(rows: Table, rest: Column) -> int:
    """Return the width of all columns; of the rest only its beginning is counted."""
    return sum(
        REST_CHARS_MIN
        if one.header == rest.header
        else max(cell_len(str(cell)) for cell in (one.header, *one.cells)) + _GAP
        for one in rows.columns
    )


def put_json(value: object, *, compact: bool = False) -> None:
    """Print a value with the records and messages in it as JSON; compact: as a line of a stream."""
    ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
    text = json_lib.dumps(jsonable(value), ensure_ascii=ascii_only, indent=None if compact else 2)
    print(json_safe(text), flush=True)
