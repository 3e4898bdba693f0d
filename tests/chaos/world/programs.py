"""Programs as processes of their own: started, killed by SIGKILL at any time, started again.

A Python server spends nearly a second of CPU on imports, and a test that kills it three hundred times would pay that
three hundred times. So programs are forked from multiprocessing's forkserver, which has imported everything.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.support.patience import PATIENCE_S

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "tests.chaos.load.lives",
        "stepwell.cli.app",
        "stepwell.cli.commands.server",
        "stepwell.cli.commands.worker",
        "stepwell.rpc.server",
        "stepwell.rpc.store",
        "stepwell_drivers.redis",
        "stepwell_drivers.remote",
        "stepwell_drivers.sql.postgres",
        "stepwell_drivers.sql.sqlite",
        "alembic.command",
        "asyncpg",
        "redis.asyncio",
        "sqlalchemy.ext.asyncio",
        "uvloop",
    ]
)
_PR_SET_PDEATHSIG = 1


def detach() -> None:
    """Become a process of one's own, which ends with the forkserver, as that ends with the tests' process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # A Ctrl-C at the terminal is for pytest, which then ends its programs.
    os.setsid()
    # Among these is the pipe that tells the forkserver of the owner's end.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _run(module: str, arguments: Sequence[str], environment: dict[str, str], log: Path) -> None:
    """Run a module as `python -m` would, in a process just forked."""
    detach()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if _read_at_start(environment) != _read_at_start(os.environ):
        os.execve(sys.executable, [sys.executable, "-m", module, *arguments], environment)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an interpreter reads when it starts: with other values it takes another interpreter."""
    return {k: v for k, v in environment.items() if k.startswith(("PYTHON", "LD_"))}


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
        self._life: ForkServerProcess | None = None
        self.seen_bytes = 0
        """The place in the log at which this life begins."""

    def start(self) -> None:
        """Begin another life."""
        assert self._life is None, f"{self.name} is up"
        self.log_path.touch()
        self.seen_bytes = self.log_path.stat().st_size
        asked = (self._module, self._arguments, self.environment, self.log_path)
        self._life = FORKS.Process(target=_run, args=asked, daemon=True)
        self._life.start()

    @property
    def up(self) -> bool:
        return self._life is not None and self._life.is_alive()

    @property
    def pid(self) -> int:
        assert self._life is not None
        assert self._life.pid is not None
        return self._life.pid

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        life, self._life = self._life, None
        if life is not None:
            life.kill()
            life.join()

    def signal(self, number: signal.Signals) -> None:
        """Send it another signal; it stays ours."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Wait for an end that it was asked for; returns the exit code."""
        assert self._life is not None
        self._life.join(PATIENCE_S)
        code = self._life.exitcode
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
