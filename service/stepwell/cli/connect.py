"""From options to a client, and from what people type to a run's id."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import typer

from stepwell.cli.errors import explain, of_error
from stepwell.cli.exits import CliError, Exit
from stepwell_client import StepwellClientError, SyncClient
from stepwell_client.v1 import types_pb2

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{3,35}")
SHORT_CHARS = 8
_LOOKED_AT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Connection:
    """The options that stand before the command."""

    target: str | None = None
    token_file: Path | None = None


def named(context: typer.Context, target: str | None, token_file: Path | None) -> Connection:
    """Return what was named, after the command or before it."""
    above = context.find_object(Connection) or Connection()
    # The client would say so itself, but as a wrong argument: to a script it is a closed door.
    variable = "" if "STEPWELL_TOKEN" in os.environ else os.environ.get("STEPWELL_TOKEN_FILE", "")
    path = token_file or above.token_file or (Path(variable) if variable else None)
    if path is not None and not path.expanduser().is_file():
        raise CliError(
            f"the token file {path} is not there; a server writes it at its start, and says where",
            Exit.UNREACHABLE,
        )
    return Connection(target or above.target, path)


@contextmanager
def client(
    context: typer.Context, target: str | None, token_file: Path | None
) -> Generator[SyncClient]:
    """Connect; errors of the client become one line and a code."""
    where = named(context, target, token_file)
    address = where.target or "the server"
    try:
        with SyncClient(where.target, token_file=where.token_file) as made:
            address = made.connection.target
            yield made
    except StepwellClientError as error:
        raise CliError(explain(error, address), of_error(error)) from error


def run_id(made: SyncClient, text: str) -> str:
    """Return the id that was meant: whole, or the beginning of one run's."""
    given = text.strip().lower()
    if _UUID.fullmatch(given):
        return given
    if not _PREFIX.fullmatch(given):
        raise CliError(f"{text!r} is no run id; `stepwell ls` shows them, four characters will do")
    found = [
        run.spec.run_id
        for run in islice(made.list(page_size=1_000), _LOOKED_AT_MAX)
        if run.spec.run_id.startswith(given)
    ]
    if not found:
        raise CliError(f"no run's id begins with {given}; `stepwell ls` shows them")
    if len(found) > 1:
        listed = ", ".join(short(found)[one] for one in found[:5])
        raise CliError(f"{len(found)} runs' ids begin with {given}: {listed}; type some more of it")
    return found[0]


def short(ids: Sequence[str]) -> dict[str, str]:
    """Return the beginning of each id that tells it from the others."""
    size = SHORT_CHARS
    unique = len(set(ids))
    while size < 36 and len({one[:size] for one in ids}) < unique:
        size += 1
    return {one: one[:size] for one in ids}


def labels(pairs: Sequence[str] | None) -> dict[str, str]:
    """Return labels from `key=value` words."""
    made: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise CliError(f"--label {pair!r} is no KEY=VALUE, such as --label team=search")
        made[key] = value
    return made


def name_of(run: types_pb2.Run) -> str:
    """Return the run's id as people type it."""
    return run.spec.run_id[:SHORT_CHARS]


def known_task(made: SyncClient, run_id: str, task_id: str) -> None:
    """Refuse the id of a task that the run never had; empty: no task is meant."""
    if task_id and all(one.task.task_id != task_id for one in made.tasks(run_id)):
        name = run_id[:SHORT_CHARS]
        raise CliError(f"run {name} has no task {task_id!r}; see: stepwell show {name} --all")
