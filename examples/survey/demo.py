"""The program of `make demo`: the survey of a directory, and two SIGKILLs on the way.

    python -m examples.survey.demo [DIR]

It starts a server on a SQLite file and a worker, starts a run and follows it. Half-way it kills the
server and starts it again, later the worker. In the end it reads from the store what was in flight
at each kill, and whether any task was started again after its completion was acknowledged: then, or
when the run did not succeed, its exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from examples.survey.agent import PARTS_WANTED, Request, Survey
from examples.survey.ending import show_report, show_ways_on, shown
from examples.survey.history import History
from examples.survey.processes import DemoFailed, Program
from examples.survey.proof import Kill, kills_table, last_event_in, read_history, steps_table
from examples.survey.screen import Screen
from examples.survey.text import plain, some
from examples.survey.tree import deal
from stepwell_client import Client, RunStatus, StepwellClientError, word

TOP = Path(__file__).resolve().parents[2]
AGENT = "examples.survey.agent:agent"
PIPELINE = "survey"
WORKER_ID = "survey-worker"
CONCURRENCY = 4
LEASE_MS = 10_000
"""Short, so that what a dead worker held would soon be free even if no successor told of it; long
enough for a living one to outlast the server's absence on a busy machine."""
READY_SECONDS_MAX = 30.0
DEMO_SECONDS_MAX = 600.0
PIPE_COLUMNS = 120
"""The width of lines that no terminal shows."""
DARK_SECONDS = 1.0
"""The time that a killed program stays away: long enough to be seen."""


class Demo:
    """One run of the demo."""

    def __init__(self, directory: Path, state: Path, pace_seconds: float, console: Console) -> None:
        self.directory = directory
        self.state = state
        self.store = state / "survey.db"
        self.report = state / "report.md"
        self.pace_seconds = pace_seconds
        self.console = console
        self.history = History()
        self.kills: list[Kill] = []
        self.run_id = ""
        self.titles: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def play(self) -> bool:
        """Play the demo; return whether it ended well."""
        async with asyncio.timeout(DEMO_SECONDS_MAX), AsyncExitStack() as stack:
            # A private folder with a short name: a socket's path has at most 100 bytes.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-"))
            self._prepare(f"unix:{folder}/socket", Path(folder, "token"))
            self.screen = Screen(
                self.console, self.history, self.titles, (self.server, self.worker)
            )
            for program in (self.server, self.worker):
                stack.push_async_callback(program.stop)
            self.screen.start()
            stack.callback(self.screen.stop)
            await self._start_server()
            await self._start_worker()
            self.client = await stack.enter_async_context(self._new_client())
            await self._run()
            self.screen.stop()
            return await self._conclude()

    def _prepare(self, target: str, token_file: Path) -> None:
        self._new_client = lambda: Client(target, token_file=token_file)
        self._token_file = token_file
        self.server = Program(
            "server",
            ["serve", "--store", f"sqlite:///{self.store.name}"],
            folder=self.state,
            log=self.state / "server.log",
            settings={
                "STEPWELL_GRPC__SOCKET": target.removeprefix("unix:"),
                "STEPWELL_AUTH__TOKEN_FILE": str(token_file),
                "STEPWELL_EXECUTOR__LEASE_MS": str(LEASE_MS),
            },
        )
        self.worker = Program(
            "worker",
            [
                *("worker", AGENT, "--id", WORKER_ID, "--queue", PIPELINE),
                *("--concurrency", str(CONCURRENCY), "--drain", "1"),
            ],
            folder=TOP,
            log=self.state / "worker.log",
            settings={"STEPWELL_TARGET": target, "STEPWELL_TOKEN_FILE": str(token_file)},
        )

    async def _run(self) -> None:
        """Start the run and follow it to its end, through both kills."""
        handle = await self.client.start(
            f"Survey {plain(self.directory.name)}",
            input=Request(str(self.directory), str(self.report), pace_seconds=self.pace_seconds),
            pipeline=PIPELINE,
        )
        self.run_id = handle.id
        self.screen.print(f"run {handle.id} started", "bold")
        self._following = asyncio.create_task(self._follow())
        try:
            if await self._until(lambda: self._have_done(1 / 3)):
                await self._kill_server()
            if await self._until(lambda: self._have_done(2 / 3)):
                await self._kill_worker()
            if len(self.kills) < 2:
                self.screen.print("the run was over before there was more to kill", "yellow")
            await self._until(self._following.done)
            await self._following
        finally:
            self._following.cancel()

    async def _follow(self) -> None:
        """Add the run's events to its history. The watch reconnects by itself, and misses none."""
        async with self.client.watch(self.run_id) as events:
            async for event in events:
                self.history.add(event)
                if event.plan_revision:
                    async for entry in self.client.tasks(self.run_id):
                        self.titles[entry.spec.task_id] = entry.spec.title
                        self.types[entry.spec.task_id] = entry.spec.type
                self.screen.print_event(event)
                self._changed.set()

    def _have_done(self, part: float) -> bool:
        """Return whether a part of the planned tasks is done, and others are in flight."""
        flying = [attempt for attempt in self.history.in_flight() if attempt.is_task]
        return bool(flying) and self.history.done >= max(1, self.history.planned * part)

    async def _until(self, reached: Callable[[], bool]) -> bool:
        """Wait until a condition holds; False: the run ended first."""
        while not reached():
            if self._following.done():
                await self._following  # It may have failed.
                return False
            for program in (self.server, self.worker):
                program.check()
            self.screen.print_if_quiet()
            try:
                async with asyncio.timeout(0.3):
                    await self._changed.wait()
            except TimeoutError:
                continue
            self._changed.clear()
        return True

    # The programs.

    async def _start_server(self) -> None:
        began = time.monotonic()
        await self.server.start()
        while not await self._answers():
            self.server.check()
            if time.monotonic() - began > READY_SECONDS_MAX:
                raise DemoFailed(f"the server doesn't answer; its log is {self.server.log}")
            self.screen.print_if_quiet()
            await asyncio.sleep(0.1)
        seconds = time.monotonic() - began
        again = " again" if self.server.starts > 1 else ""
        self.screen.print(f"server up{again} after {seconds:.1f} s, pid {self.server.pid}", "green")

    async def _answers(self) -> bool:
        if not self._token_file.exists():
            return False  # It is minted at the first start.
        try:
            async with self._new_client() as client:
                await client.server_info()
        except StepwellClientError:
            return False
        return True

    async def _start_worker(self) -> None:
        await self.worker.start()
        again = " again" if self.worker.starts > 1 else ""
        self.screen.print(f"worker started{again}, pid {self.worker.pid}", "green")

    async def _kill_server(self) -> None:
        pid = self.server.pid
        await self.server.kill()
        # Nobody has the file open now: what is in it is what the server had committed.
        last = last_event_in(self.store, self.run_id)
        self._killed(Kill("server", last), pid)
        self.screen.print(
            "the worker keeps what it finishes until a server has committed it", "dim"
        )
        await self._stay_dark()
        await self._start_server()

    async def _kill_worker(self) -> None:
        pid = self.worker.pid
        await self.worker.kill()
        run = await self.client.get(self.run_id)
        self._killed(Kill("worker", run.last_event), pid)
        self.screen.print("its successor will say who it is, and get what was lost", "dim")
        await self._stay_dark()
        await self._start_worker()

    def _killed(self, kill: Kill, pid: int | None) -> None:
        self.kills.append(kill)
        words = f"kill -9 {pid}: the {kill.program} is dead, after event {kill.last_event}"
        self.screen.print(words, "bold red")

    async def _stay_dark(self) -> None:
        until = time.monotonic() + DARK_SECONDS
        while time.monotonic() < until:
            self.screen.print_if_quiet()
            await asyncio.sleep(0.1)

    # The end.

    async def _conclude(self) -> bool:
        """Read everything again from the store and show it; return whether it is as promised."""
        put = self.console.print
        run = await self.client.get(self.run_id)
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
            status = word(RunStatus, run.status)
            put(f"The run {status}: {plain(run.failure.message)}", style="bold red")
        else:
            survey: Survey = await self.client.run(self.run_id).result(Survey)
            show_report(self.console, self.report, survey.markdown)
        show_ways_on(self.console, self.store, self.run_id)
        return run.status == RunStatus.SUCCEEDED and not violations


def state_folder(parent: Path | None) -> Path:
    """Make a fresh folder for the store and the logs; by default one that git and surveys pass over."""
    prefix = time.strftime("%Y%m%d-%H%M%S-")
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=prefix, dir=parent)).resolve()
    ours = TOP / ".stepwell-demo"
    try:
        ours.mkdir(exist_ok=True)
        (ours / ".gitignore").write_text("*\n", encoding="utf-8")
        return Path(tempfile.mkdtemp(prefix=prefix, dir=ours)).resolve()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="stepwell-demo-")).resolve()


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


async def play(demo: Demo) -> int:
    """Play the demo so that a signal ends it in order; return the exit code."""
    me = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel if me else lambda: None)
    try:
        return 0 if await demo.play() else 1
    except asyncio.CancelledError:
        demo.console.print("Interrupted: all that was started is ended.", style="yellow")
        return 130


def pace(text: str) -> float:
    """Read a pace. Raises ValueError for anything else."""
    seconds = float(text)
    if not 0 <= seconds <= 60:
        raise ValueError(text)
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
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
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    try:
        directory = checked_directory(options.directory, console)
        state = state_folder(options.state)
        console.print(f"Surveying {plain(str(directory))}; state: {shown(state)}")
        return asyncio.run(play(Demo(directory, state, options.pace, console)))
    except (DemoFailed, StepwellClientError, OSError) as error:
        console.print(f"error: {error or 'it took too long'}", style="bold red")
        return 1


if __name__ == "__main__":
    sys.exit(main())
