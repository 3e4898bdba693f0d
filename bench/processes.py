"""The processes that are measured, and what they cost."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

_ADDRESS = re.compile(r"listens on (127\.0\.0\.1:\d+)")


PATIENCE_S = 60


def cpu_seconds(*pids: int) -> float:
    """Return the CPU time that processes have used so far, ended threads included."""
    # The kernel's clock of another process: clock_getcpuclockid(3) computes the same number.
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


class Place(Protocol):
    """Place of a store, and the folder for what uses it."""

    @property
    def url(self) -> str: ...
    @property
    def folder(self) -> Path: ...


class ProcessFailed(Exception):
    """A process ended with an error, or did not begin its work in time."""


class Process:
    """A child of ours, with its output in a file."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        name: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    # Installed programs are compiled; an environment that says otherwise costs a start a third more.
                    "PYTHONDONTWRITEBYTECODE": "",
                    "XDG_STATE_HOME": str(folder / "state"),
                    **(environment or {}),
                },
                cwd=Path(__file__).parent.parent,
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def alive(self) -> bool:
        return self._child.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._child.kill()
        self._child.wait()

    def stop(self) -> None:
        """SIGTERM, and wait; SIGKILL after 20 s."""
        if self.alive():
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()

    def _wait_for_address(self, seen: int) -> str:
        self._wait_until(lambda: _ADDRESS.search(self.log.read_text()[seen:]) is not None)
        found = _ADDRESS.search(self.log.read_text()[seen:])
        assert found is not None
        return found[1]

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        """Wait for a sign of it; end it if none comes."""
        deadline = time.monotonic() + PATIENCE_S
        while not ready():
            if not self.alive() or time.monotonic() > deadline:
                self.kill()
                raise ProcessFailed(self.log.read_text()[-2000:])
            time.sleep(0.001)


class ServerProcess(Process):
    """A server on a store; `target` is where it listens."""

    def __init__(self, place: Place, *, port: int = 0, lease_ms: int = 30_000) -> None:
        log = place.folder / "server.log"
        seen = log.stat().st_size if log.exists() else 0
        self.begun = time.monotonic()
        super().__init__(
            ["-m", "stepwell", "serve", "--store", place.url, "--port", str(port)],
            place.folder,
            "server",
            {"STEPWELL_EXECUTOR__LEASE_MS": str(lease_ms)},
        )
        self.target = self._wait_for_address(seen)
        self.listening = time.monotonic()


class StoreProcess(Process):
    """`stepwell store` on another store; `target` is where it listens, `token` how to get in."""

    def __init__(self, driver: str, folder: Path) -> None:
        self.token = folder / "token"
        super().__init__(
            [
                *("-m", "stepwell", "store", "--driver", driver, "--port", "0"),
                *("--token-file", str(self.token)),
            ],
            folder,
            "store",
        )
        self.target = self._wait_for_address(0)


class Step(NamedTuple):
    """One attempt of a step as its worker saw it; the times are of the system's monotonic clock."""

    run_id: str
    task_id: str
    attempt: int
    begun: float
    ended: float


class Seen(msgspec.Struct, frozen=True):
    """Everything that a worker has seen since it was last asked."""

    steps: list[Step]
    welcomed: list[float]
    """The moments at which a server took it in."""
    seconds: float
    """The time since it was last asked."""


class WorkerProcess(Process):
    """A worker with the bench's agent (`bench.worker`)."""

    def __init__(self, target: str, folder: Path) -> None:
        self._out = folder / "seen.json"
        self._folder = folder
        super().__init__(["-m", "bench.worker", target, str(folder)], folder, "worker")

    def seen(self) -> Seen:
        """Return what it has seen since the last call."""
        self._out.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        self._wait_until(self._out.exists)
        return msgspec.json.decode(self._out.read_bytes(), type=Seen)

    def open_gate(self, task_id: str) -> None:
        """Let the task of type `gate` with this id go on."""
        (self._folder / f"gate-{task_id}").touch()

    async def reached_gate(self, task_id: str) -> None:
        """Wait until the task of type `gate` with this id has begun."""
        while not (self._folder / f"at-{task_id}").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.005)


class PingProcess(Process):
    """A client that calls the server's health all the time (`bench.pinger`); made once it does."""

    def __init__(self, target: str, folder: Path) -> None:
        self._out = folder / "pings.json"
        pinging = folder / "pinging"
        super().__init__(["-m", "bench.pinger", target, str(self._out)], folder, "pinger")
        self._wait_until(pinging.exists)

    def stop_and_read(self) -> list[tuple[float, float]]:
        """Stop it; return each call's begin and its milliseconds."""
        self.stop()
        return msgspec.json.decode(self._out.read_bytes(), type=list[tuple[float, float]])


class Arrival(NamedTuple):
    """One message of events as a reader got it."""

    at: float
    """Seconds of the system's clock, which the server's times are of, too."""
    numbers: tuple[int, ...]


class ReaderProcess(Process):
    """Streams that watch one run (`bench.reader`); made once all of them stand."""

    def __init__(
        self, target: str, folder: Path, name: str, *, run_id: str, after: int, streams: int
    ) -> None:
        self._out = folder / f"{name}.json"
        token = folder / "state/stepwell/token"
        what = (target, str(token), str(self._out), run_id, str(after), str(streams))
        super().__init__(["-m", "bench.reader", *what], folder, name)
        self._wait_until(self._out.with_suffix(".standing").exists)

    def read(self) -> list[list[Arrival]]:
        """Wait until the streams have ended; return what came to each."""
        if self._child.wait(PATIENCE_S) != 0:
            raise ProcessFailed(self.log.read_text()[-2000:])
        return msgspec.json.decode(self._out.read_bytes(), type=list[list[Arrival]])
