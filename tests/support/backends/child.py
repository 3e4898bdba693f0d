"""A server's process: started under the watchdog, its log kept, signalled and ended by its pid."""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.backends.keeper import GONE_S, KEEPER, discard, family, is_alive, send_signal
from tests.support.patience import PATIENCE_S

LOOK_S = 0.005
LOG_CHARS_MAX = 8_000
MEMORY_BYTES_MIN = 2 << 30


def _nothing() -> None: ...


before_start: Callable[[], None] = _nothing
"""Called before a server is started or shared; the tests' doors (tests/support/doors.py) may refuse it."""


class NotStarted(Exception):
    """A server didn't come up; the end of its log is in the message."""


def new_folder(name: str, inside: Path | None = None) -> Path:
    """An empty folder with a short path: a Unix socket's has 107 bytes at the most."""
    if inside is None and os.access("/tmp", os.W_OK):
        inside = Path("/tmp")
    folder = Path(tempfile.mkdtemp(prefix=f"sw-{name}-", dir=inside))
    KEEPER.watch_folder(folder)
    # Servers of another user pass through it; what they keep private has modes of its own.
    folder.chmod(0o755)
    return folder


@functools.cache
def memory_folder() -> Path | None:
    """A file system in memory with room for servers that need no disk, if there is one.

    Processes are killed in tests, machines aren't: what was written is there either way, and a
    disk that others write to makes a server ten times slower.
    """
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK) or shutil.disk_usage(folder).free < MEMORY_BYTES_MIN:
        return None
    return folder


def drop_folder(folder: Path) -> None:
    discard(folder)
    KEEPER.forget_folder(folder)


def until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Looks again and again until it holds, or the time is over."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(LOOK_S)
    return True


def becoming(user: str | None) -> list[str]:
    """Return the words before a command that another user is to run; none for ourselves.

    `subprocess` could become somebody else by itself, but only in a copy of this process that runs
    on for a while, and where gRPC has threads such a copy may crash.
    """
    if user is None:
        return []
    who = f"--userspec={user}:{pwd.getpwnam(user).pw_gid}"
    return ["/usr/sbin/chroot", who, "--groups=", "--skip-chdir", "/"]


class Child:
    """One process of one server; a restarted server has a new one."""

    def __init__(
        self, arguments: Sequence[str], *, folder: Path, log: Path, user: str | None = None
    ) -> None:
        before_start()
        self.log = log
        shell = ["/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh"]
        with log.open("ab") as out:
            # The shell waits for a word before it becomes the server, and we give it once the
            # watchdog knows the pid: there is no moment at which a server would be left behind.
            self._process = subprocess.Popen(
                [*shell, *becoming(user), *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
                # A Ctrl-C at the terminal is for pytest, which then stops its servers.
                start_new_session=True,
            )
        self.pid = self._process.pid
        KEEPER.watch(self.pid)
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        self._process.stdin.close()

    @property
    def running(self) -> bool:
        if self._process.poll() is None:
            return True
        KEEPER.forget(self.pid)
        return False

    def send(self, sign: int) -> None:
        if self.running:
            send_signal(self.pid, sign)

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Waits until it is ready, or raises `NotStarted` with its log."""
        if not until(lambda: not self.running or ready(), PATIENCE_S):
            raise NotStarted(f"{what} is not ready after {PATIENCE_S:g} s:\n{self.tail()}")
        if not self.running:
            raise NotStarted(f"{what} ended with {self._process.returncode}:\n{self.tail()}")

    def ended(self, limit_s: float = PATIENCE_S) -> bool:
        """Waits for its end, of its own accord or after a signal."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        KEEPER.forget(self.pid)
        return True

    def kill(self) -> None:
        """SIGKILL to it and to all of its children at once, as when the machine lost power."""
        if self.running:
            all_of_it = family(self.pid)
            for pid in all_of_it:
                send_signal(pid, signal.SIGKILL)
            self._process.wait()
            KEEPER.forget(self.pid)
            until(lambda: not any(map(is_alive, all_of_it)), GONE_S)

    def stop(self, sign: int = signal.SIGTERM) -> None:
        """Asks it to end, and kills it when it doesn't."""
        self.thaw()
        self.send(sign)
        if not self.ended():
            self.kill()

    def freeze(self) -> None:
        """SIGSTOP to all of it: connections stay open, and nobody answers."""
        if self.running:
            for pid in family(self.pid):
                send_signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self.running:
            for pid in reversed(family(self.pid)):
                send_signal(pid, signal.SIGCONT)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-LOG_CHARS_MAX:]
