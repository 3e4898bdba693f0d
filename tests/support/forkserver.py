"""A warm process that has imported everything and forks a program at each call.

A Python server spends nearly a second of CPU on imports before it does anything, and a test that kills it
three hundred times pays that three hundred times. Here it is paid once: what is asked for is forked from a
process in which nothing was started yet (no thread, no loop, no gRPC core: `main` refuses otherwise), gets
arguments, environment and a log of its own, and runs the module that it names as `python -m` would. It is a
process like any other: killed by its pid, with nothing of its parent's open.

The owner holds a `Life` of each: a pidfd, which can't come to mean another process, and a pipe on which the
forkserver, whose child it is, writes its exit code once it has reaped it. When the owner ends, however that
came about, the forkserver ends, and the kernel kills what was forked from it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

TOP = Path(__file__).parents[2]
REQUEST_BYTES_MAX = 150_000
WARM = (
    "stepwell.cli.app",
    "stepwell.cli.commands.server",
    "stepwell.cli.commands.worker",
    "stepwell.rpc.server",
    "stepwell.rpc.store",
    "stepwell_testkit.proxy",
    "stepwell_drivers.redis",
    "stepwell_drivers.remote",
    "stepwell_drivers.sql.postgres",
    "stepwell_drivers.sql.sqlite",
    "alembic.command",
    "asyncpg",
    "redis.asyncio",
    "sqlalchemy.ext.asyncio",
    "uvloop",
)
"""Modules that servers, workers and stores import sooner or later. A missing one costs time and no more."""
_PR_SET_PDEATHSIG = 1


class Asked(NamedTuple):
    """A program to be forked."""

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]


class Life:
    """One forked process, as its owner sees it."""

    def __init__(self, pid: int, news: int) -> None:
        self.pid = pid
        self._news = news
        self._code: int | None = None
        # Its pid is its own until it has been reaped, and it may have been already.
        self._handle: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return the exit code, minus the signal where one ended it; None while it lives."""
        return self.wait(0)

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for its end, for so long at the most."""
        if self._code is None and self._has_news(seconds):
            said = os.read(self._news, 32)
            # Without a word the forkserver itself is gone, and with it all that it forked.
            self._code = int(said) if said else -signal.SIGKILL
            self._close()
        return self._code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; one who has just gone is no error."""
        if self._handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def _has_news(self, seconds: float | None) -> bool:
        polling = select.poll()
        polling.register(self._news, select.POLLIN)
        return bool(polling.poll(None if seconds is None else seconds * 1_000))

    def _close(self) -> None:
        os.close(self._news)
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class ForkServer:
    """The owner's end."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                cwd=TOP,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # A Ctrl-C at the terminal is for pytest, which then ends its programs.
                start_new_session=True,
            )

    def fork(self, asked: Asked, log: int) -> Life:
        """Fork a process that writes to `log`, the number of an open file."""
        news, back = os.pipe()
        try:
            with self._lock, contextlib.suppress(ConnectionError):
                socket.send_fds(self._socket, [json.dumps(asked).encode()], [log, back])
                if answer := self._socket.recv(32):
                    return Life(int(answer), news)
        finally:
            os.close(back)
        os.close(news)
        raise RuntimeError(f"the forkserver has ended with {self._process.wait()}")

    def close(self) -> None:
        """End it, and with it all that it forked."""
        self._socket.close()
        self._process.wait()


@functools.cache
def forkserver() -> ForkServer:
    """Return this process's one forkserver, started when it is first asked for."""
    begun = ForkServer()
    atexit.register(begun.close)
    return begun


# --- the forkserver's own process -------------------------------------------------------------------------


def _serve(owner: socket.socket) -> Asked:
    """Fork whatever is asked for. Returns in each child, and never in the forkserver itself."""
    own = os.getpid()
    watched = selectors.DefaultSelector()
    watched.register(owner, selectors.EVENT_READ)
    while True:
        for key, _ in watched.select():
            if key.fileobj is not owner:
                _reap(watched, key)
                continue
            text, given, _, _ = socket.recv_fds(owner, REQUEST_BYTES_MAX, 2)
            if not text:
                _go()
            asked = Asked(*json.loads(text))
            log, back = given
            pid = os.fork()
            if pid == 0:
                _detach(log, own)
                return asked
            os.close(log)
            watched.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, back))
            owner.send(str(pid).encode())


def _reap(watched: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pid, back = key.data
    _, status = os.waitpid(pid, 0)
    watched.unregister(key.fileobj)
    os.close(key.fd)
    with contextlib.suppress(BrokenPipeError):
        os.write(back, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(back)


def _go() -> NoReturn:
    """The owner is gone. Its children are ended by the kernel (`_detach`)."""
    os._exit(0)


def _detach(log: int, parent: int) -> None:
    """Become a process of one's own: nothing of the forkserver's is open, and it may not be outlived."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It has gone already; whoever takes over orphans, the first process or another, stays.
        os._exit(1)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _become(asked: Asked) -> None:
    if _for_interpreter(asked.environment) != _for_interpreter(os.environ):
        # Another path to import from, say: this interpreter has read its own, so it takes another.
        command = [sys.executable, "-m", asked.module, *asked.arguments]
        os.execve(sys.executable, command, dict(asked.environment))
    os.environ.clear()
    os.environ.update(asked.environment)
    sys.argv = [asked.module, *asked.arguments]
    runpy.run_module(asked.module, run_name="__main__", alter_sys=True)


def _for_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith("PYTHON")}


def main() -> None:
    """Import everything, then fork what is asked for."""
    owner = socket.socket(fileno=int(sys.argv[1]))
    for name in WARM:
        importlib.import_module(name)
    tasks = [*Path("/proc/self/task").iterdir()]
    assert len(tasks) == 1, f"a fork takes one thread along, and {len(tasks)} run"
    # What is there now stays: nobody need look through it, and its pages stay shared.
    gc.collect()
    gc.freeze()
    asked = _serve(owner)
    # In the child; outside of any function of the forkserver's that waits for something.
    owner.detach()
    _become(asked)


if __name__ == "__main__":
    main()
