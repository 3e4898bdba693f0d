"""The programs that the demo starts, kills and starts again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process as Running
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 15.0
LOG_LINES_SHOWN = 12


class DemoFailed(Exception):
    """The demo can't go on; the message says why."""


class Program:
    """One `stepwell …`, or another module's program, at a time; it never touches a process that it didn't start."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        folder: Path,
        log: Path,
        settings: Mapping[str, str],
        module: str = "stepwell",
    ) -> None:
        """Prepare a program to be run in a folder. `settings` are variables; the caller's own STEPWELL_ ones are kept out."""
        self.name = name
        self.log = log
        self.starts = 0
        self._folder = folder
        self._arguments = ("-m", module, *arguments)
        ours = {name: text for name, text in os.environ.items() if not name.startswith("STEPWELL_")}
        self._environ = ours | dict(settings)
        self._running: Running | None = None

    @property
    def pid(self) -> int | None:
        """The process id; None: no process is alive."""
        running = self._running
        return running.pid if running is not None and running.returncode is None else None

    async def start(self) -> None:
        """Start it; it is not ready yet."""
        self.starts += 1
        with self.log.open("ab") as log:
            self._running = await asyncio.create_subprocess_exec(
                *(sys.executable, *self._arguments),
                cwd=self._folder,
                env=self._environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is the demo's; it ends the others in order.
            )

    async def kill(self) -> None:
        """End it by SIGKILL: it can save nothing and clean up nothing. Return when it is dead."""
        await self._signal(signal.SIGKILL)

    async def stop(self) -> None:
        """End it by SIGTERM; when that takes too long, by SIGKILL."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._signal(signal.SIGTERM)
        except TimeoutError:
            await self.kill()
        finally:
            if self._running is not None and self._running.returncode is None:
                self._running.kill()  # Whoever stops it is being stopped too.

    async def _signal(self, number: signal.Signals) -> None:
        running = self._running
        if running is not None and running.returncode is None:
            running.send_signal(number)
            await running.wait()
        self._running = None

    def check(self) -> None:
        """Raise DemoFailed, with the end of its log, if it ended by itself."""
        running = self._running
        if running is not None and running.returncode is not None:
            code = running.returncode
            raise DemoFailed(
                f"the {self.name} ended by itself with exit code {code}:\n{self.log_end()}"
            )

    def log_end(self) -> str:
        """Return the last lines of its log, each indented."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-LOG_LINES_SHOWN:])
