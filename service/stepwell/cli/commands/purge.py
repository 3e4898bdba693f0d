"""`stepwell purge`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, given, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import note, put_json
from stepwell.cli.text import count
from stepwell_client import RunStatus

EXAMPLE = "Example: stepwell purge --older-than 30d --status succeeded --dry-run"


def command(
    context: typer.Context,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="SPAN",
            help="Only runs that ended at least so long ago: 90s, 30m, 12h, 30d.",
            show_default=False,
        ),
    ],
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="Only runs that succeeded, failed or are cancelled; may repeat.",
        ),
    ] = None,
    pipeline: Annotated[
        str, typer.Option("--pipeline", metavar="NAME", help="Only runs of this pipeline.")
    ] = "",
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="N", min=1, max=1_000, help="At most so many."),
    ] = 100,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing: say which it would be.")
    ] = False,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Remove runs that ended some time ago.

    The oldest ends go first. Results that forks of a run have kept stay with them. A server does the
    same by itself where its settings say so: `retention` in stepwell.toml.
    """
    statuses = [given.member(RunStatus, "--status", word) for word in status or ()]
    age = given.seconds("--older-than", older_than)
    with connect.client(context, target, token_file) as made:
        answer = made.purge(
            statuses=statuses,
            older_than=age,
            pipeline=pipeline,
            max_runs=limit,
            validate_only=dry_run,
        )
    if json:
        put_json(answer)
        return Exit.DONE
    for run_id in answer.run_ids:
        print(f"run {run_id[: connect.SHORT_CHARS]} {'would be' if dry_run else 'is'} removed")
    if not answer.run_ids:
        note("no run ended so long ago")
    elif not answer.complete:
        note(f"these are the first {count(len(answer.run_ids), 'run')}; there are more")
    return Exit.DONE
