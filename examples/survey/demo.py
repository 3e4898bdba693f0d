"""The program of `make demo`: the survey of a directory, and two SIGKILLs on the way.

    python -m examples.survey.demo [DIR]

It starts a server on a SQLite file and a worker, starts a run and follows it. Half-way it kills the
server and starts it again, later the worker. In the end it reads from the store what was in flight
at each kill, and whether any task was started again after its completion was acknowledged: then, or
when the run did not succeed, its exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from examples.demo.ending import show_report, show_ways_on, shown
from examples.demo.processes import DemoFailed
from examples.demo.proof import kills_table, read_history, steps_table
from examples.demo.stage import Stage, main, state_folder
from examples.demo.text import plain, some
from examples.survey.agent import PARTS_WANTED, Request, Survey
from examples.survey.tree import deal
from stepwell_client import RunHandle, RunStatus


class Demo(Stage):
    """One run of the demo."""

    def __init__(self, directory: Path, state: Path, pace_seconds: float, console: Console) -> None:
        super().__init__(
            "survey", "examples.survey.agent:agent", concurrency=4, state=state, console=console
        )
        self.directory = directory
        self.report = state / "report.md"
        self.pace_seconds = pace_seconds

    async def start_run(self) -> RunHandle:
        return await self.client.start(
            f"Survey {plain(self.directory.name)}",
            input=Request(str(self.directory), str(self.report), pace_seconds=self.pace_seconds),
            pipeline=self.name,
        )

    async def act(self) -> None:
        if await self.until(lambda: self._have_done(1 / 3)):
            await self.kill_server()
        if await self.until(lambda: self._have_done(2 / 3)):
            await self.kill_worker()
        if len(self.kills) < 2:
            self.screen.print("the run was over before there was more to kill", "yellow")

    def _have_done(self, part: float) -> bool:
        """Return whether a part of the planned tasks is done, and others are in flight."""
        flying = [attempt for attempt in self.history.in_flight() if attempt.is_task]
        return bool(flying) and self.history.done >= max(1, self.history.planned * part)

    async def conclude(self) -> bool:
        put = self.console.print
        run = await self.client.run(self.run_id).get()
        stored = await read_history(self.client, self.run_id)
        put()
        put(steps_table(stored, self.kills, self.types))
        put(kills_table(stored, self.kills))
        violations = stored.violations()
        if stored.last != self.history.last or self.history.gaps:
            violations.append("the live watch lost or repeated events")
        for violation in violations:
            put(f"VIOLATED: {violation}", style="bold red")
        if not violations:
            put(
                f"Checked on {some(stored.last, 'event')}: {some(stored.done, 'task')} completed, "
                "each once; none was started again after its completion was acknowledged. The live "
                f"watch saw events 1 to {stored.last}, each once, through "
                f"{some(len(self.kills), 'kill')}.",
                style="green",
            )
        if run.status != RunStatus.SUCCEEDED:
            why = run.reason if run.failure is None else run.failure.message
            put(f"The run {run.status}: {plain(why)}", style="bold red")
        else:
            survey: Survey = await self.client.run(self.run_id).result(Survey)
            show_report(self.console, self.report, survey.markdown)
        show_ways_on(self.console, self.store, self.run_id)
        return run.status == RunStatus.SUCCEEDED and not violations


def checked_directory(directory: str, console: Console) -> Path:
    """Return the directory to be surveyed. Raises DemoFailed where there is nothing to survey."""
    top = Path(directory or ".")
    if not top.is_dir():
        what = "is not a directory" if top.exists() else "is not there"
        raise DemoFailed(f"{plain(directory)} {what}; try: make demo DIR=/some/directory")
    if not os.access(top, os.R_OK | os.X_OK):
        raise DemoFailed(f"{plain(directory)} can't be read by this user")
    files_max = Request().files_max
    dealt = deal(top, parts_wanted=PARTS_WANTED, files_max=files_max)
    if not dealt.parts:
        raise DemoFailed(f"there are no files to survey in {plain(directory)}")
    if dealt.is_cut:
        console.print(f"It is large: the survey stops after {files_max:,} files.", style="yellow")
    return top.resolve()


def pace(text: str) -> float:
    """Read a pace. Raises ValueError for anything else."""
    seconds = float(text)
    if not 0 <= seconds <= 60:
        raise ValueError(text)
    return seconds


def demo(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, and play."""
    parser = argparse.ArgumentParser(prog="demo", description="A survey that survives kill -9.")
    parser.add_argument("directory", nargs="?", default=".", help="what to survey (default: here)")
    parser.add_argument("--state", type=Path, help="where to keep the store and the logs")
    parser.add_argument(
        "--pace",
        type=pace,
        default=os.environ.get("SURVEY_PACE", "0.7"),
        help="seconds that a task takes at least, so that there is something in flight to be killed "
        "(default: $SURVEY_PACE, else 0.7)",
    )
    options = parser.parse_args(arguments)

    def prepare(console: Console) -> Demo:
        directory = checked_directory(options.directory, console)
        state = state_folder(options.state)
        console.print(f"Surveying {plain(str(directory))}; state: {shown(state)}")
        return Demo(directory, state, options.pace, console)

    return main(prepare)


if __name__ == "__main__":
    sys.exit(demo())
