"""The command `stepwell show`."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stepwell.cli import connect, options
from stepwell.cli.completion import complete_task
from stepwell.cli.connect import connected
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.view import describe, family, results, task_page, task_tree
from stepwell.cli.view.follow import served_queues
from stepwell.cli.view.terminal import console, put, put_json
from stepwell.cli.view.text import lines, micros, moment, note, one_line, short_id
from stepwell.runtime import SystemRuntime
from stepwell_client import BlockedKind, Question, Run, RunStatus, RunView, SyncClient
from stepwell_client.enums import ENDED

EXAMPLES = {"show": "stepwell show 3f2a9c1e --result > report.md"}
_ROWS_MAX = 100
_FORKS_MAX = 10
_NAMES_MAX = 10


@connected
def show(
    client: SyncClient,
    run: options.Run,
    task: Annotated[
        str,
        typer.Argument(
            help="Only this task or execution, with all that is known of it.",
            show_default=False,
            autocompletion=complete_task,
        ),
    ] = "",
    result: Annotated[
        bool,
        typer.Option("--result", help="Print what the run or task came to and nothing else."),
    ] = False,
    failures: Annotated[
        bool,
        typer.Option("--failures", help="Print the attempts that failed, with their tracebacks."),
    ] = False,
    whole: options.All = False,
    at: Annotated[
        int,
        typer.Option(
            "--at", metavar="VERSION", min=0, help="As it stood then. Default: as it stands."
        ),
    ] = 0,
    json: options.Json = False,
) -> int:
    """Show a run, its tasks, the child runs below it and its result.

    With a TASK: its prompt and input; each attempt with its failure, traceback, prompt and response; its messages,
    calls and log; its result. With --failures: each attempt that failed, with its traceback.
    """
    if at and (task or failures):
        what = "a task" if task else "its failures"
        raise CliError(f"--at shows a run as it stood then, not {what}; leave one of them")
    if task and failures:
        raise CliError("a task is shown with its failures; leave --failures or the task")
    message = connect.handle(client, run).get(version=at)
    if task:
        return _task(client, message, task, result=result, json=json)
    if failures:
        return _failures(client, message, json=json)
    if result:
        return _result(client, message, json=json)
    return _run(client, message, at=at, whole=whole, json=json)


def _run(client: SyncClient, message: Run, *, at: int, whole: bool, json: bool) -> int:
    tasks = list(client.run(message.id).tasks(full_specs=json, version=at))
    # Attempts are listed as of now: for an earlier version only the tasks are shown.
    executions = [] if at else list(client.run(message.id).executions())
    forks = _forks(client, message.id)
    below = family.Family() if at else family.read(client, message)
    done = message.status == RunStatus.SUCCEEDED
    answer = results.read(client, message) if done else None
    questions = _questions(client, message) if message.status == RunStatus.WAITING else {}
    if json:
        shown = {
            "run": message,
            "tasks": tasks,
            "executions": executions,
        }
        if message.children and not at:
            shown |= {"children": below.runs(), "more_children": below.more}
        if answer is not None:
            shown["result"] = results.plain(answer)
        put_json(shown)
        return Exit.DONE
    if at:
        note(f"as of version {at:,}")
    view = RunView(message)
    view.add_tasks(tasks)
    view.add_executions(executions)
    view.questions.update(questions)
    out = console()
    now_us = _last_us(view) if at else SystemRuntime().now_us()
    rows_max = len(tasks) + len(executions) if whole else _ROWS_MAX
    put(task_tree.render(view, out, now_us, rows_max=rows_max, live=False, exact=True), out)
    if below.children:
        print()
        put(family.render(below, message, now_us), out)
    print()
    _print_details(message, out, forks, "" if at else _signals(client, message.id))
    name = connect.name_of(message)
    if message.failure is not None and (details := message.failure.details):
        print()
        print(lines(details).rstrip())
    if answer is not None:
        print()
        results.put(answer, out, name)
    advice = describe.advice(message, name)
    if message.blocked_on == BlockedKind.WORKER and message.status not in ENDED:
        advice = describe.other_queues(message, served_queues(client))
    if advice and not at:
        note(advice)
    return Exit.DONE


def _task(client: SyncClient, run: Run, name: str, *, result: bool, json: bool) -> int:
    page = task_page.read(client, run.id, name, whole=json)
    if not result:
        if json:
            put_json(task_page.as_json(page))
        else:
            task_page.put(page, SystemRuntime().now_us())
        return Exit.DONE
    if page.result is None:
        raise CliError(f"{name} has no result; see: stepwell show {connect.name_of(run)} {name}")
    _put_result(page.result, json=json)
    return Exit.DONE


def _failures(client: SyncClient, run: Run, *, json: bool) -> int:
    """Print the run's failed attempts, the oldest first."""
    name = connect.name_of(run)
    view = RunView(run)
    view.add_executions(client.run(run.id).executions())
    failed = [one for one in view.executions.values() if one.failure is not None]
    if json:
        put_json({"executions": failed})
        return Exit.DONE
    for one in failed:
        number = describe.attempt_of(view, one)
        print("\n".join(task_page.attempt(one, number, None, SystemRuntime().now_us())))
    if not failed:
        note(f"no attempt of run {name} has failed")
    elif why := describe.failure(run.failure):
        note(f"run {name} failed: {why}")
    return Exit.DONE


def _last_us(view: RunView) -> int:
    """Return the latest time of the run and its tasks."""
    run = view.run
    moments = [run.created_time, run.started_time, run.ended_time, run.blocked_since_time]
    for task in view.tasks.values():
        moments += (task.started_time, task.ended_time)
    return max(micros(one) for one in moments)


def _questions(client: SyncClient, run: Run) -> dict[str, Question]:
    """Return the run's questions by id."""
    return {one.id: one for one in client.run(run.id).questions()}


def _result(client: SyncClient, run: Run, *, json: bool) -> int:
    if run.status != RunStatus.SUCCEEDED:
        name = connect.name_of(run)
        raise CliError(
            f"run {name} is {describe.status(run)}, so it has no result; see: stepwell show {name}",
            Exit.FAILED,
        )
    _put_result(results.read(client, run), json=json)
    return Exit.DONE


def _put_result(result: results.RunResult, *, json: bool) -> None:
    if json:
        put_json({"result": results.plain(result)})
    else:
        results.put_raw(result)


def _signals(client: SyncClient, run_id: str) -> str:
    """Return the number of signals that a run keeps, and of each name, the most frequent ones first."""
    names = Counter(one.name for one in client.run(run_id).signals(values=False))
    shown = [f"{name} {number:,}" for name, number in names.most_common(_NAMES_MAX)]
    more = ["…"] if len(names) > _NAMES_MAX else []
    return f"{names.total():,} kept: {', '.join([*shown, *more])}" if names else ""


def _forks(client: SyncClient, run_id: str) -> str:
    """Return the names of a run's newest forks."""
    names = [
        connect.name_of(run)
        for run in islice(
            client.runs(parent_run_id=run_id, page_size=_FORKS_MAX + 1), _FORKS_MAX + 1
        )
    ]
    more = [f"… (stepwell ls --forks-of {short_id(run_id)})"] if len(names) > _FORKS_MAX else []
    return ", ".join([*names[:_FORKS_MAX], *more])


def _print_details(run: Run, out: Console, forks: str, signals: str) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    labels = ", ".join(f"{key}={value}" for key, value in sorted(run.labels.items()))
    fields = {
        "id": run.id,
        "pipeline": run.pipeline,
        "queue": run.queue,
        "forked from": describe.parent(run),
        "forks": forks,
        "child of": describe.above(run),
        "labels": labels,
        "started by": run.executor_id,
        "changed by": describe.caller(run.actor, run.on_behalf_of),
        "created": moment(micros(run.created_time)),
        "ended": moment(micros(run.ended_time)) if run.ended_time else "",
        "spent": describe.spent(run.usage),
        "attempts": describe.attempts(run),
        "signals": signals,
        "reason": run.reason,
        "version": f"{run.version:,}",
    }
    for name, value in fields.items():
        if value:
            grid.add_row(name, Text(one_line(value)))
    put(grid, out)
