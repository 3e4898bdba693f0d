"""The commands `stepwell threads` and `stepwell thread`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import typer

from stepwell.cli import options
from stepwell.cli.connect import connected, labels
from stepwell.cli.exits import CliError, Exit
from stepwell.cli.view.json_output import json_text, json_value, payload_of
from stepwell.cli.view.terminal import put_json, put_rows, table
from stepwell.cli.view.text import count, lines, micros, moment, note, one_line, short_id
from stepwell_client import SyncClient
from stepwell_client.records import Thread, ThreadMessage
from stepwell_client.v1 import types_pb2

EXAMPLES = {"threads": "stepwell threads", "thread": "stepwell thread t1 --last 5"}


@connected
def threads(
    client: SyncClient,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, max=100_000, help="No more threads than this."
        ),
    ] = 30,
    label: options.Label = None,
    json: options.Json = False,
) -> int:
    """List threads, newest first.

    A thread is a conversation over runs, of which one works at a time: `stepwell run --thread ID` starts them.
    """
    found = client.threads(labels=labels(label), page_size=min(limit + 1, 1_000))
    found = list(islice(found, limit + 1))
    shown, more = found[:limit], len(found) > limit
    if json:
        put_json({"threads": shown, "more": more})
        return Exit.DONE
    rows = table(["THREAD", "WORKING"], right=["WAITING", "MESSAGES"], wide="SINCE")
    for one in shown:
        rows.add_row(
            one.id,
            short_id(one.working_run_id) if one.working_run_id else "-",
            f"{one.waiting:,}",
            f"{one.messages:,}",
            moment(micros(one.created_time)),
        )
    if shown:
        put_rows(rows, "WAITING", "WORKING")
    else:
        note("no threads; start a run in one: stepwell run --thread ID --goal …")
    if more and shown:
        note(f"… and older ones: --limit {limit * 10}")
    return Exit.DONE


@connected
def thread(
    client: SyncClient,
    thread_id: Annotated[
        str, typer.Argument(metavar="ID", help="The thread's id.", show_default=False)
    ],
    last: Annotated[
        int,
        typer.Option("--last", metavar="N", min=1, max=1_000_000, help="The newest messages."),
    ] = 20,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete it with its messages and all of its runs.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --delete: cancel runs that work or wait.")
    ] = False,
    label: options.Label = None,
    fork: Annotated[
        str, typer.Option("--fork", metavar="NEW", help="Make a thread with its messages.")
    ] = "",
    at: Annotated[
        int | None,
        typer.Option(
            "--at",
            metavar="N",
            min=0,
            help="With --fork: up to this message; 0: none. Default: all.",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with messages to come, until it is deleted."),
    ] = False,
    on_behalf_of: options.For = "",
    json: options.Json = False,
) -> int:
    """Show a thread and its messages, follow, fork or delete it.

    With --label, it is given these labels before that.

    Its runs: `stepwell ls --label stepwell.thread=ID`.
    """
    handle = client.thread(thread_id)
    if force and not delete:
        raise CliError("--force goes with --delete")
    if at is not None and not fork:
        raise CliError("--at goes with --fork")
    if bool(fork) + delete + follow > 1:
        raise CliError("--fork, --delete and --follow exclude each other")
    if label:
        handle.set_labels(labels(label), on_behalf_of=on_behalf_of)
    if fork:
        thread_id = handle.fork(fork, at=at, on_behalf_of=on_behalf_of).id
        handle = client.thread(thread_id)
    if delete:
        deleted = handle.delete(force=force, on_behalf_of=on_behalf_of)
        if json:
            put_json({"deleted": deleted})
        else:
            print(f"thread {thread_id} {'is deleted' if deleted else 'is not there'}")
        return Exit.DONE
    found = handle.get()
    messages = list(handle.messages(last=last))
    if json:
        put_json({"thread": found, "messages": messages}, compact=follow)
    else:
        _put_thread(found)
        _put_messages(messages)
    if follow:
        shown = messages[-1].number if messages else found.messages
        _follow(client, thread_id, shown, json=json)
    return Exit.DONE


def _follow(client: SyncClient, thread_id: str, shown: int, *, json: bool) -> None:
    """Print the messages after number `shown` as they come, until the thread is deleted."""
    with client.watch("now", thread=thread_id, after_message=shown) as updates:
        for update in updates:
            for one in update.messages if json else ():
                put_json({"message": one}, compact=True)
            if not json:
                _put_messages(update.messages)
            if update.deleted and not update.run_id:
                break
    if not json:
        print(f"thread {thread_id} is deleted")


def _put_thread(found: Thread) -> None:
    working = f"run {short_id(found.working_run_id)} works" if found.working_run_id else "idle"
    waiting = f", {count(found.waiting, 'run')} after it" if found.waiting else ""
    print(f"thread {found.id}: {working}{waiting}; {count(found.messages, 'message')}")
    if found.labels:
        print("labels " + ", ".join(f"{name}={one}" for name, one in sorted(found.labels.items())))
    if found.state_version:
        print(f"state {found.state_version}: {one_line(_text(found.source.state))}")


def _put_messages(messages: Iterable[ThreadMessage]) -> None:
    for one in messages:
        by = f" (run {short_id(one.run_id)})" if one.run_id else ""
        text = lines(_text(one.source.content))
        print(f"{one.number:,} {one_line(one.role)}{by}: {text}", flush=True)


def _text(payload: types_pb2.Payload) -> str:
    return json_text(json_value(payload_of(payload)))
