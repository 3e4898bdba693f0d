"""The live view of a run: the tree, drawn again and again in its place, with what attempts write and report, and who is silent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from stepwell.cli.view import family, task_tree
from stepwell.cli.view.step_workers import ASK_EVERY_S, Holders, at_work
from stepwell.cli.view.task_rows import Reports
from stepwell.cli.view.text import US, one_line, span
from stepwell.core.port import Runtime
from stepwell_client import LogEntry, LogKind, RunView, StepwellClientError, SyncClient
from stepwell_client.enums import ENDED

REFRESH_PER_SECOND = 8
PROGRESS_S = 1.0
"""The interval at which the server sends a sign of life on the watch."""
SILENT_S = 4.0
"""A server that has sent nothing for so long is said to be silent."""
_LAST_TREE_ROWS = 60
"""The tree that stays on the screen in the end is no longer than this."""
_HEAD_ROWS = 8
_CHILDREN_MAX = 10
"""The number of child runs that are drawn."""
_SAID_CHARS_MAX = 200
_SAID_MAX = 1_000
"""The number of attempts whose last words are kept."""


@contextmanager
def _outages_unlogged() -> Generator[None]:
    """Keep the client's lines about a server that is gone out of the view, which tells of it itself."""
    client_log = logging.getLogger("stepwell_client")
    before = client_log.level
    client_log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        client_log.setLevel(before)


class Said:
    """The last words of attempts under way: a log line, or the end of what they stream."""

    def __init__(self) -> None:
        self.last: dict[str, str] = {}

    def add(self, entry: LogEntry) -> None:
        """Add an entry of the run's log."""
        before = self.last.pop(entry.execution_id, "") if entry.kind == LogKind.CHUNK else ""
        self.last[entry.execution_id] = (before + entry.text)[-_SAID_CHARS_MAX:]
        if len(self.last) > _SAID_MAX:
            del self.last[next(iter(self.last))]

    def lines(self) -> dict[str, str]:
        """Return the words of each attempt in one line, by execution id."""
        return {execution_id: one_line(text) for execution_id, text in self.last.items()}


class LiveTree:
    """The tree of a run that is followed in a terminal."""

    def __init__(
        self,
        out: Console,
        view: RunView,
        lock: threading.Lock,
        runtime: Runtime,
        silence: Callable[[], float],
    ) -> None:
        """`lock` is held while the view changes; `silence` returns the seconds since the server's last word."""
        self.out = out
        self._view = view
        self._lock = lock
        self._runtime = runtime
        self._silence = silence
        self.said = Said()
        self.holders = Holders()
        self._below = family.Family()
        self._drawn: RenderableType = ""
        self._again_at = 0.0

    @contextmanager
    def during(self, client: SyncClient) -> Generator[None]:
        """Draw while the block lasts; then the tree stays on the screen."""
        live = Live(
            console=self.out,
            get_renderable=self.render,
            refresh_per_second=REFRESH_PER_SECOND,
            transient=True,
        )
        # The log comes from its beginning; only what attempts under way wrote last is shown.
        with client.run(self._view.run.id).logs(follow=True) as entries:
            reading = threading.Thread(target=self._read, args=(entries,), daemon=True)
            reading.start()
            left = threading.Event()
            asking = threading.Thread(target=self._ask, args=(client, left), daemon=True)
            asking.start()
            try:
                with _outages_unlogged(), live:
                    yield
            finally:
                left.set()
                self.leave()

    def _read(self, entries: Iterable[LogEntry]) -> None:
        # The watch of the events tells of a server that is gone.
        with suppress(StepwellClientError):
            for entry in entries:
                with self._lock:
                    self.said.add(entry)

    def _ask(self, client: SyncClient, left: threading.Event) -> None:
        run_id = self._view.run.id
        while not left.wait(ASK_EVERY_S):
            with self._lock:
                asked_for, run = at_work(self._view), self._view.run
            if run.children:
                with suppress(StepwellClientError):
                    below = family.read(client, run, _CHILDREN_MAX)
                    with self._lock:
                        self._below = below
            if not asked_for:
                continue
            with suppress(StepwellClientError):
                workers = list(client.workers(run_id=run_id))
                with self._lock:
                    self.holders.take(asked_for, workers, self._runtime.now_us())

    def _reports(self) -> Reports:
        said, progress = self.said.lines(), self.holders.progress
        words = {
            one: " · ".join(filter(None, (progress.get(one), said.get(one))))
            for one in (*said, *progress)
        }
        return Reports(words, self.holders.gone)

    def render(self) -> RenderableType:
        """Return the tree as it is now, or as it was drawn a moment ago."""
        began = self._runtime.monotonic()
        if began < self._again_at:
            return self._drawn
        with self._lock:
            self._drawn = self._draw(max(3, self.out.height - _HEAD_ROWS), live=True)
        now = self._runtime.monotonic()
        # Drawing thousands of tasks is slow: it gets a tenth of the time, events the rest.
        self._again_at = now + 9 * (now - began)
        return self._drawn

    def leave(self) -> None:
        """Print the tree a last time: it stays on the screen."""
        with self._lock:
            self.out.print(self._draw(_LAST_TREE_ROWS, live=False))
        self.out.print()

    def _draw(self, rows_max: int, *, live: bool) -> RenderableType:
        silent_us = round(self._silence() * US)
        is_silent = silent_us > SILENT_S * US and self._view.run.status not in ENDED
        # Clocks stand still with what is known.
        now_us = self._runtime.now_us() - (silent_us if is_silent else 0)
        tree = task_tree.render(
            self._view,
            self.out,
            now_us,
            rows_max=rows_max,
            live=live and not is_silent,
            reports=self._reports(),
        )
        if self._below.children:
            tree = Group(tree, family.render(self._below, self._view.run, now_us))
        if not is_silent:
            return tree
        warning = f"the server has been silent for {span(silent_us)}; this is how things stood then"
        return Group(tree, Text(warning, style="bold yellow"))
