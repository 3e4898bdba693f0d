"""A demo's stage: a server on a SQLite file, a worker, a run, and SIGKILLs on the way.

A demo is a `Stage` that says which run it starts, when it kills what, and what it shows in the end. `main`
plays it as a program.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from rich.console import Console

from examples.demo.history import History
from examples.demo.processes import DemoFailed, Program
from examples.demo.proof import Kill, last_event_in
from examples.demo.screen import Screen
from stepwell_client import Client, RunHandle, StepwellClientError

TOP = Path(__file__).resolve().parents[2]
LEASE_MS = 10_000
"""Short, so that what a dead worker held would soon be free even if no successor told of it; long
enough for a living one to outlast the server's absence on a busy machine."""
READY_SECONDS_MAX = 30.0
DEMO_SECONDS_MAX = 600.0
PIPE_COLUMNS = 120
"""The width of lines that no terminal shows."""
DARK_SECONDS = 1.0
"""The time that a killed program stays away: long enough to be seen."""


class Stage(ABC):
    """One run of a demo: its programs, and what is known of its run."""

    def __init__(self, name: str, agent: str, *, concurrency: int, state: Path, console: Console):
        """Prepare a demo. `name` is that of its pipeline, `agent` the worker's MODULE:NAME."""
        self.name = name
        self.agent = agent
        self.concurrency = concurrency
        self.state = state
        self.store = state / f"{name}.db"
        self.console = console
        self.history = History()
        self.kills: list[Kill] = []
        self.run_id = ""
        self.titles: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self._changed = asyncio.Event()

    @abstractmethod
    async def start_run(self) -> RunHandle:
        """Start the run."""

    @abstractmethod
    async def act(self) -> None:
        """Kill the programs at the right moments."""

    @abstractmethod
    async def conclude(self) -> bool:
        """Read everything again from the store and show it; return whether it is as promised."""

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
            return await self.conclude()

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
                *("worker", self.agent, "--id", f"{self.name}-worker", "--queue", self.name),
                *("--concurrency", str(self.concurrency), "--drain", "1"),
            ],
            folder=TOP,
            log=self.state / "worker.log",
            settings={"STEPWELL_TARGET": target, "STEPWELL_TOKEN_FILE": str(token_file)},
        )

    async def _run(self) -> None:
        """Start the run and follow it to its end, through all kills."""
        handle = await self.start_run()
        self.run_id = handle.id
        self.screen.print(f"run {handle.id} started", "bold")
        self._following = asyncio.create_task(self._follow())
        try:
            await self.act()
            await self.until(self._following.done)
            await self._following
        finally:
            self._following.cancel()

    async def _follow(self) -> None:
        """Add the run's events to its history. The watch reconnects by itself, and misses none."""
        async with self.client.run(self.run_id).watch() as events:
            async for event in events:
                self.history.add(event)
                if event.plan_revision:
                    async for task in self.client.run(self.run_id).tasks():
                        self.titles[task.id] = task.definition.title
                        self.types[task.id] = task.definition.type
                self.screen.print_event(event)
                self._changed.set()

    @property
    def is_over(self) -> bool:
        """The run has ended, or can't be followed."""
        return self._following.done()

    async def until(self, reached: Callable[[], bool], seconds: float = 0.3) -> bool:
        """Wait until a condition holds, tested at each event and every so many seconds; False: the run ended first."""
        while not reached():
            if self.is_over:
                await self._following  # It may have failed.
                return False
            for program in (self.server, self.worker):
                program.check()
            self.screen.print_if_quiet()
            try:
                async with asyncio.timeout(seconds):
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
                await client.info()
        except StepwellClientError:
            return False
        return True

    async def _start_worker(self) -> None:
        await self.worker.start()
        again = " again" if self.worker.starts > 1 else ""
        self.screen.print(f"worker started{again}, pid {self.worker.pid}", "green")

    async def kill_server(self) -> None:
        """Kill the server, and start it again."""
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

    async def kill_worker(self) -> None:
        """Kill the worker, and start another one of its name."""
        pid = self.worker.pid
        await self.worker.kill()
        run = await self.client.run(self.run_id).get()
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


class Played(Protocol):
    """A demo that `main` plays."""

    console: Console

    async def play(self) -> bool:
        """Play the demo; return whether it ended well."""
        ...


def main(prepare: Callable[[Console], Played]) -> int:
    """Play the demo that is prepared for a console; return the exit code."""
    # Between the demo's own lines nobody needs the client's about a server that was killed on purpose.
    logging.getLogger("stepwell_client").addHandler(logging.NullHandler())
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    try:
        return asyncio.run(_play(prepare(console)))
    except (DemoFailed, StepwellClientError, OSError) as error:
        words = str(error) or "it took too long"
        console.print(f"error: {words}", style="bold red", soft_wrap=True)
        return 1


async def _play(stage: Played) -> int:
    """Play the demo so that a signal ends it in order."""
    me = asyncio.current_task()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, me.cancel if me else lambda: None)
    try:
        return 0 if await stage.play() else 1
    except asyncio.CancelledError:
        stage.console.print("Interrupted: all that was started is ended.", style="yellow")
        return 130
