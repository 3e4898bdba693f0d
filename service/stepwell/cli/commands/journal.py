"""The command `stepwell journal`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, options
from stepwell.cli.completion import complete_task
from stepwell.cli.connect import advising, connected
from stepwell.cli.exits import Exit
from stepwell.cli.view.log_lines import call_lines
from stepwell.cli.view.terminal import put_json
from stepwell.cli.view.text import note, short_id
from stepwell_client import SyncClient

EXAMPLES = {"journal": "stepwell journal 3f2a9c1e fetch --follow"}


@connected
def journal(
    client: SyncClient,
    run: options.Run,
    task: Annotated[
        str,
        typer.Argument(
            help="Only the calls of this task.", show_default=False, autocompletion=complete_task
        ),
    ] = "",
    execution: Annotated[
        str,
        typer.Option(
            "--execution",
            metavar="ID",
            help="Only what this attempt recorded, such as task:fetch#2.",
        ),
    ] = "",
    values: Annotated[
        bool, typer.Option("--values", help="Print what the calls came to, too.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what is recorded until the run has ended."),
    ] = False,
    json: options.Json = False,
) -> int:
    """List what the calls within a run's steps recorded.

    The next attempt at a step finds its calls there and doesn't make them again.
    """
    run_id = connect.run_id(client, run)
    found = False
    entries = client.run(run_id).journal(
        task_id=task, execution_id=execution, values=values, follow=follow
    )
    with advising(f"journal --follow {short_id(run_id)}"):
        for entry in entries:
            found = True
            if json:
                put_json({"entry": entry}, compact=True)
            else:
                print("\n".join(call_lines(entry, values=values)), flush=True)
    if not json and not found:
        note("nothing is recorded; steps make calls with ctx.call(…)")
    return Exit.DONE
