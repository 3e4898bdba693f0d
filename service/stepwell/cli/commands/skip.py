"""`stepwell skip`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import put_json

EXAMPLE = "Example: stepwell skip 3f2a9c1e fetch-3 --dependents --reason 'the page is gone'"


def command(
    context: typer.Context,
    run: options.RunId,
    task: options.TaskId,
    dependents: Annotated[
        bool, typer.Option("--dependents", help="Skip what depends on it, too, at any distance.")
    ] = False,
    reason: options.Reason = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Skip a task, whatever it is doing.

    Its worker is told to let it go. What depends on it goes on and is shown that it was skipped.
    """
    with connect.client(context, target, token_file) as made:
        answer = made.skip_task(
            connect.run_id(made, run), task, skip_dependents=dependents, reason=reason
        )
    if json:
        put_json(answer)
    else:
        said = "is skipped" if answer.changed else "was skipped already"
        print(f"task {task} of run {connect.name_of(answer.run)} {said}")
    return Exit.DONE
