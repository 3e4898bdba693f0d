"""`stepwell watch`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, follow, options

EXAMPLE = "Example: stepwell watch 3f2a9c1e"


def command(
    context: typer.Context,
    run: options.RunId,
    after: Annotated[
        int,
        typer.Option(
            "--after", metavar="NUMBER", min=0, help="Print events after this number only."
        ),
    ] = 0,
    keep: options.Keep = False,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Follow a run that is there.

    Ends when the run has ended, waits for something or is paused, with the exit code that says which.
    Ctrl-C ends the watching; the run goes on.
    """
    with connect.client(context, target, token_file) as made:
        found = made.get(connect.run_id(made, run))
        return follow.follow(made, found, shown_after=after, keep=keep, json=json)
