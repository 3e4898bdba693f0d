"""`stepwell plans`."""

from __future__ import annotations

import typer
from rich.table import Table

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import document, note, put, put_json
from stepwell.cli.text import micros, moment, one_line
from stepwell_client.v1 import types_pb2

EXAMPLE = "Example: stepwell plans 3f2a9c1e"
_FINGERPRINT_CHARS = 10


def command(
    context: typer.Context,
    run: options.RunId,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """List the revisions of a run's plan.

    Plans with the same fingerprint are the same. What a plan carries over stays as it stood.
    """
    with connect.client(context, target, token_file) as made:
        plans = list(made.plans(connect.run_id(made, run), with_tasks=True))
    if json:
        put_json({"plans": [document(plan) for plan in plans]})
    elif plans:
        _print(plans)
    else:
        note("no plan yet")
    return Exit.DONE


def _print(plans: list[types_pb2.Plan]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("PLAN", "ITERATION", "TASKS", "CARRIED"):
        table.add_column(title, no_wrap=True, justify="right")
    for title in ("WHY", "FINGERPRINT", "WHEN"):
        table.add_column(title, no_wrap=True)
    table.add_column("REASON", overflow="fold")
    for plan in plans:
        trigger = types_pb2.PlanTrigger.Name(plan.trigger).removeprefix("PLAN_TRIGGER_").lower()
        table.add_row(
            str(plan.revision),
            str(plan.iteration),
            f"{len(plan.tasks):,}",
            f"{len(plan.carried):,}",
            trigger,
            plan.fingerprint[:_FINGERPRINT_CHARS],
            moment(micros(plan.created_time)),
            one_line(plan.reason),
        )
    put(table)
