"""Commands that print what a run's steps wrote: logs and conversations."""

from __future__ import annotations

import sys
from typing import Annotated, Self

import typer

from stepwell.cli import connect, options
from stepwell.cli.completion import complete_task
from stepwell.cli.connect import advising, connected
from stepwell.cli.exits import Exit
from stepwell.cli.view.log_lines import log_head, log_text, message_head
from stepwell.cli.view.terminal import put_json
from stepwell.cli.view.text import lines, note, short_id
from stepwell_client import LogEntry, LogKind, SyncClient

EXAMPLES = {
    "logs": "stepwell logs 3f2a9c1e --task fetch --follow",
    "messages": "stepwell messages 3f2a9c1e ask",
}


@connected
def logs(
    client: SyncClient,
    run: options.Run,
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
) -> int:
    """Print what a run's steps wrote.

    Pieces that a step streams are shown one after the other, while it runs and later.
    """
    run_id = connect.run_id(client, run)
    printer = _LogPrinter()
    reading = client.run(run_id).logs(follow=follow, task_id=task, execution_id=execution)
    with advising(f"logs --follow {short_id(run_id)}"), printer, reading as entries:
        for entry in entries:
            if json:
                put_json({"entry": entry}, compact=True)
            else:
                printer.put(entry)
    if not json and not printer.used:
        connect.check_task(client, run_id, task)
        note("nothing was written; steps write with ctx.log(…) and ctx.stream(…)")
    return Exit.DONE


class _LogPrinter:
    """Prints entries, each with its execution; chunks of one step continue their line."""

    def __init__(self) -> None:
        self.used = False
        self._streaming = ""

    def put(self, entry: LogEntry) -> None:
        self.used = True
        if entry.kind == LogKind.CHUNK:
            if self._streaming != entry.execution_id:
                self.end()
                sys.stdout.write(log_head(entry))
                self._streaming = entry.execution_id
            sys.stdout.write(log_text(entry))
        else:
            self.end()
            sys.stdout.write(f"{log_head(entry)}{log_text(entry)}\n")
        sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End a line of chunks."""
        if self._streaming:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._streaming = ""


@connected
def messages(
    client: SyncClient,
    run: options.Run,
    task: Annotated[
        str,
        typer.Argument(
            help="Only this task's conversation.", show_default=False, autocompletion=complete_task
        ),
    ] = "",
    json: options.Json = False,
) -> int:
    """Print the conversations of a run's tasks."""
    run_id = connect.run_id(client, run)
    history = client.run(run_id).messages(task_id=task)
    if json:
        put_json({"messages": list(history)})
        return Exit.DONE
    printed = False
    for message in history:
        printed = True
        print(message_head(message))
        print(lines(message.content) + "\n", flush=True)
    if not printed:
        connect.check_task(client, run_id, task)
        note("no messages; steps append them with ctx.append(role, content)")
    return Exit.DONE
