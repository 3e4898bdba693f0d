"""Results of runs, printed for people and for programs."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

from stepwell.cli.view.json_output import json_text, json_value
from stepwell.cli.view.text import count, json_safe, lines, one_line
from stepwell_client import Payload, Result, Run, SyncClient, TaskStatus
from stepwell_client.errors import DecodeError

_PREVIEW_TASKS = 20
_PREVIEW_CHARS = 100
_PREVIEW_LINES = 200

RunResult = Result | dict[str, Result]
"""The run's own result; without one, those of its completed tasks, by id."""


def read(client: SyncClient, run: Run) -> RunResult:
    """Read the run's result, or its tasks' results where it has none of its own."""
    run_id = run.id
    if run.result_id:
        # Asking for that execution alone keeps the tasks' results out of it.
        results = client.run(run_id).results(execution_ids=[run.result_id])
        return results.run_result or Result(execution_id=run.result_id)
    done = client.run(run_id).results().results
    return {one.task_id: one for one in done if one.status == TaskStatus.COMPLETED}


def plain(result: RunResult) -> Any:
    """Return the result as a JSON value; bytes that are no text in base64."""
    if isinstance(result, dict):
        return {task_id: _value(one) for task_id, one in result.items()}
    return _value(result)


def _value(one: Result) -> Any:
    return None if one.payload is None else json_value(one.payload)


def put(result: RunResult, out: Console, name: str) -> None:
    """Print it for people: whole where it is the run's own, else a line for each task."""
    if not isinstance(result, dict):
        if result.payload is not None:
            _put_whole(result.payload, out, name)
        return
    for task_id, one in list(result.items())[:_PREVIEW_TASKS]:
        value = _value(one)
        if value is not None:
            print(f"{one_line(task_id)}: {one_line(json_text(value), _PREVIEW_CHARS)}")
    if len(result) > _PREVIEW_TASKS:
        print(
            f"… and {count(len(result) - _PREVIEW_TASKS, 'other')}: stepwell show {name} --result"
        )


def _put_whole(payload: Payload, out: Console, name: str) -> None:
    shown = text(payload)
    if shown is None:
        size = len(payload.data)
        print(
            f"{size:,} bytes of {one_line(payload.media_type)}: stepwell show {name} --result > FILE"
        )
        return
    text_lines = lines(shown).splitlines()
    kept = text_lines[:_PREVIEW_LINES] if out.is_terminal else text_lines
    print("\n".join(kept))
    if len(kept) < len(text_lines):
        left = count(len(text_lines) - len(kept), "line")
        print(f"… and {left}: stepwell show {name} --result")


def text(payload: Payload) -> str | None:
    """Return a payload as text: JSON strings without quotes, other JSON indented."""
    try:
        value = payload.value
    except DecodeError:
        value = payload.data
    if isinstance(value, bytes):
        return None
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def put_raw(result: RunResult) -> None:
    """Print it for a program or a file: bytes as they are, several results as a JSON object."""
    if not isinstance(result, dict) and result.payload is not None:
        shown = text(result.payload)
        if shown is not None and sys.stdout.isatty():
            print(lines(shown))
        elif shown is not None:
            print(shown)
        else:
            sys.stdout.buffer.write(result.payload.data)
            sys.stdout.flush()
        return
    print(json_safe(json.dumps(plain(result), ensure_ascii=False, indent=2)))
