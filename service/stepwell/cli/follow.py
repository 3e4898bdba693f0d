"""Following a run: a live tree in a terminal, lines in a pipe, JSON lines for programs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live

from stepwell.cli import describe, event_lines, results, task_tree
from stepwell.cli.connect import name_of
from stepwell.cli.errors import exit_of_status, stands_still
from stepwell.cli.exits import Exit
from stepwell.cli.terminal import console, document, put_json
from stepwell.cli.text import note
from stepwell.runtime import SystemRuntime
from stepwell_client import ENDED, BlockedKind, RunStatus, RunView, SyncClient, Unavailable
from stepwell_client.v1 import types_pb2

REFRESH_PER_SECOND = 8
_LAST_TREE_ROWS = 60
"""The tree that stays on the screen in the end is no longer than this."""


_CONTINUES = "the run goes on; follow it again: stepwell watch "


class _Display(Protocol):
    """A way to show a run's events."""

    def during(self) -> AbstractContextManager[object]:
        """Return a context manager around the watching."""
        ...

    def show(self, view: RunView, event: types_pb2.Event) -> None:
        """Show an event that was applied to the view."""
        ...

    def close(self, client: SyncClient, view: RunView) -> None:
        """Show the run's state at the end."""
        ...


def follow(
    client: SyncClient, run: types_pb2.Run, *, shown_after: int = 0, keep: bool = False, json: bool
) -> Exit:
    """Follow a run until it ends or stands still; return the exit code of its status.

    `shown_after`: events up to this one are not shown. `keep`: follow on while it waits or is paused.
    """
    view = RunView.before_events(run)
    lock = threading.Lock()
    display = _display(view, lock, json=json)
    if not json:
        _warn(client, run)
    try:
        with display.during():
            for event in _events(client, view, keep=keep):
                if view.lacks_tasks(event):
                    entries = list(client.tasks(run.spec.run_id))
                    with lock:
                        view.add_tasks(entries)
                with lock:
                    view.apply(event)
                if event.number > shown_after:
                    display.show(view, event)
    except KeyboardInterrupt:
        note(_CONTINUES + name_of(run))
        return Exit.INTERRUPTED
    except Unavailable:
        note(_CONTINUES + name_of(run))
        raise
    display.close(client, view)
    return exit_of_status(view.run.status)


def _warn(client: SyncClient, run: types_pb2.Run) -> None:
    """Warn that no worker serves the run: no event shows that."""
    now = client.get(run.spec.run_id)
    if now.status not in ENDED and now.blocked_on == BlockedKind.WORKER:
        note(describe.blocked(now, exact=True))


def _events(client: SyncClient, view: RunView, *, keep: bool) -> Iterator[types_pb2.Event]:
    """Yield events until the run has ended, or until it stands still and all were yielded."""
    run_id = view.run.spec.run_id
    with client.watch(run_id) as watch:
        for event in watch:
            yield event
            # The run's present status decides: in its history it may have stood still before.
            if view.run.status in ENDED or keep or not stands_still(view.run.status):
                continue
            now = client.get(run_id)
            if stands_still(now.status) and now.last_event <= view.run.last_event:
                return


def _display(view: RunView, lock: threading.Lock, *, json: bool) -> _Display:
    if json:
        return _JsonLines()
    out = console()
    return _Tree(out, view, lock) if out.is_terminal else _Lines(out)


class _JsonLines:
    """`{"event": …}` for each event, and `{"run": …, "answer": …}` as the last line."""

    def during(self) -> AbstractContextManager[object]:
        return nullcontext()

    def show(self, view: RunView, event: types_pb2.Event) -> None:
        del view
        put_json({"event": document(event)}, compact=True)

    def close(self, client: SyncClient, view: RunView) -> None:
        run = client.get(view.run.spec.run_id)
        last: dict[str, object] = {"run": document(run)}
        if run.status == RunStatus.SUCCEEDED:
            last["answer"] = results.plain(results.read(client, run))
        put_json(last, compact=True)


class _Lines:
    """A line for each event."""

    def __init__(self, out: Console) -> None:
        self._out = out

    def during(self) -> AbstractContextManager[object]:
        return nullcontext()

    def show(self, view: RunView, event: types_pb2.Event) -> None:
        if text := event_lines.line(view, event):
            print(text, flush=True)

    def close(self, client: SyncClient, view: RunView) -> None:
        _print_end(client, view, self._out)


class _Tree:
    """The tree, drawn again and again in its place."""

    def __init__(self, out: Console, view: RunView, lock: threading.Lock) -> None:
        self._out = out
        self._view = view
        self._lock = lock
        self._runtime = SystemRuntime()
        self._drawn: RenderableType = ""
        self._again_at = 0.0

    def during(self) -> AbstractContextManager[object]:
        return Live(
            console=self._out,
            get_renderable=self._render,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
        )

    def _render(self) -> RenderableType:
        began = self._runtime.monotonic()
        if began < self._again_at:
            return self._drawn
        rows_max = max(3, self._out.height - 6)
        now_us = self._runtime.now_us()
        with self._lock:
            self._drawn = task_tree.render(
                self._view, self._out, now_us, rows_max=rows_max, live=True
            )
        now = self._runtime.monotonic()
        # Drawing thousands of tasks is slow: it gets a tenth of the time, events the rest.
        self._again_at = now + 9 * (now - began)
        return self._drawn

    def show(self, view: RunView, event: types_pb2.Event) -> None:
        pass  # The next drawing shows it.

    def close(self, client: SyncClient, view: RunView) -> None:
        now_us = self._runtime.now_us()
        self._out.print(
            task_tree.render(view, self._out, now_us, rows_max=_LAST_TREE_ROWS, live=False)
        )
        self._out.print()
        _print_end(client, view, self._out)


def _print_end(client: SyncClient, view: RunView, out: Console) -> None:
    """Print the result to standard output, and how to go on to standard error."""
    run, name = view.run, name_of(view.run)
    if run.status == RunStatus.SUCCEEDED:
        results.put(results.read(client, run), out, name)
    if advice := describe.advice(run, name):
        note(advice)
