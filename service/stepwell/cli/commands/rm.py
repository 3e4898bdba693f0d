"""`stepwell rm`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import put_json

EXAMPLE = "Example: stepwell rm 3f2a9c1e 91b0e2aa"


def command(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Argument(help="Ids, or their beginnings.", show_default=False),
    ],
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Remove runs that have ended.

    With a run goes all that belongs to it: results, events, messages. A run that goes on is refused;
    cancel it first.
    """
    removed: list[str] = []
    with connect.client(context, target, token_file) as made:
        # All of them are looked up before the first is removed: a typing error removes none.
        for run_id in dict.fromkeys([connect.run_id(made, run) for run in runs]):
            made.delete(run_id)
            removed.append(run_id)
            if not json:
                print(f"run {run_id[: connect.SHORT_CHARS]} is removed")
    if json:
        put_json({"removed": removed})
    return Exit.DONE
