"""`stepwell diff`."""

from __future__ import annotations

import json as json_of
from typing import Annotated, Any, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from stepwell.cli import answers, connect, options, words
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import document, put, put_json
from stepwell.cli.text import micros, one_line, span
from stepwell.runtime import SystemRuntime
from stepwell_client import RunStatus, SyncClient, TaskStatus, word
from stepwell_client.v1 import orchestrator_pb2, types_pb2

EXAMPLE = "Example: stepwell diff 3f2a9c1e 9b07d1aa"
_ROWS_MAX = 100
_CHARS = 48

_A = Annotated[str, typer.Argument(help="A run's id, or its beginning.", show_default=False)]
_B = Annotated[str, typer.Argument(help="Another's.", show_default=False)]


class _Side(NamedTuple):
    """One of the two runs, with its tasks and what they came to."""

    run: types_pb2.Run
    tasks: dict[str, orchestrator_pb2.TaskEntry]
    results: dict[str, orchestrator_pb2.Result]
    answer: answers.Answer | None


class _Row(NamedTuple):
    """A task, as it stands on both sides."""

    sign: str
    """`=` planned alike, `~` otherwise, `-` only in the first, `+` only in the second."""
    task_id: str
    changed: tuple[str, ...]
    """What of its definition."""
    same_result: bool | None
    """None: one of them has none."""


def command(
    context: typer.Context,
    first: _A,
    second: _B,
    whole: Annotated[bool, typer.Option("--all", help="Show every task, however many.")] = False,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Compare two runs: plans, results and cost, side by side.

    The tasks are those of all their plans. A task is planned alike where its whole definition is.
    """
    with connect.client(context, target, token_file) as made:
        a = _read(made, connect.run_id(made, first))
        b = _read(made, connect.run_id(made, second))
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


def _read(made: SyncClient, run_id: str) -> _Side:
    run = made.get(run_id)
    tasks = {entry.task.task_id: entry for entry in made.tasks(run_id, full_specs=True)}
    results = {one.task_id: one for one in made.results(run_id).results}
    done = run.status == RunStatus.SUCCEEDED
    return _Side(run, tasks, results, answers.read(made, run) if done else None)


def _rows(a: _Side, b: _Side) -> list[_Row]:
    return [_row(task_id, a, b) for task_id in {**a.tasks, **b.tasks}]


def _row(task_id: str, a: _Side, b: _Side) -> _Row:
    one, other = a.tasks.get(task_id), b.tasks.get(task_id)
    if one is None or other is None:
        return _Row("+" if one is None else "-", task_id, (), None)
    changed = tuple(
        field.name
        for field in types_pb2.TaskSpec.DESCRIPTOR.fields
        if _field(one.spec, field.name) != _field(other.spec, field.name)
    )
    return _Row("~" if changed else "=", task_id, changed, _same_result(task_id, a, b))


def _field(spec: types_pb2.TaskSpec, name: str) -> Any:
    value = getattr(spec, name)
    return list(value) if name == "depends_on" else value


def _same_result(task_id: str, a: _Side, b: _Side) -> bool | None:
    one, other = a.results.get(task_id), b.results.get(task_id)
    if one is None or other is None or not (one.execution_id and other.execution_id):
        return None
    return one.payload == other.payload


def _document(a: _Side, b: _Side, rows: list[_Row]) -> dict[str, Any]:
    names = {"=": "same", "~": "changed", "-": "removed", "+": "added"}
    tasks = [
        {
            "taskId": row.task_id,
            "plan": names[row.sign],
            "changed": list(row.changed),
            "status": [_status(side, row.task_id) or None for side in (a, b)],
            "sameResult": row.same_result,
            "results": [_plain_result(side, row.task_id) for side in (a, b)],
        }
        for row in rows
    ]
    return {
        "runs": [document(a.run), document(b.run)],
        "answers": [None if side.answer is None else answers.plain(side.answer) for side in (a, b)],
        "tasks": tasks,
    }


def _plain_result(side: _Side, task_id: str) -> Any:
    found = side.results.get(task_id)
    return None if found is None else answers.plain(found)


def _status(side: _Side, task_id: str) -> str:
    entry = side.tasks.get(task_id)
    return "" if entry is None else word(TaskStatus, entry.task.status)


def _print_runs(a: _Side, b: _Side) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", style="dim", no_wrap=True)
    names = connect.short([a.run.spec.run_id, b.run.spec.run_id])
    for side in (a, b):
        table.add_column(names[side.run.spec.run_id], overflow="fold")
    now_us = SystemRuntime().now_us()
    facts = [_facts(side, now_us) for side in (a, b)]
    for title in facts[0]:
        values = [one[title] for one in facts]
        if any(values):
            # What is told apart stands out.
            style = "" if values[0] == values[1] else "bold"
            table.add_row(title, *(Text(value or "-", style=style) for value in values))
    put(table)


def _facts(side: _Side, now_us: int) -> dict[str, str]:
    run, spec, usage = side.run, side.run.spec, side.run.usage
    return {
        "status": words.status(run),
        "forked from": words.parent(run),
        "goal": one_line(spec.goal, _CHARS),
        "queue": one_line(spec.queue),
        "iteration": f"{run.iteration} of {spec.max_iterations}",
        "plan": str(run.plan_revision) if run.plan_revision else "",
        "tasks": words.tasks(run),
        "kept": str(sum(bool(one.task.result_run_id) for one in side.tasks.values()) or ""),
        "attempts": words.attempts(run),
        "tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out",
        "cost": f"{usage.cost_micros / 1_000_000:,.6f}",
        "took": span(words.took_us(run, now_us)) if micros(run.started_time) else "",
        "answer": _answer(side),
    }


def _answer(side: _Side) -> str:
    if side.answer is None or isinstance(side.answer, dict):
        return ""
    return _words(side.answer)


def _print_tasks(a: _Side, b: _Side, rows: list[_Row]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    table.add_column("TASK", overflow="fold")
    names = connect.short([a.run.spec.run_id, b.run.spec.run_id])
    for side in (a, b):
        table.add_column(names[side.run.spec.run_id], overflow="fold")
    table.add_column("PLAN", overflow="fold")
    for row in rows:
        same = row.same_result is True
        cells = [
            _cell(a, row.task_id, "" if same else _preview(a, row.task_id)),
            _cell(b, row.task_id, "the same result" if same else _preview(b, row.task_id)),
        ]
        style = "" if row.sign == "=" else "yellow"
        plan = ", ".join(row.changed)
        table.add_row(Text(row.sign, style=style), one_line(row.task_id), *cells, plan)
    put(table)


def _cell(side: _Side, task_id: str, result: str) -> str:
    entry = side.tasks.get(task_id)
    if entry is None:
        return "-"
    kept = "kept" if entry.task.result_run_id else ""
    parts = (_status(side, task_id).lower(), kept, result)
    return ", ".join(part for part in parts if part)


def _preview(side: _Side, task_id: str) -> str:
    found = side.results.get(task_id)
    if found is None or not found.HasField("payload"):
        return words.failure(found.failure) if found is not None else ""
    return _words(found)


def _words(found: orchestrator_pb2.Result) -> str:
    """Return a result in one line: a text as it stands, anything else as JSON."""
    value = answers.plain(found)
    text = value if isinstance(value, str) else json_of.dumps(value, ensure_ascii=False)
    return one_line(text, _CHARS)
