"""The demo's output while it runs: a live view on a terminal, plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from examples.demo.history import History
from examples.demo.processes import Program
from examples.demo.text import plain
from stepwell_client import Event, EventType

QUIET_SECONDS_MAX = 1.5
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TASKS_SHOWN = 10

_PHRASES = {
    EventType.PLAN_ACCEPTED: "plan accepted",
    EventType.TASK_COMPLETED: "completed",
    EventType.TASK_FAILED: "FAILED",
    EventType.TASK_RETRY_SCHEDULED: "will be tried again",
    EventType.EXECUTION_FAILED: "attempt failed",
    EventType.EXECUTION_RELEASED: "handed back",
    EventType.LEASE_LOST: "lease lost",
    EventType.REFLECTION_ACCEPTED: "decided",
    EventType.RUN_SUCCEEDED: "run succeeded",
    EventType.RUN_FAILED: "run failed",
    EventType.RUN_CANCELLED: "run cancelled",
}
_ENDS = {EventType.RUN_SUCCEEDED, EventType.RUN_FAILED, EventType.RUN_CANCELLED}
_ALWAYS = _PHRASES.keys() - {EventType.TASK_COMPLETED}


class Screen:
    """Lines about the run that stay, above a live view of it."""

    def __init__(
        self,
        console: Console,
        history: History,
        titles: Mapping[str, str],
        programs: Sequence[Program],
    ) -> None:
        self._console = console
        self._history = history
        self._titles = titles
        self._programs = programs
        self._printed = time.monotonic()
        self._live = Live(self, console=console, refresh_per_second=10, transient=True)

    def start(self) -> None:
        """Show the live view, where there is a terminal."""
        if self._console.is_terminal:
            self._live.start()

    def stop(self) -> None:
        """Remove the live view; the lines stay."""
        self._live.stop()

    def print(self, message: str, style: str = "") -> None:
        """Print a line that stays."""
        self._printed = time.monotonic()
        clock = Text(datetime.now().astimezone().strftime("%H:%M:%S "), "dim")
        line = clock.append(message, style or "default")
        self._console.print(line, no_wrap=True, overflow="ellipsis")

    def print_event(self, event: Event) -> None:
        """Print a line about an event that has a phrase."""
        if event.type not in _ALWAYS and (self._console.is_terminal or event.type not in _PHRASES):
            return
        attempt = self._history.attempts.get(event.execution_id)
        about = attempt.step if attempt else event.task_id
        if event.type in _ENDS:
            about = ""
        words = [f"#{event.number:<3} ", about, _PHRASES[event.type]]
        if attempt and attempt.number > 1:
            words.append(f"(attempt {attempt.number})")
        detail = event.message or self._titles.get(event.task_id, "")
        self.print(" ".join([*filter(None, words), *([f"· {plain(detail)}"] if detail else [])]))

    def print_if_quiet(self) -> None:
        """Print the progress after a quiet while where there is no live view."""
        if not self._console.is_terminal and time.monotonic() - self._printed > QUIET_SECONDS_MAX:
            busy = ", ".join(map(str, self._history.in_flight())) or "nothing"
            state = f"{self._done()}; in flight: {busy}" if self._history.last else "starting"
            self.print(f"… {state}", "dim")

    def _done(self) -> str:
        return f"{self._history.done} of {self._history.planned} tasks done"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        history = self._history
        head = Table.grid(padding=(0, 1))
        phase = history.phase.name.lower()
        bar = ProgressBar(total=max(history.planned, 1), completed=history.done, width=30)
        head.add_row(f"iteration {history.iteration}, {phase}", bar, self._done())
        tree = Tree(head, guide_style="dim")
        for program in self._programs:
            alive = program.pid is not None
            state = f"● pid {program.pid}" if alive else "✗ not running"
            tree.add(Text(f"{program.name} {state}", "green" if alive else "bold red"))
        now = time.time()
        for attempt in history.in_flight()[:TASKS_SHOWN]:
            title = plain(self._titles.get(attempt.step, ""), 60)
            waited = f"{max(0.0, now - attempt.since):.1f} s"
            tree.add(Text(f"{SPINNER[int(now * 10) % 10]} {attempt}  {title}  {waited}", "cyan"))
        yield tree
