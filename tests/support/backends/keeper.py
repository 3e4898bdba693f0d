"""A watchdog: whatever a test process started ends with it, also when it is killed.

Run as a program, it reads one JSON line per change from its standard input: a process to watch
over, a folder to remove. Its input ends when the owner does, however that came about, and it
then kills what is left. `PR_SET_PDEATHSIG` would be shorter, but it follows the *thread* that
started the child, and servers are restarted from short-lived threads.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

GONE_S = 10.0
LOOK_S = 0.001
# So often one after the other it is seen waiting for a disk: a fork waits for no such time.
DISK_LOOKS = 20


def children(pid: int) -> list[int]:
    """The processes that `pid` started, as the kernel lists them now."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            # The name in brackets may hold anything, brackets too.
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def state(pid: int) -> str:
    """The kernel's letter for what it does; `X` for one that has gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "X"
    return stat.rpartition(")")[2].split()[0]


def is_alive(pid: int) -> bool:
    """Return true if it still runs; a process that waits to be reaped doesn't."""
    return state(pid) not in "ZX"


def send_signal(pid: int, sign: int) -> None:
    """Sends a signal; somebody who has just gone is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sign)


def family(pid: int) -> list[int]:
    """The process and its children, held still while they are counted, so that none is missed.

    A fork that goes on when the signal comes is finished first, and its child is one of them. Who
    waits for a disk isn't waited for: the disk may have been taken away, and meanwhile it forks nobody.
    """
    send_signal(pid, signal.SIGSTOP)
    end = time.monotonic() + GONE_S
    disk = 0
    while (now := state(pid)) not in "TtZX" and disk < DISK_LOOKS and time.monotonic() < end:
        disk = disk + 1 if now == "D" else 0
        time.sleep(LOOK_S)
    return [pid, *children(pid)]


def release_shared_memory(folder: Path) -> None:
    """Postgres keeps one System V segment, which outlives a killed postmaster."""
    for note in folder.glob("*/postmaster.pid"):
        try:
            _, shm_id = note.read_text().splitlines()[6].split()
        except (OSError, IndexError, ValueError):
            continue
        ctypes.CDLL(None).shmctl(int(shm_id), 0, None)  # 0 is IPC_RMID


def discard(folder: Path) -> None:
    """Removes a server's folder and what it left outside of it."""
    release_shared_memory(folder)
    shutil.rmtree(folder, ignore_errors=True)


class Keeper:
    """The owner's end: one watchdog per process, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def _report(self, **change: object) -> None:
        with self._lock:
            if self._process is None:
                # In a session of its own, a Ctrl-C or a killed process group passes it by.
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd="/",
                )
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(change).encode() + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Lets it go, and it ends what is left."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()

    def watch(self, pid: int) -> None:
        self._report(watch=pid)

    def forget(self, pid: int) -> None:
        self._report(forget=pid)

    def watch_folder(self, folder: Path) -> None:
        self._report(watch_folder=str(folder))

    def forget_folder(self, folder: Path) -> None:
        self._report(forget_folder=str(folder))


KEEPER = Keeper()
# Registered before all that stops servers, and so called after it.
atexit.register(KEEPER.close)


def main() -> None:
    """Reads changes until the owner is gone; then ends what is left of it."""
    watched: dict[int, int] = {}
    folders: list[str] = []
    for line in sys.stdin:
        change = json.loads(line)
        if "watch" in change:
            try:
                # Unlike a number, this can't come to mean another process.
                watched[change["watch"]] = os.pidfd_open(change["watch"])
            except ProcessLookupError:
                continue
        elif "forget" in change:
            handle = watched.pop(change["forget"], None)
            if handle is not None:
                os.close(handle)
        elif "watch_folder" in change:
            folders.append(change["watch_folder"])
        elif change["forget_folder"] in folders:
            folders.remove(change["forget_folder"])
    for pid, handle in watched.items():
        try:
            signal.pidfd_send_signal(handle, signal.SIGSTOP)
        except ProcessLookupError:
            continue
        for one in family(pid):
            send_signal(one, signal.SIGKILL)
    for folder in folders:
        discard(Path(folder))


if __name__ == "__main__":
    main()
