"""`stepwell run`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, follow, given, options
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.terminal import note, put_json
from stepwell_client import StartOptions, StepKind

EXAMPLE = (
    "Example: stepwell run --pipeline survey --goal 'survey the tree' --input '{\"dir\": \".\"}'"
)

_Input = Annotated[
    str | None,
    typer.Option(
        "--input", "-i", metavar="JSON|@FILE", help="What it works on; @- is standard input."
    ),
]
_Plan = Annotated[
    str | None, typer.Option("--plan", metavar="FILE", help="Tasks in JSON: no plan is asked for.")
]
_Stage = Annotated[
    list[str] | None,
    typer.Option(
        "--stage", metavar="STAGE", help="With --plan: reflect, synthesize; may be given again."
    ),
]
_Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        "-q",
        metavar="NAME",
        help="Where its steps wait for workers. Default: the pipeline's name.",
    ),
]
_Iterations = Annotated[
    int | None,
    typer.Option("--max-iterations", metavar="N", min=1, help="It ends after so many."),
]
_Parallel = Annotated[
    int | None, typer.Option("--max-parallel", metavar="N", min=1, help="Tasks at once.")
]
_Priority = Annotated[
    int,
    typer.Option(
        "--priority", metavar="N", min=-100, max=100, help="Higher goes first in its queue."
    ),
]
_RequestId = Annotated[
    str,
    typer.Option(
        "--request-id", metavar="ID", help="The same id and request find the same run again."
    ),
]
_STAGES = {"reflect": StepKind.REFLECT, "synthesize": StepKind.SYNTHESIZE}


def command(
    context: typer.Context,
    goal: Annotated[
        str, typer.Option("--goal", "-g", metavar="TEXT", help="What it is to reach.")
    ] = "",
    given_input: _Input = None,
    plan: _Plan = None,
    stage: _Stage = None,
    pipeline: Annotated[
        str, typer.Option("--pipeline", "-p", metavar="NAME", help="What it is an instance of.")
    ] = "",
    queue: _Queue = "",
    label: options.Label = None,
    max_iterations: _Iterations = None,
    max_parallel: _Parallel = None,
    priority: _Priority = 0,
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
    """Start a run and follow it.

    Ends when the run has ended, waits for something or is paused, with the exit code that says which.
    Ctrl-C ends the watching; the run goes on.

    A plan is a list of tasks, or an object with `tasks`: {"id": "b", "type": "count", "depends_on":
    ["a"], "input": {"n": 1}}. The other fields are those of TaskSpec in the protocol.
    """
    wanted = StartOptions(
        pipeline=pipeline,
        queue=queue,
        labels=connect.labels(label),
        priority=priority,
        request_id=request_id,
    )
    if (spend := given.budget(budget or ())) is not None:
        wanted["budget"] = spend
    if given_input is not None:
        wanted["input"] = given.run_input(given_input)
    if plan is not None:
        wanted["plan"] = given.plan(plan)
    if stage:
        wanted["stages"] = _stages(stage)
    if max_iterations is not None:
        wanted["max_iterations"] = max_iterations
    if max_parallel is not None:
        wanted["max_parallel"] = max_parallel
    with connect.client(context, target, token_file) as made:
        answer = made.start(goal, **wanted)
        name = connect.name_of(answer.run)
        if not detach:
            if not answer.created:
                note(f"this request has started run {name} before")
            return follow.follow(made, answer.run, keep=keep, json=json)
    if json:
        put_json(answer)
    else:
        print(answer.run.spec.run_id)
        note(f"follow it: stepwell watch {name}")
    return Exit.DONE


def _stages(words: list[str]) -> list[StepKind]:
    unknown = [word for word in words if word.lower() not in _STAGES]
    if unknown:
        raise CliError(f"--stage {unknown[0]!r} is neither reflect nor synthesize")
    return [_STAGES[word.lower()] for word in words]
