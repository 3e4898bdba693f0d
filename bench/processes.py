"""The processes that are measured, and what they cost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_ADDRESS = re.compile(r"listens on (127\.0\.0\.1:\d+)")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Process:
    """A child of ours, with its output in a file."""

    def __init__(self, arguments: list[str], folder: Path, name: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
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
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = _ADDRESS.search(self.log.read_text()[seen:])
            if found:
                return found[1]
            if not self.alive():
                break
            time.sleep(0.005)
        raise SystemExit(f"it did not start:\n{self.log.read_text()[seen:][-2000:]}")


class ServerProcess(Process):
    """A server on a store; `target` is where it listens."""

    def __init__(self, store: str, folder: Path, *, port: int = 0) -> None:
        seen = (folder / "server.log").stat().st_size if (folder / "server.log").exists() else 0
        super().__init__(
            ["-m", "stepwell", "serve", "--store", store, "--port", str(port)], folder, "server"
        )
        self.target = self._wait_for_address(seen)


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


class WorkerProcess(Process):
    """A worker with the bench's agent; it writes what it timed when it ends."""

    def __init__(self, target: str, folder: Path) -> None:
        self.times = folder / "times.json"
        super().__init__(["-m", "bench.worker", target, str(self.times)], folder, "worker")


@contextmanager
def running(store: str, folder: Path) -> Iterator[tuple[ServerProcess, WorkerProcess]]:
    """A server and a worker, stopped at the end."""
    server = ServerProcess(store, folder)
    worker = WorkerProcess(server.target, folder)
    try:
        yield server, worker
    finally:
        worker.stop()
        server.stop()
