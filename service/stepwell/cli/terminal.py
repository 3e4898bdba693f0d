"""Where output goes: a console that knows whether people or programs read it, and JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from rich.console import Console, RenderableType

from stepwell.cli.text import json_safe, lines

PIPE_COLUMNS = 200
"""Lines that no terminal shows need not fit one."""


def console() -> Console:
    """Return the console of standard output, wide where it is no terminal."""
    made = Console(highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = PIPE_COLUMNS
    return made


def put(what: RenderableType, out: Console | None = None) -> None:
    """Print it; in a pipe without the blanks that fill its lines."""
    out = out or console()
    if out.is_terminal:
        out.print(what)
        return
    with out.capture() as captured:
        out.print(what)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()), flush=True)


def note(message: str) -> None:
    """Say something beside the output, to standard error."""
    print(lines(message), file=sys.stderr, flush=True)


def document(message: Message) -> dict[str, Any]:
    """Return a message by its JSON names, with the fields that are empty too."""
    return json_format.MessageToDict(message, always_print_fields_with_no_presence=True)


def put_json(value: Message | dict[str, Any], *, compact: bool = False) -> None:
    """Print a document; compact: as a line of a stream."""
    made = document(value) if isinstance(value, Message) else value
    text = json.dumps(made, ensure_ascii=False, indent=None if compact else 2)
    print(json_safe(text), flush=True)
