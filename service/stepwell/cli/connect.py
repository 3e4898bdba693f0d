"""Clients from options, and run ids from what people type."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import typer

from stepwell.cli.connection_options import CONNECTION
from stepwell.cli.errors import OPTIONS, exit_of_error, explain
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.signatures import adding
from stepwell.cli.view.text import SHORT_CHARS, note, short_id
from stepwell_client import (
    NotFound,
    Run,
    Security,
    StepwellClientError,
    SyncClient,
    SyncRunHandle,
    Unavailable,
)

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,35}")
_LISTED_MAX = 5
"""The number of ids that a message lists."""


class Connection(NamedTuple):
    """The options of the connection, before the command or after it; the names are those of the client."""

    target: str | None
    token_file: Path | None
    security: Security

    @classmethod
    def of(cls, given: Mapping[str, Any], above: Connection | None = None) -> Connection:
        """Return what was given, and for the rest what was given before the command."""
        target, token_file, security = above or (None, None, Security())
        own = {name: given[name] for name in Security.__annotations__ if given[name]}
        return cls(
            given["target"] or target,
            given["token_file"] or token_file,
            cast("Security", {**security, **own}),
        )


def connection(context: typer.Context, given: Mapping[str, Any]) -> Connection:
    """Return the connection: options after the command win over those before it."""
    wanted = Connection.of(given, context.find_object(Connection))
    # The client reports a missing file as a wrong argument; scripts need UNREACHABLE.
    variable = "" if "STEPWELL_TOKEN" in os.environ else os.environ.get("STEPWELL_TOKEN_FILE", "")
    path = wanted.token_file or (Path(variable) if variable else None)
    if path is not None and not path.expanduser().is_file():
        raise CliError(
            f"the token file {path} is not there; a server writes it at its start, and says where",
            Exit.UNREACHABLE,
        )
    return wanted._replace(token_file=path)


def connecting(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command with the options of a connection, such as --target and --token-file.

    The command gets a Connection as its first argument.
    """

    def run(context: typer.Context, **arguments: Any) -> int:
        given = {name: arguments.pop(name) for name in CONNECTION}
        return command(connection(context, given), **arguments)

    return adding(run, command, 1, first={"context": typer.Context}, last=CONNECTION)


def connected(command: Callable[..., int]) -> Callable[..., int]:
    """Return a command with the options of a connection.

    The command gets a client for them as its first argument; errors of the client become one line and a code.
    """

    @wraps(command)
    def run(where: Connection, **arguments: Any) -> int:
        address = where.target or "the server"
        try:
            with SyncClient(where.target, token_file=where.token_file, **where.security) as client:
                address = client.connection.target
                return command(client, **arguments)
        except StepwellClientError as error:
            raise CliError(explain(error, address, OPTIONS), exit_of_error(error)) from error

    return connecting(run)


@contextmanager
def advising(command: str) -> Generator[None]:
    """Note how to go on where a person interrupts, or the server is gone: the run goes on without this command."""
    try:
        yield
    except (KeyboardInterrupt, Unavailable) as error:
        note(f"the run goes on; follow it again: stepwell {command}")
        if isinstance(error, Unavailable):
            raise
        raise typer.Exit(Exit.INTERRUPTED) from None


def run_id(client: SyncClient, text: str) -> str:
    """Return the whole run id for a text that is one, or the beginning of one."""
    prefix = text.strip()
    if _UUID.fullmatch(prefix):
        return prefix.lower()
    if not _NAME.fullmatch(prefix):
        raise CliError(f"{text!r} is no run id; `stepwell ls` shows them, four characters will do")
    ids = _beginning_with(client, prefix) or _beginning_with(client, prefix.lower())
    if not ids:
        raise CliError(f"no run's id begins with {prefix}; `stepwell ls` shows them")
    if len(ids) == 1:
        return ids[0]
    try:
        return client.run(prefix).get().id  # A name may be the beginning of another.
    except NotFound:
        pass
    listed = ", ".join(short(ids)[one] for one in ids[:_LISTED_MAX])
    more = f"more than {_LISTED_MAX}" if len(ids) > _LISTED_MAX else f"{len(ids)}"
    raise CliError(f"{more} runs' ids begin with {prefix}: {listed}; type some more of it")


def handle(client: SyncClient, text: str) -> SyncRunHandle:
    """Return a handle of the run whose id a text is, or begins."""
    return client.run(run_id(client, text))


def _beginning_with(client: SyncClient, prefix: str) -> list[str]:
    """Return the newest ids that begin so: one more than a message lists."""
    runs = client.runs(run_id_prefix=prefix, page_size=_LISTED_MAX + 1)
    return [run.id for run in islice(runs, _LISTED_MAX + 1)]


def short(ids: Sequence[str]) -> dict[str, str]:
    """Return the shortest beginnings, of at least eight characters, that differ for all ids.

    Those of names are the whole of them.
    """
    size = SHORT_CHARS
    unique = len(set(ids))
    while size < 36 and len({one[:size] for one in ids}) < unique:
        size += 1
    return {one: one[:size] if short_id(one) != one else one for one in ids}


def labels(pairs: Sequence[str] | None) -> dict[str, str]:
    """Return labels from `key=value` arguments."""
    made: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise CliError(f"--label {pair!r} is no KEY=VALUE, such as --label team=search")
        made[key] = value
    return made


def name_of(run: Run) -> str:
    """Return the run's id as people type it."""
    return short_id(run.id)


def check_task(client: SyncClient, run_id: str, task_id: str) -> None:
    """Raise CliError for the id of a task that the run never had; an empty id is allowed."""
    if task_id and all(one.id != task_id for one in client.run(run_id).tasks()):
        name = short_id(run_id)
        raise CliError(f"run {name} has no task {task_id!r}; see: stepwell show {name} --all")
