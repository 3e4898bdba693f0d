"""Programs as processes of their own: started, killed by SIGKILL at any time, started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

TOP = Path(__file__).parents[2]
START_S = 40.0
STOP_S = 20.0


class Port:
    """A port that stays ours while nobody listens on it, so that a server comes back on its own."""

    def __init__(self) -> None:
        # Bound and never listened on: a server that sets SO_REUSEADDR, as gRPC does, may bind it too,
        # and the system gives it to nobody else.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def close(self) -> None:
        self._socket.close()


class Program:
    """One program over its many lives; all of them write to one log."""

    def __init__(
        self,
        name: str,
        folder: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("STEPWELL_", "REPLICA_"))},
            "XDG_STATE_HOME": str(folder / "state"),
            **(environment or {}),
        }
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self.seen_bytes = 0
        """Where in the log this life begins."""

    def start(self) -> None:
        """Begin another life."""
        assert self._process is None, f"{self.name} is up"
        with self.log_path.open("ab") as out:
            self.seen_bytes = out.tell()
            self._process = subprocess.Popen(
                [sys.executable, *self._arguments],
                cwd=TOP,
                env=self.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    @property
    def up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it another signal; it stays ours."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for an end that it was asked for; returns the exit code."""
        assert self._process is not None
        code = self._process.wait(STOP_S)
        self._process = None
        return code

    @property
    def log(self) -> str:
        """What this life has said."""
        with self.log_path.open("rb") as file:
            file.seek(self.seen_bytes)
            return file.read().decode(errors="replace")


def wait_for(program: Program, words: str) -> None:
    """Wait until it has said these words in this life."""
    until = time.monotonic() + START_S
    while words not in program.log:
        assert program.up, f"{program.name} ended:\n{program.log[-4_000:]}"
        assert time.monotonic() < until, f"{program.name} doesn't start:\n{program.log[-4_000:]}"
        time.sleep(0.02)
