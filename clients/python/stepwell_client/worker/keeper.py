"""A worker's keeper, as the worker sees it: started with the first lease, again if it ends, ended with the worker."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepwell_client.errors import Misconfigured
from stepwell_client.link.runtime import WorkerRuntime
from stepwell_client.records.limits import CONCURRENCY_MAX
from stepwell_client.worker.lease_table import RENEWED, WORKER_AT, LeaseTable, NoteTime

KEEPER_VARIABLE = "STEPWELL_KEEPER"
SLOTS = 3 * CONCURRENCY_MAX
"""The most leases of a worker: running steps, and outcomes that are not acknowledged."""
# The package's own `__init__` imports all of the client, of which a keeper needs little.
_PROGRAM = """\
import sys, types
package = types.ModuleType("stepwell_client")
package.__path__ = sys.argv[1:2]
sys.modules["stepwell_client"] = package
from stepwell_client.worker.keeper_process import main
main()
"""

_log = logging.getLogger("stepwell_client.worker")


def is_wanted(given: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a worker is to have a keeper: as given, else as `STEPWELL_KEEPER` says, and where it can."""
    text = environ.get(KEEPER_VARIABLE, "").lower()
    if text not in {"", "0", "1", "false", "true"}:
        raise Misconfigured(f"{KEEPER_VARIABLE} is true or false, not {text!r}")
    wanted = given if given is not None else text not in {"0", "false"}
    can = os.name == "posix" and bool(sys.executable) and not getattr(sys, "frozen", False)
    return wanted and can


class Keeper:
    """Starts the process and fills its table. Any thread may use it."""

    def __init__(self, connection: Mapping[str, Any], runtime: WorkerRuntime) -> None:
        """`connection` has the arguments of `Connection`, for JSON."""
        self._connection = connection
        self._runtime = runtime
        self._table: LeaseTable | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._started_at = 0.0
        self._pause = 1.0
        self._renewed = 0.0

    def add(
        self, lease: bytes, *, now: float, interval: float, idle_timeout: float
    ) -> NoteTime | None:
        """Keep a lease from now on; return what notes its times, or None if it isn't kept."""
        if self._table is None:
            with self._lock:
                self._start(now)
        if self._table is None:
            return None
        return self._table.add(lease, now=now, interval=interval, idle_timeout=idle_timeout)

    def watch(self) -> None:
        """Note that the worker's heartbeats are at work; start another process if the last one has ended."""
        if self._table is None:
            return
        numbers, now = self._table.numbers, self._runtime.monotonic()
        silence, numbers[WORKER_AT] = now - numbers[WORKER_AT], now
        renewed, self._renewed = numbers[RENEWED] - self._renewed, numbers[RENEWED]
        if renewed:
            _log.warning(
                "this process sent no heartbeats for %.1f s, as when a function holds the interpreter; its"
                " keeper has sent %d for its leases",
                *(silence, renewed),
            )
        with self._lock:
            ended = self._process is not None and self._process.poll() is not None
            if ended and now - self._started_at > self._pause:
                self._pause *= 2
                self._start(now)

    def _start(self, now: float) -> None:
        self._started_at = now
        try:
            if self._table is None:
                self._table = LeaseTable(SLOTS)
                self._table.numbers[WORKER_AT] = now
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[1])],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[self._table.file],
            )
            given = (self._table.slots, self._table.file, os.getpid(), self._connection)
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(given, default=str).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            _log.warning(
                "this worker has no keeper (%s): a function that holds the interpreter for longer than a"
                " lease loses it",
                error,
            )

    def stop(self) -> None:
        """End the process; it has nothing to finish."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
            if self._table is not None:
                os.close(self._table.file)
