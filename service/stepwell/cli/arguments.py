"""Arguments of the command line: enum members, time spans, budgets, payloads and plans."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar, cast

from google.protobuf import json_format

from stepwell.cli.exits import CliError
from stepwell.cli.view.json_output import document
from stepwell_client import Budget
from stepwell_client.v1 import types_pb2

_ENUMS = {
    "effect": "EFFECT_",
    "onFailure": "ON_FAILURE_",
    "on_failure": "ON_FAILURE_",
}
_NAMES = [field.name for field in types_pb2.TaskSpec.DESCRIPTOR.fields]
_FIELDS = {*_NAMES, *(field.json_name for field in types_pb2.TaskSpec.DESCRIPTOR.fields)}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
E = TypeVar("E", bound=IntEnum)


def member(kind: type[E], option: str, word: str) -> E:
    """Return the member of that name, in any case, with `-` or `_`."""
    name = word.strip().upper().replace("-", "_")
    if name == "UNSPECIFIED" or name not in kind.__members__:
        known = ", ".join(one.name.lower() for one in kind if one.value)
        raise CliError(f"{option} {word!r} is none of {known}")
    return kind[name]


def seconds(option: str, text: str) -> float:
    """Return the length of a time span such as `90s`, `30m` or `7d`, in seconds."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise CliError(f"{option} {text!r} is no time span; it is a number and ms, s, m, h or d")
    return float(match[1]) * _SECONDS[match[2]]


_PARTS = {
    "tokens-in": "input_tokens",
    "tokens-out": "output_tokens",
    "tasks": "tasks",
    "iterations": "iterations",
}


def budget(items: Iterable[str]) -> Budget | None:
    """Return the budget of any number of `--budget PART=VALUE`, or None."""
    made: dict[str, Any] = {}
    for item in items:
        part, _, value = item.partition("=")
        if part == "wall":
            made["wall"] = seconds("--budget wall", value)
            continue
        try:
            if part == "cost":
                made["cost_micros"] = round(float(value) * 1_000_000)
            else:
                made[_PARTS[part]] = int(value)
        except (KeyError, ValueError):
            known = ", ".join(sorted([*_PARTS, "cost", "wall"]))
            raise CliError(
                f"--budget {item!r} is no PART=VALUE; parts are {known}: cost=2.50, wall=30m"
            ) from None
    return Budget(**made) if made else None


def payload(text: str, option: str = "--input") -> types_pb2.Payload:
    """Return the payload for an option: JSON as it stands, or `@FILE`, `@-` for standard input."""
    if text.startswith("@"):
        return _payload_of(read(text[1:]))
    try:
        json.loads(text)
    except ValueError as error:
        raise CliError(
            f"{option} is no JSON ({error}); quote text as '\"text\"', or name a file with @FILE"
        ) from None
    return types_pb2.Payload(data=text.encode(), media_type="application/json")


def read(name: str) -> bytes:
    """Return a file's bytes; `-` is standard input."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise CliError(f"{name} can't be read: {error.strerror}") from None


def _payload_of(data: bytes) -> types_pb2.Payload:
    """Return JSON as JSON, other text as text, and the rest as bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return types_pb2.Payload(data=data, media_type="application/octet-stream")
    try:
        json.loads(text)
    except ValueError:
        return types_pb2.Payload(data=data, media_type="text/plain; charset=utf-8")
    return types_pb2.Payload(data=data, media_type="application/json")


def plan(name: str) -> types_pb2.PlanDraft:
    """Return the plan of a JSON file: a list of tasks, or an object with `tasks`.

    A task has the fields of the protocol's TaskSpec, with `id` for `task_id`, any JSON as `input`, and
    enums without their prefix: `{"id": "b", "type": "count", "depends_on": ["a"], "input": {"n": 1}}`.
    """
    try:
        parsed: Any = json.loads(read(name))
    except ValueError as error:
        raise CliError(f"{name} is no JSON: {error}") from None
    if isinstance(parsed, dict):
        parsed = cast("dict[str, Any]", parsed).get("tasks")
    if not isinstance(parsed, list) or not parsed:
        raise CliError(f'{name} holds no tasks; it is {{"tasks": [{{"id": "a"}}, …]}}')
    return plan_of(cast("list[Any]", parsed), name)


def plan_of(tasks: Sequence[Any], name: str) -> types_pb2.PlanDraft:
    """Return the plan of these tasks, each an object as in a plan's file; messages call the whole `name`."""
    made = types_pb2.PlanDraft()
    for place, task in enumerate(tasks):
        where = f"{name}: tasks[{place}]"
        if not isinstance(task, dict):
            raise CliError(f"{where} is no object")
        if not ("id" in task or "task_id" in task or "taskId" in task):
            raise CliError(f'{where}.id is missing: a task is {{"id": "a", "type": "fetch", …}}')
        try:
            json_format.ParseDict(_task(cast("dict[str, Any]", task), where), made.tasks.add())
        except json_format.ParseError as error:
            raise CliError(f"{where}: {' '.join(str(error).split())}") from None
    return made


def _task(parsed: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a task in the protocol's JSON form."""
    task = dict(parsed)
    if "id" in task:
        task["taskId"] = task.pop("id")
    if task.get("input") is not None:
        # The same bytes as the client library makes, so that STRICT forks see no change.
        data = json.dumps(task["input"], ensure_ascii=False, separators=(",", ":")).encode()
        task["input"] = {
            "data": base64.b64encode(data).decode(),
            "mediaType": "application/json",
        }
    for name, prefix in _ENUMS.items():
        word = task.get(name)
        if isinstance(word, str):
            task[name] = _member_of(prefix, word, f"{where}.{name}")
    for name in task:
        if name not in _FIELDS:
            known = ", ".join(["id", *(one for one in _NAMES if one != "task_id")])
            raise CliError(f"{where}.{name}: a task has no such field; it has {known}")
    return task


def _member_of(prefix: str, word: str, where: str) -> str:
    """Return the protocol's name of a member of `Effect` or `OnFailure`."""
    kind = types_pb2.Effect if prefix == _ENUMS["effect"] else types_pb2.OnFailure
    name = word.upper() if word.upper().startswith(prefix) else prefix + word.upper()
    names = kind.keys()
    if name not in names:
        known = ", ".join(one.removeprefix(prefix).lower() for one in names[1:])
        raise CliError(f"{where} {word!r} is none of {known}")
    return name


def plan_task(spec: types_pb2.TaskSpec) -> dict[str, Any]:
    """Return a task in the form of a plan's file: the inverse of `plan`."""
    made = document(spec, defaults=False)
    task = {"id": made.pop("task_id"), **made}
    for name in ("effect", "on_failure"):
        if name in task:
            task[name] = task[name].removeprefix(_ENUMS[name]).lower()
    if spec.HasField("input"):
        task["input"] = _json_of(spec)
    return task


def _json_of(spec: types_pb2.TaskSpec) -> Any:
    try:
        return json.loads(spec.input.data)
    except ValueError:
        kind = spec.input.media_type
        raise CliError(
            f"the input of task {spec.task_id!r} is {kind}, and a plan's file has JSON only;"
            " see it with `stepwell plans --json`"
        ) from None
