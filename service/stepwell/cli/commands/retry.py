"""`stepwell retry`."""

from __future__ import annotations

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import put_json

EXAMPLE = "Example: stepwell retry 3f2a9c1e fetch-3"


def command(
    context: typer.Context,
    run: options.RunId,
    task: options.TaskId,
    reason: options.Reason = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Run a task again that failed or was skipped.

    What was skipped because of it runs again, too. A task that waits for its next attempt runs now. A
    run that has failed goes on with `stepwell resume`.
    """
    with connect.client(context, target, token_file) as made:
        answer = made.retry_task(connect.run_id(made, run), task, reason=reason)
    if json:
        put_json(answer)
    else:
        said = "runs again" if answer.changed else "was asked to run again before"
        print(f"task {task} of run {connect.name_of(answer.run)} {said}")
    return Exit.DONE
