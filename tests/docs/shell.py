"""A user's shell: commands as the documents name them, in a home and a folder of their own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from stepwell_client import SyncClient
from tests.docs.pages import TOP
from tests.service.cli.world import Terminal

WAIT_S = 60.0
"""Long, because a machine may be busy with other things; nothing waits for it to pass."""
ASKING = frozenset(
    {
        *("run", "ls", "show", "watch", "questions", "answer", "budget", "fork", "diff"),
        *("cancel", "resume", "workers", "queues", "logs", "journal", "health"),
        *("migrate", "certs"),
    }
)
"""Commands that start nothing; a process of its own would take each half a second."""


class Shell:
    """Runs commands; whatever still runs at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Apart from `folder`: a socket's path has hardly a hundred bytes.
        self._home = tempfile.TemporaryDirectory(prefix="stepwell-docs-")
        home = Path(self._home.name)
        self.target = f"unix:{home}/run/s.sock"
        self.token_file = home / "state" / "stepwell" / "token"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ours = {"PATH": path, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
        ours |= {"STEPWELL_GRPC__SOCKET": f"{home}/run/s.sock", "STEPWELL_TARGET": self.target}
        others = {k: v for k, v in os.environ.items() if not k.startswith("STEPWELL_")}
        self.environment = others | ours
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()
        self._home.cleanup()

    def client(self) -> SyncClient:
        return SyncClient(self.target, token_file=self.token_file)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end: one that only asks a server in this process, any other in its own."""
        words = shlex.split(command)
        if words[0] == "stepwell" and words[1] in ASKING and "PYTHONPATH" not in self.environment:
            terminal = Terminal(self.folder)
            terminal.variables = self.environment
            answer = terminal(*words[1:])
            return subprocess.CompletedProcess(words, answer.code, answer.out, answer.err)
        return subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """Start a command that goes on; what it says is kept for `said`."""
        log = self._log(len(self._running))
        with log.open("wb") as out:
            process = subprocess.Popen(
                shlex.split(command),
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._running.append(process)
        return process

    def serve(self, command: str) -> subprocess.Popen[bytes]:
        """Start a server and wait until it says that it listens."""
        process = self.start(command)
        self.until(lambda: "listens on" in self.said(process), process)
        return process

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """Return what a command has said so far."""
        return self._log(self._running.index(process)).read_text(encoding="utf-8")

    def _log(self, number: int) -> Path:
        return self.folder / f"{number}.log"

    def until(self, holds: object, process: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until something holds, as long as a process lives."""
        assert callable(holds)
        give_up = time.monotonic() + WAIT_S
        while not holds():
            if process is not None:
                assert process.poll() is None, self.said(process)
            assert time.monotonic() < give_up, "it did not come to hold in time"
            time.sleep(0.02)


def stop(process: subprocess.Popen[bytes], number: signal.Signals) -> int:
    """Send a signal and return the exit code."""
    process.send_signal(number)
    return process.wait(WAIT_S)


def stepwell_commands(text: str) -> list[str]:
    """Return the lines of a block that call `stepwell`."""
    return [line for line in text.splitlines() if line.startswith("stepwell ")]


__all__ = ["TOP", "Shell", "stepwell_commands", "stop"]
