"""`stepwell logs`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import document, note, put_json
from stepwell.cli.text import lines, micros, moment, one_line
from stepwell_client import LogKind, Unavailable
from stepwell_client.v1 import types_pb2

EXAMPLE = "Example: stepwell logs 3f2a9c1e --task fetch --follow"
_GOES_ON = "the run goes on; follow its log again: stepwell logs --follow "


def command(
    context: typer.Context,
    run: options.RunId,
    task: Annotated[
        str, typer.Option("--task", metavar="ID", help="Only what attempts at this task wrote.")
    ] = "",
    execution: Annotated[
        str,
        typer.Option(
            "--execution", metavar="ID", help="Only what this attempt wrote, such as task:fetch#2."
        ),
    ] = "",
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what is written until the run has ended."),
    ] = False,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Print what a run's steps wrote.

    Pieces that a step streams are shown while it runs; once it has completed its result stands for them.
    """
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run)
        paper = _Paper()
        try:
            with made.logs(run_id, follow=follow, task_id=task, execution_id=execution) as entries:
                for entry in entries:
                    if json:
                        put_json({"entry": document(entry)}, compact=True)
                    else:
                        paper.put(entry)
        except KeyboardInterrupt:
            paper.end()
            note(_GOES_ON + run_id[:8])
            return Exit.INTERRUPTED
        except Unavailable:
            paper.end()
            note(_GOES_ON + run_id[:8])
            raise
        paper.end()
        if not json and not paper.used:
            connect.known_task(made, run_id, task)
            note("nothing was written; steps write with ctx.log(…) and ctx.stream(…)")
    return Exit.DONE


class _Paper:
    """Lines, each with who wrote it; pieces of one step go on in their line."""

    def __init__(self) -> None:
        self.used = False
        self._streaming = ""

    def put(self, entry: types_pb2.LogEntry) -> None:
        self.used = True
        if entry.kind == LogKind.CHUNK:
            if self._streaming != entry.execution_id:
                self.end()
                sys.stdout.write(_head(entry))
                self._streaming = entry.execution_id
            sys.stdout.write(lines(entry.text))
        else:
            self.end()
            level = "" if entry.level == "INFO" else f"{one_line(entry.level)}: "
            sys.stdout.write(f"{_head(entry)}{level}{lines(entry.text)}\n")
        sys.stdout.flush()

    def end(self) -> None:
        """End a line that pieces began."""
        if self._streaming:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._streaming = ""


def _head(entry: types_pb2.LogEntry) -> str:
    clock = moment(micros(entry.written_time)).rpartition(" ")[2]
    return f"{clock}  {one_line(entry.execution_id.removeprefix('task:'))}  "
