"""`stepwell messages`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import document, note, put_json
from stepwell.cli.text import lines, one_line

EXAMPLE = "Example: stepwell messages 3f2a9c1e ask"


def command(
    context: typer.Context,
    run: options.RunId,
    task: Annotated[
        str, typer.Argument(help="Only this task's conversation.", show_default=False)
    ] = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Print the conversations of a run's tasks."""
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run)
        found = made.messages(run_id, task_id=task)
        if json:
            put_json({"messages": [document(message) for message in found]})
            return Exit.DONE
        printed = False
        for message in found:
            printed = True
            number = f" {message.number}" if message.number else ""
            whose = message.execution_id.removeprefix("task:")
            session = message.session.session_id
            said = f", session {session}" if session else ""
            print(one_line(f"{message.role}{number} ({whose}{said})"))
            print(lines(message.content) + "\n", flush=True)
        if not printed:
            connect.known_task(made, run_id, task)
            note("no messages; steps append them with ctx.append(role, content)")
    return Exit.DONE
