"""Programs as processes of their own: started, killed by SIGKILL at any time, started again."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.forkserver import Asked, Life, forkserver
from tests.support.patience import PATIENCE_S


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
        """`arguments` begin with the module: `-m`, its name, then its own arguments."""
        self.name = name
        self.log_path = folder / f"{name}.log"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("STEPWELL_", "REPLICA_"))},
            "XDG_STATE_HOME": str(folder / "state"),
            **(environment or {}),
        }
        _, self._module, *self._arguments = arguments
        self._life: Life | None = None
        self.seen_bytes = 0
        """Where in the log this life begins."""

    def start(self) -> None:
        """Begin another life."""
        assert self._life is None, f"{self.name} is up"
        asked = Asked(self._module, self._arguments, self.environment)
        with self.log_path.open("ab") as out:
            self.seen_bytes = out.tell()
            self._life = forkserver().fork(asked, out.fileno())

    @property
    def up(self) -> bool:
        return self._life is not None and self._life.poll() is None

    @property
    def pid(self) -> int:
        assert self._life is not None
        return self._life.pid

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        life, self._life = self._life, None
        if life is not None:
            life.signal(signal.SIGKILL)
            life.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it another signal; it stays ours."""
        assert self._life is not None
        self._life.signal(number)

    def wait(self) -> int:
        """Wait for an end that it was asked for; returns the exit code."""
        assert self._life is not None
        code = self._life.wait(PATIENCE_S)
        assert code is not None, f"{self.name} doesn't end:\n{self.log[-4_000:]}"
        self._life = None
        return code

    @property
    def log(self) -> str:
        """Return the output of this life."""
        with self.log_path.open("rb") as file:
            file.seek(self.seen_bytes)
            return file.read().decode(errors="replace")


def wait_for(program: Program, words: str) -> None:
    """Wait until it has said these words in this life."""
    until = time.monotonic() + PATIENCE_S
    while words not in program.log:
        assert program.up, f"{program.name} ended:\n{program.log[-4_000:]}"
        assert time.monotonic() < until, f"{program.name} doesn't start:\n{program.log[-4_000:]}"
        time.sleep(0.02)
