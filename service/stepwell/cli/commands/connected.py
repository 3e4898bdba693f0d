"""Commands for what is connected: workers, and the queues that they serve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from stepwell.cli import options
from stepwell.cli.connect import connected
from stepwell.cli.exits import Exit
from stepwell.cli.view.terminal import put_json, put_rows, table
from stepwell.cli.view.text import ago, micros, note, one_line
from stepwell.runtime import SystemRuntime
from stepwell_client import ConnectedWorker, StepKind, SyncClient
from stepwell_client.records import Queue, TaskPattern

EXAMPLES = {
    "workers": "stepwell workers --queue reports",
    "queues": "stepwell queues",
}
_NAME_CHARS = 40
_KINDS = len(StepKind) - 1
"""The number of kinds of step; a worker that does them all has none named."""


@connected
def workers(
    client: SyncClient,
    queue: Annotated[
        str, typer.Option("--queue", metavar="NAME", help="Only workers of this queue.")
    ] = "",
    json: options.Json = False,
) -> int:
    """List the workers that are connected, and what they hold.

    To any replica. HOLDS has the steps at work, FREE the further ones that a worker would take. A worker is stuck if
    functions whose steps were cancelled or timed out go on, and hold all its places.
    """
    listed = list(client.workers(queue))
    if json:
        put_json({"workers": listed})
    elif listed:
        rows = worker_rows(listed, SystemRuntime().now_us())
        put_rows(rows, "BY", "REPLICA", "VERSION", "SINCE", "FREE")
    else:
        note("no worker is connected; start one: stepwell worker MODULE:AGENT")
    return Exit.DONE


def worker_rows(listed: Sequence[ConnectedWorker], now_us: int) -> Table:
    """Return the table of workers."""
    rows = table(["WORKER", "STATE"])
    for title in ("HOLDS", "FREE"):
        rows.add_column(title, no_wrap=True, justify="right")
    for title in ("SINCE", "VERSION", "REPLICA", "BY"):
        rows.add_column(title, no_wrap=True)
    rows.add_column("QUEUES AND STEPS", overflow="fold")
    for one in listed:
        since_us = micros(one.connected_time)
        rows.add_row(
            one_line(one.worker_id, _NAME_CHARS),
            _state(one),
            str(one.held_count),
            str(one.free_slots),
            ago(now_us - since_us) if since_us else "-",
            one_line(one.version, _NAME_CHARS) or "-",
            one_line(one.replica_id, 8),
            one_line(one.subject, _NAME_CHARS),
            one_line(_does(one)),
        )
    return rows


def _state(one: ConnectedWorker) -> str:
    if one.draining:
        return "draining"
    if one.lapses:
        return "silent"
    if one.held_count:
        return "busy"
    return "idle" if one.free_slots else "stuck"


def _does(one: ConnectedWorker) -> str:
    """Return the worker's queues, and the steps that it does where it doesn't do all."""
    parts = [", ".join(one.queues)]
    if len(one.kinds) < _KINDS:
        parts.append(", ".join(kind.name.lower() for kind in one.kinds))
    if one.tasks:
        parts.append("tasks " + ", ".join(dict.fromkeys(map(_pattern, one.tasks))))
    return "; ".join(parts)


def _pattern(one: TaskPattern) -> str:
    role = "" if one.role in ("", "*") else f" as {one.role}"
    return f"{one.type or 'without a type'}{role}"


@connected
def queues(client: SyncClient, json: options.Json = False) -> int:
    """List queues: their limits, workers, and what waits.

    WAITING has the runs that have a step ready and none at work. Queues without a limit, a worker or such a run
    aren't listed.
    """
    found = client.queues()
    if json:
        put_json({"queues": found.queues, "complete": found.complete})
        return Exit.DONE
    if found.queues:
        put_rows(queue_rows(found.queues, SystemRuntime().now_us()), "LIMIT", "IN USE")
    else:
        note("no queue has a limit, a worker or a run that waits")
    if not found.complete:
        note(
            "more runs wait, or more steps are at work, than were looked at: there are at least as many"
        )
    return Exit.DONE


def queue_rows(found: Sequence[Queue], now_us: int) -> Table:
    """Return the table of queues."""
    rows = table(["QUEUE"])
    for title in ("WORKERS", "IN USE", "LIMIT", "WAITING"):
        rows.add_column(title, no_wrap=True, justify="right")
    rows.add_column("FIRST WAITS SINCE", no_wrap=True)
    for one in found:
        since_us = micros(one.waiting_since_time)
        rows.add_row(
            one_line(one.name, _NAME_CHARS),
            str(one.workers),
            str(one.in_use),
            str(one.limit) if one.limit is not None else "-",
            str(one.waiting_runs),
            ago(now_us - since_us) if since_us else "",
        )
    return rows
