"""Ids that complete a word of the command line, read from the server that the line names."""

from __future__ import annotations

from itertools import islice

import typer

from stepwell.cli import connect
from stepwell.cli.connect import Connection
from stepwell.cli.connection_options import CONNECTION
from stepwell.cli.view import describe
from stepwell.cli.view.text import one_line
from stepwell_client import SyncClient

ITEMS_MAX = 50
_WORDS_CHARS = 60
_RUN = "run"
"""The name of the argument that holds the run, in every command with tasks."""


def runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the newest runs whose ids begin so: short ids, with status and goal."""
    with _client(context) as client:
        listed = list(islice(client.runs(run_id_prefix=incomplete, page_size=ITEMS_MAX), ITEMS_MAX))
    names = connect.short([run.id for run in listed])
    return [
        (
            # A word that is longer than the short id goes on with the whole one.
            name if (name := names[run.id]).startswith(incomplete) else run.id,
            f"{describe.status(run)} {one_line(run.goal, _WORDS_CHARS)}",
        )
        for run in listed
    ]


def tasks(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the tasks of the line's run whose ids begin so, with status and title."""
    with _client(context) as client:
        listed = connect.handle(client, str(context.params[_RUN])).tasks()
        fitting = (one for one in listed if one.id.startswith(incomplete))
        return [
            (
                one.id,
                f"{one.status.name} {one_line(one.definition.title, _WORDS_CHARS)}",
            )
            for one in islice(fitting, ITEMS_MAX)
        ]


def _client(context: typer.Context) -> SyncClient:
    """Return a client for the options that stand on the line so far."""
    above = context.parent.params if context.parent is not None else {}
    where = Connection.of(
        {name: context.params.get(name) or above.get(name) for name in CONNECTION}
    )
    return SyncClient(
        where.target, token_file=where.token_file, reconnect_seconds=0, **where.security
    )
