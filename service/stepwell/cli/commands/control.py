"""Commands that steer a run or remove runs, each in one call."""

from __future__ import annotations

import json as json_lib
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, cast

import typer

from stepwell.cli import arguments, connect, options
from stepwell.cli.completion import complete_run
from stepwell.cli.connect import connected
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.signatures import adding
from stepwell.cli.view.terminal import put_json
from stepwell.cli.view.text import count, note, short_id
from stepwell_client import (
    Done,
    ExecutionStatus,
    Failure,
    NotDone,
    RunStatus,
    SyncClient,
    SyncRunHandle,
)
from stepwell_client.internal import CommandOptions

EXAMPLES = {
    "pause": "stepwell pause 3f2a9c1e --reason 'wait for the new model'",
    "cancel": "stepwell cancel 3f2a9c1e --reason 'wrong input'",
    "stop": "stepwell stop 3f2a9c1e --reason 'good enough'",
    "signal": "stepwell signal 3f2a9c1e note '\"look at the prices, too\"'",
    "retry": "stepwell retry 3f2a9c1e fetch-3",
    "skip": "stepwell skip 3f2a9c1e fetch-3 --dependents --reason 'the page is gone'",
    "resolve": "stepwell resolve 3f2a9c1e task:charge#1 --done --result '\"paid\"'",
    "rm": "stepwell rm 3f2a9c1e 91b0e2aa",
    "purge": "stepwell purge --older-than 30d --status succeeded --dry-run",
}


def steering(command: Callable[..., str]) -> Callable[..., int]:
    """Return a command that changes a run, with the options of each such command.

    The command gets the run's handle and what goes with its call, makes the call, and returns a sentence about it.
    """

    def run(client: SyncClient, run: str, *, json: bool, **arguments: Any) -> int:
        said = CommandOptions(
            reason=arguments.pop("reason"), on_behalf_of=arguments.pop("on_behalf_of")
        )
        return steer(client, run, partial(command, said=said, **arguments), json=json)

    first = {"client": SyncClient, "run": options.Run}
    last = {"reason": options.Reason, "on_behalf_of": options.For, "json": options.Json}
    return connected(adding(run, cast("Callable[..., int]", command), 2, first=first, last=last))


def steer(
    client: SyncClient, run: str, command: Callable[[SyncRunHandle], str], *, json: bool
) -> int:
    """Make a command's call for a run, by what was typed for its id, and print its sentence or its response."""
    steered = connect.handle(client, run)
    sentence = command(steered)
    if json:
        put_json(steered.response)
    else:
        print(sentence)
    return Exit.DONE


@steering
def pause(
    run: SyncRunHandle,
    said: CommandOptions,
) -> str:
    """Pause a run; work in flight may end.

    It goes on with `stepwell resume`.
    """
    run.pause(**said)
    state = "is paused" if run.changed else "was paused already"
    return f"run {short_id(run.id)} {state}"


@steering
def cancel(
    run: SyncRunHandle,
    said: CommandOptions,
) -> str:
    """Cancel a run for good.

    Its workers are told to stop. A cancelled run can't be resumed.
    """
    run.cancel(**said)
    state = "is cancelled" if run.changed else "was cancelled already"
    return f"run {short_id(run.id)} {state}"


@steering
def stop(
    run: SyncRunHandle,
    said: CommandOptions,
) -> str:
    """End a run after the iteration in progress.

    What is planned is done, and the run comes to its result as after its last iteration. To end it at
    once, without a result: `stepwell cancel`.
    """
    now = run.stop(**said)
    state = "ends" if run.changed else "was to end already"
    name, iteration = short_id(run.id), now.iteration
    return f"run {name} {state} after iteration {iteration}"


@steering
def signal(
    run: SyncRunHandle,
    said: CommandOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name.")],
    value: Annotated[
        str, typer.Argument(metavar="[JSON]", help="Its value: JSON, or else a text.")
    ] = "null",
) -> str:
    """Send a run a signal.

    A step that waits for the name takes it. Otherwise the run keeps it for the next step that does.
    """
    try:
        given = json_lib.loads(value)
    except ValueError:
        given = value
    run.signal(name, given, **said)
    return f"run {short_id(run.id)} has the signal {name}"


@steering
def retry(
    run: SyncRunHandle,
    said: CommandOptions,
    task: options.Task,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Make the calls of its journal again, but those that run only once."
        ),
    ] = False,
) -> str:
    """Run a task again that failed or was skipped.

    What was skipped because of it runs again, too. A task that waits for its next attempt runs now. A
    run that has failed goes on with `stepwell resume`.
    """
    run.retry_task(task, fresh=fresh, **said)
    state = "runs again" if run.changed else "was asked to run again before"
    return f"task {task} of run {short_id(run.id)} {state}"


@steering
def skip(
    run: SyncRunHandle,
    said: CommandOptions,
    task: options.Task,
    dependents: Annotated[
        bool, typer.Option("--dependents", help="Skip what depends on it, too, at any distance.")
    ] = False,
) -> str:
    """Skip a task, whatever it is doing.

    Its worker is told to let it go. What depends on it goes on and is shown that it was skipped.
    """
    run.skip_task(task, skip_dependents=dependents, **said)
    state = "is skipped" if run.changed else "was skipped already"
    return f"task {task} of run {short_id(run.id)} {state}"


@steering
def resolve(
    run: SyncRunHandle,
    said: CommandOptions,
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
    call: Annotated[
        str,
        typer.Option(
            "--call",
            metavar="KEY",
            help="The call within the step whose outcome is unknown; see `stepwell journal`.",
            show_default=False,
        ),
    ] = "",
) -> str:
    """Tell the outcome of a task whose outcome is unknown.

    A task that may run only once was lost while it ran. With --done it is completed, with
    --not-done it is run again. Of a call within a step, the result is the call's value, and the
    step goes on.
    """
    if done is None:
        raise CliError("say --done or --not-done: whether its effect took place")
    if not done and (result is not None or failed is not None):
        raise CliError("--result and --failed go with --done")
    if result is not None and failed is not None:
        raise CliError(
            "--result and --failed don't go together: it came to something, or it failed"
        )
    resolution: Done | NotDone | Failure = Done() if done else NotDone()
    if result is not None:
        resolution = Done(arguments.payload(result, "--result"))
    if failed is not None:
        resolution = Failure(failed, kind="RESOLVED_AS_FAILED")
    execution_id = _execution_id(run, execution)
    run.resolve(execution_id, resolution, call=call, **said)
    state = "is settled" if run.changed else "was settled already"
    return f"{execution_id} of run {short_id(run.id)} {state}"


def _execution_id(run: SyncRunHandle, name: str) -> str:
    """Return an execution's id; a task's name stands for its execution with an unknown outcome."""
    if "#" in name:
        return name
    for one in run.executions(task_id=name):
        if one.status == ExecutionStatus.UNKNOWN_OUTCOME:
            return one.id
    raise CliError(f"task {name!r} of this run has no execution whose outcome is unknown")


@connected
def rm(
    client: SyncClient,
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Ids, or their beginnings.", show_default=False, autocompletion=complete_run
        ),
    ],
    family: Annotated[
        bool, typer.Option("--family", help="With their forks, and the forks of these.")
    ] = False,
    on_behalf_of: options.For = "",
    json: options.Json = False,
) -> int:
    """Remove runs that have ended.

    With a run goes all that belongs to it: results, events, messages. A run that goes on is refused;
    cancel it first. So is one that has forks, which refer to its results: remove them first, or all with --family.
    """
    removed: list[str] = []
    # All ids are completed before the first run is removed: a typing error removes none.
    names = [connect.run_id(client, run) for run in runs]
    if family:
        names = [name for run_id in names for name in _with_forks(client, run_id)]
    for run_id in dict.fromkeys(names):
        client.run(run_id).delete(on_behalf_of=on_behalf_of)
        removed.append(run_id)
        if not json:
            print(f"run {short_id(run_id)} is removed")
    if json:
        put_json({"run_ids": removed})
    return Exit.DONE


def _with_forks(client: SyncClient, run_id: str) -> list[str]:
    """Return a run, its forks, their forks and so on, each behind its own forks."""
    names = [run_id]
    for name in names:  # It grows.
        names += [fork.id for fork in client.runs(parent_run_id=name)]
    return names[::-1]


@connected
def purge(
    client: SyncClient,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="SPAN",
            help="Only runs that ended at least so long ago: 90s, 30m, 12h, 30d.",
            show_default=False,
        ),
    ],
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only runs that succeeded, failed or are cancelled; may repeat.",
        ),
    ] = None,
    pipeline: options.Pipeline = "",
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="N", min=1, max=1_000, help="At most so many."),
    ] = 100,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing: say which it would be.")
    ] = False,
    on_behalf_of: options.For = "",
    json: options.Json = False,
) -> int:
    """Remove runs that ended some time ago.

    The oldest ends go first. A run goes after its forks; it stays as long as one of them does. A server does the
    same by itself where its settings say so: `retention` in stepwell.toml.
    """
    response = client.purge(
        statuses=[arguments.member(RunStatus, "--status", word) for word in status or ()],
        older_than=arguments.seconds("--older-than", older_than),
        pipeline=pipeline,
        max_runs=limit,
        validate_only=dry_run,
        on_behalf_of=on_behalf_of,
    )
    if json:
        put_json(response)
        return Exit.DONE
    for run_id in response.run_ids:
        print(f"run {short_id(run_id)} {'would be' if dry_run else 'is'} removed")
    if not response.run_ids:
        note("no run ended so long ago")
    elif not response.complete:
        note(f"these are the first {count(len(response.run_ids), 'run')}; there are more")
    return Exit.DONE
