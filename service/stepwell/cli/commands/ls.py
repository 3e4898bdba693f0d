"""The command `stepwell ls`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.text import Text

from stepwell.cli import arguments, connect, options
from stepwell.cli.connect import connected
from stepwell.cli.exits import Exit
from stepwell.cli.view import describe
from stepwell.cli.view.terminal import put_json, put_rows, table
from stepwell.cli.view.text import ago, micros, note, one_line, short_id, span
from stepwell.runtime import SystemRuntime
from stepwell_client import BlockedKind, Execution, ExecutionStatus, Run, RunStatus, SyncClient

_GOAL_CHARS = 24
"""The length of a goal that is followed by what the run waits for, or why it failed."""

EXAMPLES = {"ls": "stepwell ls --status failed --label team=search"}


@connected
def ls(
    client: SyncClient,
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status", metavar="STATUS", help="Only runs that are running, failed …; may repeat."
        ),
    ] = None,
    pipeline: Annotated[
        str, typer.Option("--pipeline", metavar="NAME", help="Only runs of this pipeline.")
    ] = "",
    queue: Annotated[
        str, typer.Option("--queue", metavar="NAME", help="Only runs in this queue.")
    ] = "",
    label: options.Label = None,
    blocked_on: Annotated[
        list[str] | None,
        typer.Option(
            "--blocked-on", metavar="KIND", help="Only runs that wait for a worker, input, timer …"
        ),
    ] = None,
    forks_of: Annotated[
        str, typer.Option("--forks-of", metavar="RUN", help="Only forks of this run.")
    ] = "",
    child_of: Annotated[
        str, typer.Option("--child-of", metavar="RUN", help="Only child runs that it started.")
    ] = "",
    tree: Annotated[
        str,
        typer.Option(
            "--tree", metavar="RUN", help="Only child runs, at any depth, of the tree it is in."
        ),
    ] = "",
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, max=100_000, help="No more runs than this."
        ),
    ] = 30,
    json: options.Json = False,
) -> int:
    """List runs, newest first.

    Ids are shown short; every command takes them as they are shown.
    """
    statuses = [arguments.member(RunStatus, "--status", word) for word in status or ()]
    blocked = [arguments.member(BlockedKind, "--blocked-on", word) for word in blocked_on or ()]
    listing = client.runs(
        statuses=statuses,
        pipeline=pipeline,
        queue=queue,
        labels=connect.labels(label),
        blocked_on=blocked,
        parent_run_id=connect.run_id(client, forks_of) if forks_of else "",
        child_of=connect.run_id(client, child_of) if child_of else "",
        root_run_id=describe.root_id(connect.handle(client, tree).get()) if tree else "",
        page_size=min(limit + 1, 1_000),
    )
    runs = list(islice(listing, limit + 1))
    unknown = {} if json else _unknown(client, runs[:limit])
    more = len(runs) > limit
    if json:
        put_json({"runs": runs[:limit], "more": more})
    elif runs:
        _print(runs[:limit], unknown)
        if more:
            note(f"… and older ones: --limit {limit * 10}")
    else:
        note("no runs; start one: stepwell run --goal …")
    return Exit.DONE


def _unknown(client: SyncClient, runs: list[Run]) -> dict[str, Execution]:
    """Return, by run, an execution with an unknown outcome that it waits for."""
    executions: dict[str, Execution] = {}
    for run in runs:
        if run.blocked_on == BlockedKind.UNKNOWN_OUTCOME:
            for one in client.run(run.id).executions():
                if one.status == ExecutionStatus.UNKNOWN_OUTCOME:
                    executions[run.id] = one
                    break
    return executions


def _print(runs: list[Run], unknown: dict[str, Execution]) -> None:
    """Print a table whose columns are as wide as their cells; the goal gets the rest."""
    now_us = SystemRuntime().now_us()
    names = connect.short([run.id for run in runs])
    rows = table([])
    for title in ("RUN", "STATUS", "TASKS", "STARTED", "TOOK", "PIPELINE"):
        rows.add_column(title, no_wrap=True, justify="right" if title == "TOOK" else "left")
    rows.add_column("GOAL")
    for run in runs:
        counts = run.counts
        cause, style = describe.blocked(run, exact=True), "yellow"
        if run.id in unknown:
            cause = describe.unknown(unknown[run.id], now_us)
        elif run.status == RunStatus.FAILED:
            cause, style = describe.failure(run.failure), "red"
        # A long goal must not push the cause out of the line.
        goal = Text(no_wrap=True, overflow="ellipsis")
        goal.append(one_line(run.goal, _GOAL_CHARS) if cause else one_line(run.goal))
        if run.parent_run_id:
            goal.append(f"  (fork of {short_id(run.parent_run_id)})", style="dim")
        if run.child_of is not None:
            goal.append(f"  (child of {short_id(run.child_of.run_id)})", style="dim")
        if cause:
            goal.append(f"  ({cause})" if goal.plain else f"({cause})", style=style)
        rows.add_row(
            names[run.id],
            Text(describe.status(run), style=describe.STATUS_STYLES.get(run.status, "")),
            f"{counts.completed}/{counts.total}" if counts.total else "-",
            ago(now_us - micros(run.created_time)),
            span(describe.took_us(run, now_us)) if run.started_time else "-",
            one_line(run.pipeline, 24) or "-",
            goal,
        )
    put_rows(rows, "PIPELINE", "TOOK", "STARTED", "TASKS")
