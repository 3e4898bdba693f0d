"""The command `stepwell budget`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from stepwell.cli import arguments, connect, options
from stepwell.cli.connect import connected
from stepwell.cli.exits import Exit
from stepwell.cli.view import describe
from stepwell.cli.view.terminal import put, put_json, table
from stepwell.cli.view.text import micros, short_id, span, span_us
from stepwell.runtime import SystemRuntime
from stepwell_client import Budget, Run, SyncClient

EXAMPLES = {"budget": "stepwell budget 3f2a9c1e --tokens-out 200000 --cost 2.50"}

_MICROS = 1_000_000


@connected
def budget(
    client: SyncClient,
    run: options.Run,
    tokens_in: Annotated[
        int,
        typer.Option("--tokens-in", metavar="N", min=0, help="Input tokens.", show_default=False),
    ] = 0,
    tokens_out: Annotated[
        int,
        typer.Option("--tokens-out", metavar="N", min=0, help="Output tokens.", show_default=False),
    ] = 0,
    cost: Annotated[
        float,
        typer.Option(
            "--cost", metavar="AMOUNT", min=0, help="In units of currency.", show_default=False
        ),
    ] = 0.0,
    tasks: Annotated[
        int,
        typer.Option("--tasks", metavar="N", min=0, help="Tasks begun.", show_default=False),
    ] = 0,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations", metavar="N", min=0, help="Iterations begun.", show_default=False
        ),
    ] = 0,
    wall: Annotated[
        str,
        typer.Option(
            "--wall",
            metavar="SPAN",
            help="Time since the first lease: 90s, 30m, 12h.",
            show_default=False,
        ),
    ] = "",
    resume: Annotated[
        bool,
        typer.Option("--resume/--no-resume", help="Whether a run paused for its budget goes on."),
    ] = True,
    reason: options.Reason = "",
    on_behalf_of: options.For = "",
    json: options.Json = False,
) -> int:
    """Show what a run has used of its budget, or raise its limits.

    Options are new limits, not additions; the others stay. A run that is paused for its budget goes
    on, if that is enough.
    """
    more = Budget(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost_micros=round(cost * _MICROS),
        tasks=tasks,
        iterations=iterations,
        wall=arguments.seconds("--wall", wall) if wall else None,
    )
    handle = connect.handle(client, run)
    if more == Budget():
        now = handle.get()
    else:
        now = handle.raise_budget(more, resume=resume, reason=reason, on_behalf_of=on_behalf_of)
    if json:
        put_json(handle.response or {"run": now})
        return Exit.DONE
    if handle.response is not None:
        state = "may use up more" if handle.changed else "was allowed as much before"
        print(f"run {short_id(handle.id)} {state}; it is {now.status}")
    put(_table(now))
    return Exit.DONE


def _table(run: Run) -> Table:
    """Return a table of the budget's parts: used, limit and rest."""
    rows = table(["PART"])
    for title in ("USED", "LIMIT", "LEFT"):
        rows.add_column(title, no_wrap=True, justify="right")
    limits, usage = run.budget, run.usage
    begun = run.iteration - run.iterations_before
    counts = (
        ("input tokens", usage.input_tokens, limits.input_tokens),
        ("output tokens", usage.output_tokens, limits.output_tokens),
        ("tasks", run.tasks_used, limits.tasks),
        # The iteration after the last allowed one is entered, but dispatches nothing.
        ("iterations", min(begun, limits.iterations or begun), limits.iterations),
    )
    for name, used, limit in counts:
        left = f"{max(0, limit - used):,}" if limit else "-"
        rows.add_row(name, f"{used:,}", f"{limit:,}" if limit else "-", left)
    used, limit = usage.cost_micros, limits.cost_micros
    left = describe.cost(max(0, limit - used)) if limit else "-"
    rows.add_row("cost", describe.cost(used), describe.cost(limit) if limit else "-", left)
    _add_wall(rows, run)
    return rows


def _add_wall(rows: Table, run: Run) -> None:
    began, ended = micros(run.started_time), micros(run.ended_time)
    limit_us = span_us(run.budget.wall)
    used_us = (ended or SystemRuntime().now_us()) - began if began else 0
    left = span(max(0, limit_us - used_us)) if limit_us else "-"
    rows.add_row("wall time", span(used_us), span(limit_us) if limit_us else "-", left)
