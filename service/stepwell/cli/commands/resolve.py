"""`stepwell resolve`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, given, options
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.terminal import put_json
from stepwell_client import Done, ExecutionStatus, Failure, NotDone, SyncClient

EXAMPLE = "Example: stepwell resolve 3f2a9c1e task:charge#1 --done --result '\"paid\"'"


def command(
    context: typer.Context,
    run: options.RunId,
    execution: Annotated[
        str,
        typer.Argument(
            metavar="EXECUTION", help="The execution, or its task; see `stepwell show`."
        ),
    ],
    done: Annotated[
        bool | None,
        typer.Option("--done/--not-done", help="Whether its effect took place."),
    ] = None,
    result: Annotated[
        str | None,
        typer.Option("--result", metavar="JSON|@FILE", help="With --done: what it came to."),
    ] = None,
    failed: Annotated[
        str | None,
        typer.Option("--failed", metavar="WHY", help="With --done: it failed all the same."),
    ] = None,
    reason: options.Reason = "",
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Say what became of a task whose outcome is unknown.

    A task that may run only once was lost while it ran. With --done it is completed, with --not-done it
    is run again.
    """
    if done is None:
        raise CliError("say --done or --not-done: whether its effect took place")
    if not done and (result is not None or failed is not None):
        raise CliError("--result and --failed go with --done")
    if result is not None and failed is not None:
        raise CliError(
            "--result and --failed don't go together: it came to something, or it failed"
        )
    found: Done | NotDone | Failure = Done() if done else NotDone()
    if result is not None:
        found = Done(given.run_input(result, "--result"))
    if failed is not None:
        found = Failure(failed, kind="RESOLVED_AS_FAILED")
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run)
        execution_id = _execution(made, run_id, execution)
        answer = made.resolve(run_id, execution_id, found, reason=reason)
    if json:
        put_json(answer)
    else:
        said = "is settled" if answer.changed else "was settled already"
        print(f"{execution_id} of run {connect.name_of(answer.run)} {said}")
    return Exit.DONE


def _execution(made: SyncClient, run_id: str, name: str) -> str:
    """Return the execution that is meant; a task's name stands for its unknown one."""
    if "#" in name:
        return name
    for one in made.executions(run_id, task_id=name):
        if one.status == ExecutionStatus.UNKNOWN_OUTCOME:
            return one.execution_id
    raise CliError(f"task {name!r} of this run has no execution whose outcome is unknown")
