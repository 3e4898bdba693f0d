"""`stepwell checkpoints`."""

from __future__ import annotations

import typer
from rich.table import Table

from stepwell.cli import connect, options, words
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import document, note, put, put_json
from stepwell.cli.text import micros, moment, one_line
from stepwell_client import EventType, word
from stepwell_client.v1 import orchestrator_pb2

EXAMPLE = "Example: stepwell checkpoints 3f2a9c1e"


def command(
    context: typer.Context,
    run: options.RunId,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """List a run's named checkpoints.

    Its start, each plan, the end of each iteration, and its end. Each has a version, for
    `stepwell show --at` and `stepwell fork --at`.
    """
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run)
        found = list(made.checkpoints(run_id))
    if json:
        put_json({"checkpoints": [document(one) for one in found]})
        return Exit.DONE
    _print(found)
    note(f"go back to one: stepwell fork {run_id[: connect.SHORT_CHARS]} --at VERSION")
    return Exit.DONE


def _print(found: list[orchestrator_pb2.Checkpoint]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("VERSION", "ITERATION"):
        table.add_column(title, no_wrap=True, justify="right")
    for title in ("WHAT", "TASKS", "WHEN"):
        table.add_column(title, no_wrap=True)
    table.add_column("WORDS", overflow="fold")
    for one in found:
        table.add_row(
            str(one.version),
            str(one.run.iteration),
            word(EventType, one.type).lower().replace("_", " "),
            words.tasks(one.run),
            moment(micros(one.time)),
            one_line(one.message),
        )
    put(table)
