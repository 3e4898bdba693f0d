"""Following a run: a live tree in a terminal, lines in a pipe, JSON lines for programs."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

from stepwell.cli.connect import advising, name_of
from stepwell.cli.errors import exit_of_status, stands_still
from stepwell.cli.exits import Exit
from stepwell.cli.view import describe, event_lines, results
from stepwell.cli.view.live import PROGRESS_S, LiveTree
from stepwell.cli.view.terminal import console, put_json
from stepwell.cli.view.text import note
from stepwell.runtime import SystemRuntime
from stepwell_client import (
    BlockedKind,
    Event,
    Run,
    RunStatus,
    RunView,
    StepwellClientError,
    SyncClient,
    SyncWatch,
)
from stepwell_client.enums import ENDED

_WARN_AFTER_S = 2.0
RunWatch = SyncWatch[Event, Any]


class _Display:
    """A way to show a run's events. This one shows the end alone."""

    def during(self, client: SyncClient) -> AbstractContextManager[object]:
        """Return a context manager around the watching; at its end all that was reached is on the screen."""
        del client
        return nullcontext()

    def show(self, view: RunView, event: Event) -> None:
        """Show an event that was applied to the view."""

    def close(self, client: SyncClient, view: RunView) -> None:
        """Print the result to standard output, and how to go on to standard error."""
        run, name = view.run, name_of(view.run)
        if run.status == RunStatus.SUCCEEDED:
            results.put(results.read(client, run), console(), name)
        if advice := describe.advice(run, name):
            note(advice)


def follow(
    client: SyncClient,
    run: Run,
    *,
    shown_after: int = 0,
    keep: bool = False,
    json: bool,
) -> Exit:
    """Follow a run until it ends or stands still; return the exit code of its status.

    `shown_after`: events up to this one are not shown. `keep`: follow on while it waits or is paused.
    """
    view = RunView.before_events(run)
    lock = threading.Lock()
    with client.run(run.id).watch(progress_interval=PROGRESS_S) as watch:
        display = _display(view, lock, watch, json=json)
        on = nullcontext() if json else _warning(client, run)
        with advising(f"watch {name_of(run)}"), display.during(client), on:
            for event in _events(client, watch, view, keep=keep):
                if view.lacks_tasks(event):
                    entries = list(client.run(run.id).tasks())
                    with lock:
                        view.add_tasks(entries)
                with lock:
                    view.apply(event)
                if event.number > shown_after:
                    display.show(view, event)
    display.close(client, view)
    return exit_of_status(view.run.status)


@contextmanager
def _warning(client: SyncClient, run: Run) -> Generator[None]:
    """Warn that no worker serves the run, if that is still so after a moment: no event shows it."""

    def warn() -> None:
        with suppress(StepwellClientError):
            if text := missing_worker(client, run.id):
                note(text)

    # Workers that connect at this moment are not missed.
    timer = threading.Timer(_WARN_AFTER_S, warn)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def missing_worker(client: SyncClient, run_id: str) -> str:
    """Return which worker the run waits for and how to start one, or "" if it has one, or has ended."""
    run = client.run(run_id).get()
    is_missing = run.status not in ENDED and run.blocked_on == BlockedKind.WORKER
    if not is_missing:
        return ""
    others = describe.other_queues(run, served_queues(client))
    return "; ".join(part for part in (describe.blocked(run, exact=True), others) if part)


def served_queues(client: SyncClient) -> set[str]:
    """Return the queues that connected workers serve."""
    return {name for worker in client.workers() for name in worker.queues}


def _events(client: SyncClient, watch: RunWatch, view: RunView, *, keep: bool) -> Iterator[Event]:
    """Yield events until the run has ended, or until it stands still and all were yielded."""
    run_id = view.run.id
    for event in watch:
        yield event
        # The run's present status decides: in its history it may have stood still before.
        if view.run.status in ENDED or keep or not stands_still(view.run.status):
            continue
        now = client.run(run_id).get()
        # A run that waits for its children goes on by itself.
        is_still = stands_still(now.status) and now.blocked_on != BlockedKind.CHILD
        if is_still and now.last_event <= view.run.last_event:
            return


def _display(view: RunView, lock: threading.Lock, watch: RunWatch, *, json: bool) -> _Display:
    if json:
        return _JsonLines()
    out = console()
    if not out.is_terminal:
        return _Lines()
    runtime = SystemRuntime()
    return _Tree(out, view, lock, runtime, lambda: runtime.monotonic() - watch.cursor.received_at)


class _JsonLines(_Display):
    """`{"event": …}` for each event, and `{"run": …, "result": …}` as the last line."""

    def show(self, view: RunView, event: Event) -> None:
        del view
        put_json({"event": event}, compact=True)

    def close(self, client: SyncClient, view: RunView) -> None:
        run = client.run(view.run.id).get()
        last: dict[str, object] = {"run": run}
        if run.status == RunStatus.SUCCEEDED:
            last["result"] = results.plain(results.read(client, run))
        put_json(last, compact=True)


class _Lines(_Display):
    """A line for each event."""

    def show(self, view: RunView, event: Event) -> None:
        if text := event_lines.line(view, event):
            print(text, flush=True)


class _Tree(LiveTree, _Display):
    """The tree, drawn again and again in its place: the next drawing shows an event."""
