"""Commands that start runs or make them go on, and follow them."""

from __future__ import annotations

from contextlib import suppress
from json import loads
from typing import Annotated, Any, cast

import typer

from stepwell.cli import arguments, connect, options
from stepwell.cli.connect import connected
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.view.follow import follow
from stepwell.cli.view.follow_tree import follow_tree
from stepwell.cli.view.terminal import put_json
from stepwell.cli.view.text import micros, note, short_id
from stepwell_client import StepKind, SyncClient, SyncRunHandle
from stepwell_client.internal import StartOptions

EXAMPLES = {
    "run": "stepwell run --pipeline survey --goal 'survey the tree' --input '{\"dir\": \".\"}'",
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
_InputSchema = Annotated[
    bool,
    typer.Option(
        "--input-schema",
        help="Start nothing: print the JSON schema of the input, as the queue's workers give it.",
    ),
]
_RunRequestId = Annotated[
    str,
    typer.Option(
        "--request-id", metavar="ID", help="The same id and request find the same run again."
    ),
]


@connected
def run(
    client: SyncClient,
    goal: Annotated[
        str, typer.Option("--goal", "-g", metavar="TEXT", help="What it is to reach.")
    ] = "",
    run_input: options.RunPayload = None,
    plan: _NewPlan = None,
    stage: _Stages = None,
    reflect_on: options.ReflectOn = None,
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
    thread: options.Thread = "",
    on_busy: options.Busy = "enqueue",
    request_id: _RunRequestId = "",
    detach: options.Detach = False,
    keep: _KeepOrWait = False,
    input_schema: _InputSchema = False,
    json: options.Json = False,
) -> int:
    """Start a run and follow it.

    Ends when the run has ended, waits for something or is paused, with the exit code that says which.
    Ctrl-C ends the watching; the run goes on.

    A plan is a list of tasks, or an object with `tasks`: {"id": "b", "type": "count", "depends_on":
    ["a"], "input": {"n": 1}}. The other fields are those of TaskSpec in the protocol.
    """
    if input_schema:
        put_json(_schema_of(client, queue or pipeline or "default"))
        return Exit.DONE
    if not (goal or pipeline or queue) and run_input is None and plan is None:
        raise CliError("give the run something to do: --goal TEXT, --input JSON or --plan FILE")
    wanted = StartOptions(
        pipeline=pipeline,
        queue=queue,
        labels=connect.labels(label),
        priority=priority,
        worker_version=worker_version,
        request_id=request_id,
        reflect_on=reflect_on or (),
        thread=thread,
        on_busy=on_busy,
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
    started = client.start(goal, **wanted)
    if not detach:
        if started.steered:
            note(
                f"run {short_id(started.id)} of this thread works, and has this as the signal steer"
            )
        elif not started.created:
            note(f"this request has started run {short_id(started.id)} before")
        return follow(client, started.snapshot or started.get(), keep=keep, json=json)
    return detached(started, json=json)


def _schema_of(client: SyncClient, queue: str) -> dict[str, Any]:
    """Return the schema of inputs that the worker gave which connected last."""
    workers = [one for one in client.workers(queue, with_input_schema=True) if one.input_schema]
    if not workers:
        raise CliError(
            f"no worker of queue {queue} that is connected to this server gives its input's schema; its plan"
            " function's input has to be annotated with a type that has one"
        )
    newest = max(workers, key=lambda one: micros(one.connected_time))
    with suppress(ValueError, RecursionError):
        schema: Any = loads(newest.input_schema)
        if isinstance(schema, dict):
            return cast("dict[str, Any]", schema)
    raise CliError(f"what worker {newest.worker_id} gives as its input's schema is no JSON object")


def _stages(words: list[str]) -> list[StepKind]:
    unknown = [word for word in words if word.lower() not in _STAGES]
    if unknown:
        raise CliError(f"--stage {unknown[0]!r} is neither reflect nor synthesize")
    return [_STAGES[word.lower()] for word in words]


def detached(run: SyncRunHandle, *, json: bool) -> Exit:
    """Print a new run's id."""
    if json:
        put_json(run.response)
    else:
        print(run.id)
        note(f"follow it: stepwell watch {short_id(run.id)}")
    return Exit.DONE


@connected
def resume(
    client: SyncClient,
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
    handle = connect.handle(client, run)
    before = handle.get().last_event
    now = handle.resume(retry_failed=retry_failed, reason=reason, on_behalf_of=on_behalf_of)
    name = short_id(handle.id)
    state = "goes on" if handle.changed else "needed no resume"
    if not handle.changed and not json:
        note(f"run {name} {state}: it is {now.status}")
    if not detach:
        return follow(client, now, shown_after=before, keep=keep, json=json)
    if json:
        put_json(handle.response)
    else:
        note(f"run {name} {state}; follow it: stepwell watch {name}")
    return Exit.DONE


@connected
def watch(
    client: SyncClient,
    run: options.Run,
    after: Annotated[
        int,
        typer.Option(
            "--after", metavar="NUMBER", min=0, help="Print events after this number only."
        ),
    ] = 0,
    keep: options.Keep = False,
    tree: Annotated[
        bool,
        typer.Option(
            "--tree", help="Print the events of all runs of its tree, until all have ended."
        ),
    ] = False,
    json: options.Json = False,
) -> int:
    """Follow a run that is there.

    Ends when the run has ended, waits for something or is paused, with the exit code that says which.
    Ctrl-C ends the watching; the run goes on.
    """
    if tree and after:
        raise CliError("--after is the number of one run's event; leave it with --tree")
    if tree:
        return follow_tree(client, connect.handle(client, run).get(), json=json)
    return follow(
        client, connect.handle(client, run).get(), shown_after=after, keep=keep, json=json
    )
