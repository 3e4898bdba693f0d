"""The command `stepwell diff`."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from stepwell.cli import connect, options
from stepwell.cli.completion import complete_run
from stepwell.cli.connect import connected
from stepwell.cli.exits import Exit
from stepwell.cli.view import describe, results
from stepwell.cli.view.json_output import json_text
from stepwell.cli.view.terminal import put, put_json, table
from stepwell.cli.view.text import micros, one_line, span
from stepwell.runtime import SystemRuntime
from stepwell_client import Result, Run, RunStatus, RunTask, SyncClient
from stepwell_client.v1 import types_pb2

EXAMPLES = {"diff": "stepwell diff 3f2a9c1e 9b07d1aa"}
_ROWS_MAX = 100
_CHARS = 48

_A = Annotated[
    str,
    typer.Argument(
        help="A run's id, or its beginning.", show_default=False, autocompletion=complete_run
    ),
]
_B = Annotated[
    str,
    typer.Argument(help="Another's.", show_default=False, autocompletion=complete_run),
]


class _Side(NamedTuple):
    """One of the two runs, with its tasks and their results."""

    run: Run
    tasks: dict[str, RunTask]
    outputs: dict[str, Result]
    result: results.RunResult | None


class _Row(NamedTuple):
    """A task on both sides."""

    sign: str
    """`=` the same plan, `~` another, `-` only in the first run, `+` only in the second."""
    task_id: str
    changed: tuple[str, ...]
    """The fields of its definition that differ."""
    same_result: bool | None
    """None: one of them has no result."""


@connected
def diff(
    client: SyncClient,
    first: _A,
    second: _B,
    whole: options.All = False,
    json: options.Json = False,
) -> int:
    """Compare two runs: plans, results and cost, side by side.

    The tasks are those of all their plans. A task is planned alike where its whole definition is.
    """
    a = _read(client, connect.run_id(client, first))
    b = _read(client, connect.run_id(client, second))
    rows = _rows(a, b)
    if json:
        put_json(_document(a, b, rows))
        return Exit.DONE
    _print_runs(a, b)
    if rows:
        print()
        _print_tasks(a, b, rows if whole else rows[:_ROWS_MAX])
        if len(rows) > _ROWS_MAX and not whole:
            print(f"… and {len(rows) - _ROWS_MAX:,} more: --all")
    return Exit.DONE


def _read(client: SyncClient, run_id: str) -> _Side:
    run = client.run(run_id).get()
    tasks = {entry.id: entry for entry in client.run(run_id).tasks(full_specs=True)}
    outputs = {one.task_id: one for one in client.run(run_id).results().results}
    done = run.status == RunStatus.SUCCEEDED
    return _Side(run, tasks, outputs, results.read(client, run) if done else None)


def _rows(a: _Side, b: _Side) -> list[_Row]:
    return [_row(task_id, a, b) for task_id in {**a.tasks, **b.tasks}]


def _row(task_id: str, a: _Side, b: _Side) -> _Row:
    one, other = a.tasks.get(task_id), b.tasks.get(task_id)
    if one is None or other is None:
        return _Row("+" if one is None else "-", task_id, (), None)
    changed = tuple(
        field.name
        for field in types_pb2.TaskSpec.DESCRIPTOR.fields
        if getattr(one.source.spec, field.name) != getattr(other.source.spec, field.name)
    )
    return _Row("~" if changed else "=", task_id, changed, _same_result(task_id, a, b))


def _same_result(task_id: str, a: _Side, b: _Side) -> bool | None:
    one, other = a.outputs.get(task_id), b.outputs.get(task_id)
    if one is None or other is None or not (one.execution_id and other.execution_id):
        return None
    return one.payload == other.payload


def _document(a: _Side, b: _Side, rows: list[_Row]) -> dict[str, Any]:
    names = {"=": "same", "~": "changed", "-": "removed", "+": "added"}
    tasks = [
        {
            "task_id": row.task_id,
            "plan": names[row.sign],
            "changed": list(row.changed),
            "status": [_status(side, row.task_id) or None for side in (a, b)],
            "same_result": row.same_result,
            "results": [_plain_result(side, row.task_id) for side in (a, b)],
        }
        for row in rows
    ]
    return {
        "runs": [a.run, b.run],
        "results": [None if side.result is None else results.plain(side.result) for side in (a, b)],
        "tasks": tasks,
    }


def _plain_result(side: _Side, task_id: str) -> Any:
    output = side.outputs.get(task_id)
    return None if output is None else results.plain(output)


def _status(side: _Side, task_id: str) -> str:
    entry = side.tasks.get(task_id)
    return "" if entry is None else entry.status.name


def _print_runs(a: _Side, b: _Side) -> None:
    facts_table = table([])
    facts_table.add_column("", style="dim", no_wrap=True)
    names = connect.short([a.run.id, b.run.id])
    for side in (a, b):
        facts_table.add_column(names[side.run.id], overflow="fold")
    now_us = SystemRuntime().now_us()
    facts = [_facts(side, now_us) for side in (a, b)]
    for title in facts[0]:
        values = [one[title] for one in facts]
        if any(values):
            # Differences stand out.
            style = "" if values[0] == values[1] else "bold"
            facts_table.add_row(title, *(Text(value or "-", style=style) for value in values))
    put(facts_table)


def _facts(side: _Side, now_us: int) -> dict[str, str]:
    run, usage = side.run, side.run.usage
    return {
        "status": describe.status(run),
        "forked from": describe.parent(run),
        "goal": one_line(run.goal, _CHARS),
        "queue": one_line(run.queue),
        "iteration": f"{run.iteration} of {run.max_iterations}",
        "plan": str(run.plan_revision) if run.plan_revision else "",
        "tasks": describe.tasks(run),
        "kept": str(sum(bool(one.result_run_id) for one in side.tasks.values()) or ""),
        "attempts": describe.attempts(run),
        "tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out",
        "cost": f"{usage.cost_micros / 1_000_000:,.6f}",
        "took": span(describe.took_us(run, now_us)) if micros(run.started_time) else "",
        "answer": _answer(side),
    }


def _answer(side: _Side) -> str:
    if side.result is None or isinstance(side.result, dict):
        return ""
    return _line(side.result)


def _print_tasks(a: _Side, b: _Side, rows: list[_Row]) -> None:
    tasks = table([""], wide="TASK")
    names = connect.short([a.run.id, b.run.id])
    for side in (a, b):
        tasks.add_column(names[side.run.id], overflow="fold")
    tasks.add_column("PLAN", overflow="fold")
    for row in rows:
        same = row.same_result is True
        cells = [
            _cell(a, row.task_id, "" if same else _preview(a, row.task_id)),
            _cell(b, row.task_id, "the same result" if same else _preview(b, row.task_id)),
        ]
        style = "" if row.sign == "=" else "yellow"
        plan = ", ".join(row.changed)
        tasks.add_row(Text(row.sign, style=style), one_line(row.task_id), *cells, plan)
    put(tasks)


def _cell(side: _Side, task_id: str, result: str) -> str:
    entry = side.tasks.get(task_id)
    if entry is None:
        return "-"
    kept = "kept" if entry.result_run_id else ""
    parts = (_status(side, task_id).lower(), kept, result)
    return ", ".join(part for part in parts if part)


def _preview(side: _Side, task_id: str) -> str:
    output = side.outputs.get(task_id)
    if output is None or output.payload is None:
        return describe.failure(output.failure) if output is not None else ""
    return _line(output)


def _line(result: Result) -> str:
    """Return a result in one line: a text as it stands, anything else as JSON."""
    return one_line(json_text(results.plain(result)), _CHARS)
