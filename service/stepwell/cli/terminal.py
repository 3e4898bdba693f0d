"""Output: tables and lines for people, plain text for pipes, JSON for programs."""

from __future__ import annotations

import json as json_lib
import sys
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from rich.console import Console, RenderableType
from rich.table import Table

from stepwell.cli.exits import Exit
from stepwell.cli.text import json_safe, lines

PIPE_COLUMNS = 200
"""The width of lines that no terminal shows."""


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
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in right:
        made.add_column(title, no_wrap=True, justify="right")
    for title in left:
        made.add_column(title, no_wrap=True)
    if wide is not None:
        made.add_column(wide, overflow="fold")
    return made


def note(message: str) -> None:
    """Print a remark to standard error."""
    print(lines(message), file=sys.stderr, flush=True)


def document(message: Message) -> dict[str, Any]:
    """Return a message by its JSON names, empty fields included."""
    return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)


def report(response: Message, sentence: str, *, json: bool) -> Exit:
    """Print a command's response as JSON, or what it did as a sentence."""
    if json:
        put_json(response)
    else:
        print(sentence)
    return Exit.DONE


def put_json(value: Message | dict[str, Any], *, compact: bool = False) -> None:
    """Print a document; compact: as a line of a stream."""
    value = document(value) if isinstance(value, Message) else value
    ascii_only = (sys.stdout.encoding or "").lower() != "utf-8"
    text = json_lib.dumps(value, ensure_ascii=ascii_only, indent=None if compact else 2)
    print(json_safe(text), flush=True)
