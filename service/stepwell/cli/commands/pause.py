"""`stepwell pause`."""

from __future__ import annotations

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import put_json

EXAMPLE = "Example: stepwell pause 3f2a9c1e --reason 'wait for the new model'"


def command(
    context: typer.Context,
    run: options.RunId,
    reason: options.Reason = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Pause a run; work in flight may end.

    It goes on with `stepwell resume`.
    """
    with connect.client(context, target, token_file) as made:
        answer = made.pause(connect.run_id(made, run), reason=reason)
    if json:
        put_json(answer)
    else:
        said = "is paused" if answer.changed else "was paused already"
        print(f"run {connect.name_of(answer.run)} {said}")
    return Exit.DONE
