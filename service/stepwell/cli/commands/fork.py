"""`stepwell fork`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, follow, given, options
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.terminal import note, put_json
from stepwell.cli.text import count, one_line
from stepwell_client import ForkIncompatible, ForkMode, ForkOptions
from stepwell_client.v1 import orchestrator_pb2

EXAMPLE = "Example: stepwell fork 3f2a9c1e --at 12 --goal 'the same, in French'"

_At = Annotated[
    int,
    typer.Option(
        "--at",
        metavar="VERSION",
        min=0,
        help="As the run stood then; `stepwell checkpoints` names versions. Default: the last.",
    ),
]
_Goal = Annotated[
    str | None, typer.Option("--goal", "-g", metavar="TEXT", help="What the fork is to reach.")
]
_Input = Annotated[
    str | None,
    typer.Option(
        "--input", "-i", metavar="JSON|@FILE", help="What it works on; @- is standard input."
    ),
]
_Plan = Annotated[
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
    bool, typer.Option("--dry-run", help="Say what would be kept and run again; start nothing.")
]
_Queue = Annotated[
    str, typer.Option("--queue", "-q", metavar="NAME", help="Where its steps wait for workers.")
]
_Iterations = Annotated[
    int | None, typer.Option("--max-iterations", metavar="N", min=1, help="It ends after so many.")
]
_Parallel = Annotated[
    int | None, typer.Option("--max-parallel", metavar="N", min=1, help="Tasks at once.")
]
_Priority = Annotated[
    int | None,
    typer.Option("--priority", metavar="N", min=-100, max=100, help="Higher goes first."),
]
_RequestId = Annotated[
    str,
    typer.Option(
        "--request-id", metavar="ID", help="The same id and request find the same fork again."
    ),
]


def command(
    context: typer.Context,
    run: options.RunId,
    at: _At = 0,
    goal: _Goal = None,
    given_input: _Input = None,
    plan: _Plan = None,
    patch: _Patch = False,
    replan: _Replan = False,
    dry_run: _DryRun = False,
    label: options.Label = None,
    queue: _Queue = "",
    max_iterations: _Iterations = None,
    max_parallel: _Parallel = None,
    priority: _Priority = None,
    budget: options.Spend = None,
    request_id: _RequestId = "",
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Print its id and don't follow it.")
    ] = False,
    keep: options.Keep = False,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Start a run from a version of another one, and follow it.

    What was completed there is kept and not done again. What isn't named stays as it was. The plan's
    file is that of `stepwell run --plan`.
    """
    wanted = ForkOptions(
        version=at,
        mode=ForkMode.PATCH if patch else ForkMode.STRICT,
        replan=replan,
        labels=connect.labels(label),
        queue=queue,
        request_id=request_id,
    )
    if goal is not None:
        wanted["goal"] = goal
    if given_input is not None:
        wanted["input"] = given.run_input(given_input)
    if (spend := given.budget(budget or ())) is not None:
        wanted["budget"] = spend
    if plan is not None:
        wanted["plan"] = given.plan(plan)
    if max_iterations is not None:
        wanted["max_iterations"] = max_iterations
    if max_parallel is not None:
        wanted["max_parallel"] = max_parallel
    if priority is not None:
        wanted["priority"] = priority
    with connect.client(context, target, token_file) as made:
        parent = connect.run_id(made, run)
        if dry_run:
            return _say(made.check_fork(parent, **wanted), json=json)
        try:
            answer = made.fork(parent, **wanted)
        except ForkIncompatible as error:
            raise CliError(_unfit(error), Exit.FAILED) from error
        name = connect.name_of(answer.run)
        if not json:
            note(_words(answer, name))
        if not detach:
            return follow.follow(made, answer.run, keep=keep, json=json)
    if json:
        put_json(answer)
    else:
        print(answer.run.spec.run_id)
        note(f"follow it: stepwell watch {name}")
    return Exit.DONE


def _words(answer: orchestrator_pb2.ForkRunResponse, name: str) -> str:
    if not answer.created:
        return f"this request has made fork {name} before"
    spec = answer.run.spec
    kept = count(len(answer.kept_task_ids), "result")
    said = f"{name} is a fork of {spec.parent_run_id[:8]} at version {spec.parent_version}"
    return f"{said}: {kept} kept, {len(answer.rerun_task_ids):,} to be done again"


def _unfit(error: ForkIncompatible) -> str:
    found = [one_line(f"{one.field}: {one.description}") for one in error.violations]
    advice = "see all of it with --dry-run; --patch allows another plan"
    return "; ".join(["the fork doesn't fit", *found[:3], advice])


def _say(answer: orchestrator_pb2.ForkRunResponse, *, json: bool) -> int:
    code = Exit.FAILED if answer.violations else Exit.DONE
    if json:
        put_json(answer)
        return code
    for title, ids in (
        ("kept", answer.kept_task_ids),
        ("done again", answer.rerun_task_ids),
    ):
        print(f"{title}: {one_line(', '.join(ids)) or '-'}")
    for one in answer.violations:
        kind = orchestrator_pb2.ForkViolationKind.Name(one.kind)
        kind = kind.removeprefix("FORK_VIOLATION_KIND_").lower().replace("_", " ")
        where = one_line(one.field or one.task_id)
        print(f"{kind}: {where}: {one_line(one.description)}")
    return code
