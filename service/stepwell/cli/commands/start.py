"""Commands that start runs or make them go on, and follow them."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import arguments, connect, describe, options
from stepwell.cli.connect import connected
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.follow import follow
from stepwell.cli.terminal import put_json
from stepwell.cli.text import count, note, one_line, short_id
from stepwell_client import ForkIncompatible, ForkMode, StepKind
from stepwell_client.toolkit import ForkOptions, StartOptions, SyncMessageClient
from stepwell_client.v1 import orchestrator_pb2

EXAMPLES = {
    "run": "stepwell run --pipeline survey --goal 'survey the tree' --input '{\"dir\": \".\"}'",
    "fork": "stepwell fork 3f2a9c1e --at 12 --goal 'the same, in French'",
    "resume": "stepwell resume 3f2a9c1e",
    "watch": "stepwell watch 3f2a9c1e",
}
_STAGES = {"reflect": StepKind.REFLECT, "synthesize": StepKind.SYNTHESIZE}


_NewPlan = Annotated[
    str | None,
    typer.Option("--plan", metavar="FILE", help="Tasks in JSON: no plan is asked for."),
]
_Stages = Annotated[
    list[str] | None,
    typer.Option(
        "--stage", metavar="STAGE", help="With --plan: reflect, synthesize; may be given again."
    ),
]
_RunQueue = Annotated[
    str,
    typer.Option(
        "--queue",
        "-q",
        metavar="NAME",
        help="Where its steps wait for workers. Default: the pipeline's name.",
    ),
]
_RunPriority = Annotated[
    int,
    typer.Option(
        "--priority", metavar="N", min=-100, max=100, help="Higher goes first in its queue."
    ),
]
_KeepOrWait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Wait for a server that is coming up, and go on following while the run waits for something"
        " or is paused.",
    ),
]
_RunRequestId = Annotated[
    str,
    typer.Option(
        "--request-id", metavar="ID", help="The same id and request find the same run again."
    ),
]
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
def run(
    client: SyncMessageClient,
    goal: Annotated[
        str, typer.Option("--goal", "-g", metavar="TEXT", help="What it is to reach.")
    ] = "",
    run_input: options.RunInput = None,
    plan: _NewPlan = None,
    stage: _Stages = None,
    pipeline: Annotated[
        str, typer.Option("--pipeline", "-p", metavar="NAME", help="What it is an instance of.")
    ] = "",
    queue: _RunQueue = "",
    label: options.Label = None,
    max_iterations: options.MaxIterations = None,
    max_parallel: options.MaxParallel = None,
    priority: _RunPriority = 0,
    worker_version: options.WorkerVersion = "",
    budget: options.Spend = None,
    request_id: _RunRequestId = "",
    detach: options.Detach = False,
    keep: _KeepOrWait = False,
    json: options.Json = False,
) -> int:
    """Start a run and follow it.

    Ends when the run has ended, waits for something or is paused, with the exit code that says which.
    Ctrl-C ends the watching; the run goes on.

    A plan is a list of tasks, or an object with `tasks`: {"id": "b", "type": "count", "depends_on":
    ["a"], "input": {"n": 1}}. The other fields are those of TaskSpec in the protocol.
    """
    if not (goal or pipeline or queue) and run_input is None and plan is None:
        raise CliError("give the run something to do: --goal TEXT, --input JSON or --plan FILE")
    wanted = StartOptions(
        pipeline=pipeline,
        queue=queue,
        labels=connect.labels(label),
        priority=priority,
        worker_version=worker_version,
        request_id=request_id,
    )
    if (limits := arguments.budget(budget or ())) is not None:
        wanted["budget"] = limits
    if run_input is not None:
        wanted["input"] = arguments.payload(run_input)
    if plan is not None:
        wanted["plan"] = arguments.plan(plan)
    if stage:
        wanted["stages"] = _stages(stage)
    if max_iterations is not None:
        wanted["max_iterations"] = max_iterations
    if max_parallel is not None:
        wanted["max_parallel"] = max_parallel
    if not keep:
        wanted["server_seconds"] = 0.0
    response = client.start(goal, **wanted)
    name = connect.name_of(response.run)
    if not detach:
        if not response.created:
            note(f"this request has started run {name} before")
        return follow(client, response.run, keep=keep, json=json)
    return _detached(response, name, json=json)


def _stages(words: list[str]) -> list[StepKind]:
    unknown = [word for word in words if word.lower() not in _STAGES]
    if unknown:
        raise CliError(f"--stage {unknown[0]!r} is neither reflect nor synthesize")
    return [_STAGES[word.lower()] for word in words]


def _detached(
    response: orchestrator_pb2.StartRunResponse | orchestrator_pb2.ForkRunResponse,
    name: str,
    *,
    json: bool,
) -> Exit:
    """Print a new run's id."""
    if json:
        put_json(response)
    else:
        print(response.run.spec.run_id)
        note(f"follow it: stepwell watch {name}")
    return Exit.DONE


@connected
def fork(
    client: SyncMessageClient,
    run: options.Run,
    at: _Version = 0,
    goal: Annotated[
        str | None, typer.Option("--goal", "-g", metavar="TEXT", help="What the fork is to reach.")
    ] = None,
    run_input: options.RunInput = None,
    plan: _OtherPlan = None,
    patch: _Patch = False,
    replan: Annotated[
        bool, typer.Option("--replan", help="Ask for another plan before anything else is done.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be kept and done; start nothing.")
    ] = False,
    label: options.Label = None,
    queue: Annotated[
        str, typer.Option("--queue", "-q", metavar="NAME", help="Where its steps wait for workers.")
    ] = "",
    max_iterations: options.MaxIterations = None,
    max_parallel: options.MaxParallel = None,
    priority: _ForkPriority = None,
    worker_version: options.WorkerVersion = "",
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
    parent = connect.run_id(client, run)
    if dry_run:
        return _print_check(client.check_fork(parent, **wanted), json=json)
    try:
        response = client.fork(parent, **wanted)
    except ForkIncompatible as error:
        raise CliError(_incompatible(error), Exit.FAILED) from error
    name = connect.name_of(response.run)
    if not json:
        note(_summary(response, name))
        for warning in response.warnings:
            note(f"note: {one_line(warning)}")
    if not detach:
        return follow(client, response.run, keep=keep, json=json)
    return _detached(response, name, json=json)


def _summary(response: orchestrator_pb2.ForkRunResponse, name: str) -> str:
    if not response.created:
        return f"this request has made fork {name} before"
    spec = response.run.spec
    kept = count(response.kept, "result")
    origin = f"{name} is a fork of {short_id(spec.parent_run_id)} at version {spec.parent_version}"
    again, pending = response.rerun, response.pending
    return f"{origin}: {kept} kept, {again:,} to be done again, {pending:,} still to do"


def _incompatible(error: ForkIncompatible) -> str:
    violations = [one_line(f"{one.field}: {one.description}") for one in error.violations]
    advice = "see all of it with --dry-run; --patch allows another plan"
    return "; ".join(["the fork doesn't fit", *violations[:3], advice])


def _print_check(response: orchestrator_pb2.ForkRunResponse, *, json: bool) -> int:
    code = Exit.FAILED if response.violations else Exit.DONE
    if json:
        put_json(response)
        return code
    for title, number, ids in (
        ("kept", response.kept, response.kept_task_ids),
        ("done again", response.rerun, response.rerun_task_ids),
        ("still to do", response.pending, response.pending_task_ids),
    ):
        more = ", …" if number > len(ids) else ""
        print(f"{title} ({number:,}): {one_line(', '.join(ids)) or '-'}{more}")
    for warning in response.warnings:
        print(f"note: {one_line(warning)}")
    for one in response.violations:
        kind = orchestrator_pb2.ForkViolationKind.Name(one.kind)
        kind = kind.removeprefix("FORK_VIOLATION_KIND_").lower().replace("_", " ")
        where = one_line(one.field or one.task_id)
        print(f"{kind}: {where}: {one_line(one.description)}")
    return code


@connected
def resume(
    client: SyncMessageClient,
    run: options.Run,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed/--keep-failed",
            help="Whether failed tasks run again, or what doesn't depend on them alone.",
        ),
    ] = True,
    reason: options.Reason = "",
    on_behalf_of: options.For = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Don't follow it.")] = False,
    keep: options.Keep = False,
    json: options.Json = False,
) -> int:
    """Make a run go on from its last checkpoint, and follow it.

    For runs that are paused or failed. Completed tasks stay; failed and interrupted ones run again.
    """
    run_id = connect.run_id(client, run)
    before = client.get(run_id).last_event
    response = client.resume(
        run_id, retry_failed=retry_failed, reason=reason, on_behalf_of=on_behalf_of
    )
    name = connect.name_of(response.run)
    state = "goes on" if response.changed else "needed no resume"
    if not response.changed and not json:
        note(f"run {name} {state}: it is {describe.status(response.run)}")
    if not detach:
        return follow(client, response.run, shown_after=before, keep=keep, json=json)
    if json:
        put_json(response)
    else:
        note(f"run {name} {state}; follow it: stepwell watch {name}")
    return Exit.DONE


@connected
def watch(
    client: SyncMessageClient,
    run: options.Run,
    after: Annotated[
        int,
        typer.Option(
            "--after", metavar="NUMBER", min=0, help="Print events after this number only."
        ),
    ] = 0,
    keep: options.Keep = False,
    json: options.Json = False,
) -> int:
    """Follow a run that is there.

    Ends when the run has ended, waits for something or is paused, with the exit code that says which.
    Ctrl-C ends the watching; the run goes on.
    """
    message = client.get(connect.run_id(client, run))
    return follow(client, message, shown_after=after, keep=keep, json=json)
