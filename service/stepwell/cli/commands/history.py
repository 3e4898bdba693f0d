"""Commands for a run's past: the revisions of its plan, and its checkpoints."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import arguments, connect, options
from stepwell.cli.connect import connected
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.view import describe
from stepwell.cli.view.terminal import put_json, put_rows, table
from stepwell.cli.view.text import count, micros, moment, note, one_line, short_id
from stepwell_client import Checkpoint, PlanRevision, SyncClient
from stepwell_client.v1 import types_pb2

EXAMPLES = {
    "plans": "stepwell plans 3f2a9c1e",
    "checkpoints": "stepwell checkpoints 3f2a9c1e",
}
_FINGERPRINT_CHARS = 10


@connected
def plans(
    client: SyncClient,
    run: options.Run,
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
) -> int:
    """List the revisions of a run's plan.

    Plans with the same fingerprint are the same. What a plan carries over stays as it stood.
    """
    run_id = connect.run_id(client, run)
    if tasks_of:
        put_json({"tasks": [arguments.plan_task(one) for one in _tasks(client, run_id, tasks_of)]})
        return Exit.DONE
    plans = list(client.run(run_id).plans(with_tasks=True))
    if json:
        put_json({"plans": plans})
    elif plans:
        _print_plans(plans)
    else:
        note("no plan yet")
    return Exit.DONE


def _tasks(client: SyncClient, run_id: str, revision: int) -> list[types_pb2.TaskSpec]:
    """Return a plan's tasks with their whole definitions, listed as of the version that brought the plan."""
    plans = list(client.run(run_id).plans(with_tasks=True))
    if revision > len(plans):
        raise CliError(f"there is no plan {revision}; the run has {count(len(plans), 'plan')}")
    version = next(
        one.version for one in client.run(run_id).checkpoints() if one.run.plan_revision == revision
    )
    entries = client.run(run_id).tasks(full_specs=True, version=version)
    specs = {entry.id: entry.source.spec for entry in entries}
    return [specs[one.id] for one in plans[revision - 1].tasks]


def _print_plans(plans: list[PlanRevision]) -> None:
    rows = table(
        right=["PLAN", "ITERATION", "TASKS", "CARRIED"],
        left=["WHY", "FINGERPRINT", "WHEN"],
        wide="REASON",
    )
    for plan in plans:
        rows.add_row(
            str(plan.revision),
            str(plan.iteration),
            f"{len(plan.tasks):,}",
            f"{len(plan.carried):,}",
            plan.trigger.name.lower(),
            plan.fingerprint[:_FINGERPRINT_CHARS],
            moment(micros(plan.created_time)),
            one_line(plan.reason),
        )
    put_rows(rows, "FINGERPRINT", "ITERATION", "CARRIED", "WHEN")


@connected
def checkpoints(
    client: SyncClient,
    run: options.Run,
    json: options.Json = False,
) -> int:
    """List a run's named checkpoints.

    Its start, each plan, the end of each iteration, and its end. Each has a version, for
    `stepwell show --at` and `stepwell fork --at`.
    """
    run_id = connect.run_id(client, run)
    points = list(client.run(run_id).checkpoints())
    if json:
        put_json({"checkpoints": points})
        return Exit.DONE
    _print_checkpoints(points)
    note(f"go back to one: stepwell fork {short_id(run_id)} --at VERSION")
    return Exit.DONE


def _print_checkpoints(points: list[Checkpoint]) -> None:
    rows = table(right=["VERSION", "ITERATION"], left=["WHAT", "TASKS", "WHEN"], wide="WORDS")
    for one in points:
        rows.add_row(
            str(one.version),
            str(one.run.iteration),
            one.type.name.lower().replace("_", " "),
            describe.tasks(one.run),
            moment(micros(one.time)),
            one_line(one.message),
        )
    put_rows(rows, "ITERATION", "TASKS", "WHEN")
