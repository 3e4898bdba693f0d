"""`stepwell plans`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from stepwell.cli import connect, given, options
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.terminal import document, note, put, put_json
from stepwell.cli.text import count, micros, moment, one_line
from stepwell_client import SyncClient
from stepwell_client.v1 import types_pb2

EXAMPLE = "Example: stepwell plans 3f2a9c1e"
_FINGERPRINT_CHARS = 10


def command(
    context: typer.Context,
    run: options.RunId,
    tasks_of: Annotated[
        int | None,
        typer.Option(
            "--tasks-of",
            metavar="PLAN",
            min=1,
            show_default=False,
            help="Print this plan's tasks as JSON, as `run --plan` and `fork --plan` take them.",
        ),
    ] = None,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """List the revisions of a run's plan.

    Plans with the same fingerprint are the same. What a plan carries over stays as it stood.
    """
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run)
        if tasks_of:
            put_json({"tasks": [given.plan_task(one) for one in _tasks(made, run_id, tasks_of)]})
            return Exit.DONE
        plans = list(made.plans(run_id, with_tasks=True))
    if json:
        put_json({"plans": [document(plan) for plan in plans]})
    elif plans:
        _print(plans)
    else:
        note("no plan yet")
    return Exit.DONE


def _tasks(made: SyncClient, run_id: str, revision: int) -> list[types_pb2.TaskSpec]:
    """Return a plan's tasks, whole: they are listed so as of the version that brought the plan."""
    plans = list(made.plans(run_id, with_tasks=True))
    if revision > len(plans):
        raise CliError(f"there is no plan {revision}; the run has {count(len(plans), 'plan')}")
    version = next(
        one.version for one in made.checkpoints(run_id) if one.run.plan_revision == revision
    )
    entries = made.tasks(run_id, full_specs=True, version=version)
    specs = {entry.task.task_id: entry.spec for entry in entries}
    return [specs[one.task_id] for one in plans[revision - 1].tasks]


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
