"""The command `stepwell fork`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import arguments, connect, options
from stepwell.cli.commands.start import detached
from stepwell.cli.connect import connected
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.view import describe
from stepwell.cli.view.follow import follow
from stepwell.cli.view.terminal import put_json
from stepwell.cli.view.text import count, note, one_line, short_id
from stepwell_client import ForkCheck, ForkMode, Run, SyncClient, SyncRunHandle
from stepwell_client.errors import ForkIncompatible
from stepwell_client.internal import ForkOptions
from stepwell_client.v1 import orchestrator_pb2

EXAMPLES = {"fork": "stepwell fork 3f2a9c1e --at 12 --goal 'the same, in French'"}

_Version = Annotated[
    int,
    typer.Option(
        "--at",
        metavar="VERSION",
        min=0,
        help="As the run stood then; `stepwell checkpoints` names versions. Default: the last.",
    ),
]
_OtherPlan = Annotated[
    str | None,
    typer.Option(
        "--plan", metavar="FILE", help="Tasks in JSON, in the place of the plan in force."
    ),
]
_Patch = Annotated[
    bool,
    typer.Option(
        "--patch/--strict",
        help="Whether the plan may be another one: changed tasks run again, and what is built on them.",
    ),
]
_Replan = Annotated[
    bool, typer.Option("--replan", help="Ask for another plan before anything else is done.")
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be kept and done; start nothing.")
]
_ForkPriority = Annotated[
    int | None,
    typer.Option("--priority", metavar="N", min=-100, max=100, help="Higher goes first."),
]
_ForkRequestId = Annotated[
    str,
    typer.Option(
        "--request-id", metavar="ID", help="The same id and request find the same fork again."
    ),
]


@connected
def fork(
    client: SyncClient,
    run: options.Run,
    at: _Version = 0,
    goal: Annotated[
        str | None, typer.Option("--goal", "-g", metavar="TEXT", help="What the fork is to reach.")
    ] = None,
    run_input: options.RunPayload = None,
    plan: _OtherPlan = None,
    patch: _Patch = False,
    replan: _Replan = False,
    dry_run: _DryRun = False,
    label: options.Label = None,
    queue: Annotated[
        str, typer.Option("--queue", "-q", metavar="NAME", help="Where its steps wait for workers.")
    ] = "",
    max_iterations: options.MaxIterations = None,
    max_parallel: options.MaxParallel = None,
    priority: _ForkPriority = None,
    worker_version: options.WorkerVersion = "",
    reflect_on: options.ReflectOn = None,
    thread: options.Thread = "",
    on_busy: options.Busy = "enqueue",
    budget: options.Spend = None,
    request_id: _ForkRequestId = "",
    detach: options.Detach = False,
    keep: options.Keep = False,
    json: options.Json = False,
) -> int:
    """Start a run from a version of another one, and follow it.

    What was completed there is kept and not done again, with another goal or input too: to do it again, fork
    a version before it (--at). What isn't named stays as it was. The plan's file is that of
    `stepwell run --plan`.
    """
    wanted = ForkOptions(
        version=at,
        mode=ForkMode.PATCH if patch else ForkMode.STRICT,
        replan=replan,
        labels=connect.labels(label),
        queue=queue,
        worker_version=worker_version,
        reflect_on=reflect_on or (),
        thread=thread,
        on_busy=on_busy,
        request_id=request_id,
    )
    if goal is not None:
        wanted["goal"] = goal
    if run_input is not None:
        wanted["input"] = arguments.payload(run_input)
    if (limits := arguments.budget(budget or ())) is not None:
        wanted["budget"] = limits
    if plan is not None:
        wanted["plan"] = arguments.plan(plan)
    if max_iterations is not None:
        wanted["max_iterations"] = max_iterations
    if max_parallel is not None:
        wanted["max_parallel"] = max_parallel
    if priority is not None:
        wanted["priority"] = priority
    parent = connect.handle(client, run)
    if dry_run:
        return _print_check(parent.check_fork(**wanted), json=json)
    try:
        made = parent.fork(**wanted)
    except ForkIncompatible as error:
        raise CliError(_incompatible(error), Exit.FAILED) from error
    if not json:
        note(_summary(made))
        for warning in made.warnings:
            note(f"note: {one_line(warning)}")
    if not detach:
        return follow(client, made.snapshot or made.get(), keep=keep, json=json)
    return detached(made, json=json)


def _summary(fork: SyncRunHandle) -> str:
    name, did = short_id(fork.id), fork.response
    assert isinstance(did, orchestrator_pb2.ForkRunResponse)
    if not fork.created:
        return f"this request has made fork {name} before"
    kept = count(did.kept, "result")
    return (
        f"{name} is a fork of {describe.parent(fork.snapshot or Run())}: {kept} kept, {did.rerun:,} to be done"
        f" again, {did.pending:,} still to do"
    )


def _incompatible(error: ForkIncompatible) -> str:
    violations = [one_line(f"{one.field}: {one.description}") for one in error.violations]
    advice = "see all of it with --dry-run; --patch allows another plan"
    return "; ".join(["the fork doesn't fit", *violations[:3], advice])


def _print_check(check: ForkCheck, *, json: bool) -> int:
    code = Exit.FAILED if check.violations else Exit.DONE
    if json:
        put_json(check)
        return code
    for title, number, ids in (
        ("kept", check.kept, check.kept_task_ids),
        ("done again", check.rerun, check.rerun_task_ids),
        ("still to do", check.pending, check.pending_task_ids),
    ):
        more = ", …" if number > len(ids) else ""
        print(f"{title} ({number:,}): {one_line(', '.join(ids)) or '-'}{more}")
    for warning in check.warnings:
        print(f"note: {one_line(warning)}")
    for one in check.violations:
        kind = one.kind.name.lower().replace("_", " ")
        where = one_line(one.field or one.task_id)
        print(f"{kind}: {where}: {one_line(one.description)}")
    return code
