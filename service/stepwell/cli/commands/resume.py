"""`stepwell resume`."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import connect, follow, options, words
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import note, put_json

EXAMPLE = "Example: stepwell resume 3f2a9c1e"


def command(
    context: typer.Context,
    run: options.RunId,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed/--keep-failed", help="Whether failed tasks are run again."),
    ] = True,
    reason: options.Reason = "",
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Don't follow it.")] = False,
    keep: options.Keep = False,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """Make a run go on from its last checkpoint, and follow it.

    For runs that are paused or failed. Completed tasks stay; failed and interrupted ones run again.
    """
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run)
        before = made.get(run_id).last_event
        answer = made.resume(run_id, retry_failed=retry_failed, reason=reason)
        name = connect.name_of(answer.run)
        said = "goes on" if answer.changed else "needed no resume"
        if not answer.changed and not json:
            note(f"run {name} {said}: it is {words.status(answer.run)}")
        if not detach:
            return follow.follow(made, answer.run, shown_after=before, keep=keep, json=json)
    if json:
        put_json(answer)
    else:
        note(f"run {name} {said}; follow it: stepwell watch {name}")
    return Exit.DONE
