"""`stepwell cancel`."""

from __future__ import annotations

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import put_json

EXAMPLE = "Example: stepwell cancel 3f2a9c1e --reason 'wrong input'"


def command(
    context: typer.Context,
    run: options.RunId,
    reason: options.Reason = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Cancel a run for good.

    Its workers are told to stop. A cancelled run can't be resumed.
    """
    with connect.client(context, target, token_file) as made:
        answer = made.cancel(connect.run_id(made, run), reason=reason)
    if json:
        put_json(answer)
    else:
        said = "is cancelled" if answer.changed else "was cancelled already"
        print(f"run {connect.name_of(answer.run)} {said}")
    return Exit.DONE
