"""The keeper: a process that renews a worker's leases while the worker can't.

A function may hold the worker's interpreter in C for minutes, as a bad regular expression does. No
thread of the worker runs then, so none sends heartbeats. The keeper is another process, so it goes on. It
says nothing as long as the worker speaks for itself: it renews a lease that is half an interval overdue, with
the function's idle time as the worker noted it, so that `idle_timeout` means the function's own signs of life.

It ends with its worker: when the pipe from it does, or when its parent is another process. It leaves a worker
alone that a signal or a debugger has stopped (where /proc says so), or that has been silent for an hour.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepwell_client.link.runtime import Runtime
from stepwell_client.worker.lease_table import RENEWED, WORKER_AT, KeptLease, LeaseTable

OVERDUE = 1.5
"""The intervals after which a lease's heartbeat is overdue; a lease lasts for three or four."""
LOOKS = 4
"""The looks at the table in an interval."""
LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 0.02, 0.5
LOAD_SECONDS = 10.0
"""The time before a heartbeat may be due at which gRPC is loaded, as that takes about half of a start."""
BATCH_MAX = 500
"""The leases in a message."""
SILENCE_SECONDS_MAX = 3600.0
"""The silence of a worker after which its leases are left to run out."""

Renew = Callable[[Sequence[KeptLease], float], list[bool] | None]
"""Sends heartbeats at a moment; returns which leases are lost, or None without an answer."""


class KeeperLoop:
    """Reads the table until the worker has ended."""

    def __init__(self, table: LeaseTable, connection: Mapping[str, Any], worker_pid: int) -> None:
        """`connection` has the arguments of `Connection`."""
        self._table = table
        self._worker_pid = worker_pid
        self._runtime = Runtime()
        self._connection = connection
        self._send: Renew | None = None
        self._beats: dict[bytes, float] = {}
        """The times of the last heartbeats that were sent from here; infinite for a lost lease."""

    def run(self) -> None:
        """Renew leases until the worker is gone."""
        wait = 0.0
        while not select.select([sys.stdin], [], [], wait)[0] and os.getppid() == self._worker_pid:
            leases = list(self._table.leases())
            due = self._due(leases)
            for start in range(0, len(due), BATCH_MAX):
                self._renew(due[start : start + BATCH_MAX])
            look = min((one.interval / LOOKS for one in leases), default=LOOK_SECONDS_MAX)
            wait = max(LOOK_SECONDS_MIN, min(LOOK_SECONDS_MAX, look))

    def _due(self, leases: Sequence[KeptLease]) -> Sequence[KeptLease]:
        """Return the leases whose heartbeats are overdue, or none if the worker isn't to be kept."""
        now = self._runtime.monotonic()
        beats, self._beats = self._beats, {}
        due: list[KeptLease] = []
        for one in leases:
            sent_at = self._beats[one.lease] = beats.get(one.lease, 0.0)
            beat_at, idle_at = max(one.beat_at, sent_at), one.active_at + one.idle_timeout
            due_at = beat_at + OVERDUE * one.interval
            if one.idle_timeout and beat_at < idle_at:  # A heartbeat at that moment ends the step.
                due_at = min(due_at, idle_at + one.interval / LOOKS)
            if self._send is None and now >= due_at - LOAD_SECONDS:
                self._send = self._load()
            if now >= due_at:
                due.append(one)
        is_kept = now - self._table.numbers[WORKER_AT] < SILENCE_SECONDS_MAX
        return due if due and is_kept and not is_stopped(self._worker_pid) else ()

    def _load(self) -> Renew:
        from stepwell_client.worker.keeper_calls import KeeperCalls  # noqa: PLC0415 - see LOAD_SECONDS

        return KeeperCalls(self._connection).renew

    def _renew(self, due: Sequence[KeptLease]) -> None:
        assert self._send is not None
        now = self._runtime.monotonic()
        is_lost = self._send(due, now)
        if is_lost is None:
            return  # The next look tries again.
        self._table.numbers[RENEWED] += len(due)
        for one, lost in zip(due, is_lost, strict=False):
            self._beats[one.lease] = math.inf if lost else now


def is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped a process, as far as the system tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] in {"T", "t"}
    except OSError:
        return False


def main() -> None:
    """Keep the leases of the worker that started this process; its one line says how."""
    for number in (signal.SIGINT, signal.SIGTERM):  # A draining worker needs its leases, too.
        signal.signal(number, signal.SIG_IGN)
    slots, file, pid, connection = json.loads(sys.stdin.readline())
    KeeperLoop(LeaseTable(slots, file), connection, pid).run()
    os._exit(0)
