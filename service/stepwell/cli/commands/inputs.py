"""`stepwell inputs`."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from stepwell.cli import connect, options
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import document, note, put, put_json
from stepwell.cli.text import US, ago, micros, one_line, span
from stepwell.runtime import SystemRuntime
from stepwell_client import ExpiryAction, InputKind, word
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2

EXAMPLE = "Example: stepwell inputs"


def command(
    context: typer.Context,
    run: Annotated[
        str,
        typer.Argument(
            help="The run's id, or its beginning; without one, of all runs.", show_default=False
        ),
    ] = "",
    limit: Annotated[
        int,
        typer.Option("--limit", "-n", metavar="N", min=1, max=100_000, help="No more than this."),
    ] = 100,
    json: options.Json = False,
    target: options.Target = None,
    token_file: options.TokenFile = None,
) -> int:
    """List what runs ask of people, oldest first.

    Of all runs, what waits for an answer; of one run, also what was answered.
    """
    with connect.client(context, target, token_file) as made:
        run_id = connect.run_id(made, run) if run else None
        found = list(islice(made.inputs(run_id), limit + 1))
    more = len(found) > limit
    if json:
        put_json({"inputs": [document(one) for one in found[:limit]], "more": more})
    elif found:
        _print(found[:limit], whole=bool(run))
        if more:
            note(f"… and younger ones: --limit {limit * 10}")
        elif not run:
            note("answer one: stepwell answer RUN INPUT VALUE")
    else:
        note("this run has asked nothing" if run else "no run waits for an answer")
    return Exit.DONE


def _print(found: list[pb.RunInput], *, whole: bool) -> None:
    now_us = SystemRuntime().now_us()
    names = connect.short([one.run_id for one in found])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("RUN", "INPUT", "KIND", "STATUS" if whole else "", "ASKED", "EXPIRES"):
        if title:
            table.add_column(title, no_wrap=True)
    table.add_column("QUESTION", no_wrap=True, overflow="ellipsis")
    for one in found:
        request = one.request
        stands = [_stands(request)] if whole else []
        table.add_row(
            names[one.run_id],
            Text(one_line(request.input_id, 80)),
            word(InputKind, request.kind),
            *stands,
            ago(now_us - micros(request.created_time)),
            _expiry(request, now_us),
            Text(_question(request)),
        )
    put(table)


def _stands(request: types_pb2.InputRequest) -> str:
    return types_pb2.InputStatus.Name(request.status).removeprefix("INPUT_STATUS_").lower()


def _question(request: types_pb2.InputRequest) -> str:
    choices = f"  ({' | '.join(request.choices)})" if request.choices else ""
    by = f"  (answered by {request.answered_by})" if request.answered_by else ""
    return one_line(request.prompt + choices + by)


def _expiry(request: types_pb2.InputRequest, now_us: int) -> str:
    """Return when an open question expires, and what happens then."""
    expires = request.expires.seconds * US + request.expires.nanos // 1_000
    if not expires or request.status != types_pb2.INPUT_STATUS_OPEN:
        return "-"
    left = micros(request.created_time) + expires - now_us
    when = f"in {span(left)}" if left > 0 else "is over"
    return f"{when}: {word(ExpiryAction, request.on_expiry)}"
