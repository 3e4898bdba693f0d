"""`stepwell stop`."""

from __future__ import annotations

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import put_json

EXAMPLE = "Example: stepwell stop 3f2a9c1e --reason 'good enough'"


def command(
    context: typer.Context,
    run: options.RunId,
    reason: options.Reason = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """End a run after the iteration in progress.

    What is planned is done, and the run comes to its result as after its last iteration. To end it at
    once, without a result: `stepwell cancel`.
    """
    with connect.client(context, target, token_file) as made:
        answer = made.stop(connect.run_id(made, run), reason=reason)
    if json:
        put_json(answer)
    else:
        said = "ends" if answer.changed else "was to end already"
        print(f"run {connect.name_of(answer.run)} {said} after iteration {answer.run.iteration}")
    return Exit.DONE
