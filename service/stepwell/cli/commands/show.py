"""`stepwell show`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stepwell.cli import answers, connect, options, tree, words
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.terminal import console, document, note, put, put_json
from stepwell.cli.text import micros, moment, one_line
from stepwell.runtime import SystemRuntime
from stepwell_client import RunStatus, RunView, SyncClient
from stepwell_client.v1 import types_pb2

EXAMPLE = "Example: stepwell show 3f2a9c1e --result > report.md"
_ROWS_MAX = 100
_FORKS_MAX = 10


def command(
    context: typer.Context,
    run: options.RunId,
    result: Annotated[
        bool, typer.Option("--result", help="Print what the run came to and nothing else.")
    ] = False,
    whole: Annotated[bool, typer.Option("--all", help="Show every task, however many.")] = False,
    at: Annotated[
        int,
        typer.Option(
            "--at", metavar="VERSION", min=0, help="As it stood then. Default: as it stands."
        ),
    ] = 0,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Show a run, its tasks and its result."""
    with connect.client(context, target, token_file) as made:
        found = made.get(connect.run_id(made, run), version=at)
        if result:
            return _result(made, found, json=json)
        tasks = list(made.tasks(found.spec.run_id, full_specs=json, version=at))
        # Attempts are listed as they are now: of an earlier version the tasks tell.
        executions = [] if at else list(made.executions(found.spec.run_id))
        forks = _forks(made, found.spec.run_id)
        done = found.status == RunStatus.SUCCEEDED
        answer = answers.read(made, found) if done else None
        questions = _questions(made, found) if found.status == RunStatus.WAITING else {}
    if json:
        shown = {
            "run": document(found),
            "tasks": [document(one) for one in tasks],
            "executions": [document(one) for one in executions],
        }
        if answer is not None:
            shown["answer"] = answers.plain(answer)
        put_json(shown)
        return Exit.DONE
    if at:
        note(f"as of version {at:,}")
    view = RunView(found)
    view.add_tasks(tasks)
    view.add_executions(executions)
    view.inputs.update(questions)
    out = console()
    now_us = _last_us(view) if at else SystemRuntime().now_us()
    rows_max = len(tasks) + len(executions) if whole else _ROWS_MAX
    put(tree.render(view, out, now_us, rows_max=rows_max, live=False, exact=True), out)
    print()
    _print_details(found, out, forks)
    name = connect.name_of(found)
    if answer is not None:
        print()
        answers.put(answer, out, name)
    if (said := words.advice(found, name)) and not at:
        note(said)
    return Exit.DONE


def _last_us(view: RunView) -> int:
    """Return the last moment that the run and its tasks have."""
    run = view.run
    moments = [run.created_time, run.started_time, run.ended_time, run.blocked_since_time]
    for task in view.tasks.values():
        moments += (task.started_time, task.ended_time)
    return max(micros(one) for one in moments)


def _questions(made: SyncClient, run: types_pb2.Run) -> dict[str, types_pb2.InputRequest]:
    """Return what the run asks of people."""
    return {one.request.input_id: one.request for one in made.inputs(run.spec.run_id)}


def _result(made: SyncClient, run: types_pb2.Run, *, json: bool) -> int:
    if run.status != RunStatus.SUCCEEDED:
        name = connect.name_of(run)
        raise CliError(
            f"run {name} is {words.status(run)}, so it has no result; see: stepwell show {name}",
            Exit.FAILED,
        )
    answer = answers.read(made, run)
    if json:
        put_json({"answer": answers.plain(answer)})
    else:
        answers.put_raw(answer)
    return Exit.DONE


def _forks(made: SyncClient, run_id: str) -> str:
    """Return the names of a run's newest forks."""
    found = [
        connect.name_of(run)
        for run in islice(made.list(parent_run_id=run_id, page_size=_FORKS_MAX + 1), _FORKS_MAX + 1)
    ]
    more = [f"… (stepwell ls --forks-of {run_id[:8]})"] if len(found) > _FORKS_MAX else []
    return ", ".join([*found[:_FORKS_MAX], *more])


def _print_details(run: types_pb2.Run, out: Console, forks: str) -> None:
    spec, usage = run.spec, run.usage
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    tokens = f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
    labels = ", ".join(f"{key}={value}" for key, value in sorted(spec.labels.items()))
    fields = {
        "id": spec.run_id,
        "pipeline": spec.pipeline_id,
        "queue": spec.queue,
        "forked from": words.parent(run),
        "forks": forks,
        "labels": labels,
        "started by": spec.executor_id,
        "created": moment(micros(run.created_time)),
        "ended": moment(micros(run.ended_time)) if run.ended_time.seconds else "",
        "tokens": tokens if usage.input_tokens or usage.output_tokens else "",
        "cost": f"{usage.cost_micros / 1_000_000:,.6f}" if usage.cost_micros else "",
        "attempts": words.attempts(run),
        "reason": run.reason,
        "commits": f"{run.version:,}",
    }
    for name, value in fields.items():
        if value:
            grid.add_row(name, Text(one_line(value)))
    put(grid, out)
