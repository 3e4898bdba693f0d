"""The owner's end of a disk that forgets: mounts it, cuts its power, has its writes fail."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Self

from tests.chaos.disk.stored import PAGE, Survival
from tests.support.backends.child import drop_folder, new_folder
from tests.support.backends.required import missing
from tests.support.patience import PATIENCE_S

TOP = Path(__file__).parents[3]


def drawn(chance: Random, *, in_order: bool = False) -> Survival:
    """Return what survives the next cut: nothing, in two of five; else some of it, torn."""
    if chance.random() < 0.4:
        return Survival()
    share = chance.choice([0.0, 0.5, 0.95])
    return Survival(share, chance.choice([512, PAGE]), f"{chance.getrandbits(64):x}", in_order)


class Counted(NamedTuple):
    """Changes that programs asked of the disk."""

    changes: int
    refused: list[str]
    """The names of those operations that were to fail, in their order."""


class Disk:
    """A mounted file system of its own process; `folder` is where it is."""

    def __init__(self) -> None:
        self.folder = new_folder("disk", Path("/tmp"))
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-S", "-m", "tests.chaos.disk.served"),
                    *(str(self.folder), str(theirs.fileno())),
                ],
                cwd=TOP,
                pass_fds=[theirs.fileno()],
                # A Ctrl-C is for pytest, which then lets go of the disk, and that ends it.
                start_new_session=True,
            )
        ours.settimeout(PATIENCE_S)
        self._socket = ours
        self._lines = ours.makefile("rb")
        self._frozen = False

    def __enter__(self) -> Self:
        self._ask("counted")
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self._socket.close()
        self._process.wait()
        # Of a process that was killed, a dead mount would stay.
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)
        drop_folder(self.folder)

    def _ask(self, name: str, *arguments: object) -> Any:
        self._socket.sendall(json.dumps([name, *arguments]).encode() + b"\n")
        while "done" not in (said := self._next()):
            self._frozen = True
        return said["done"]

    def _next(self) -> dict[str, Any]:
        line = self._lines.readline()
        assert line, "the file system's process ended"
        return json.loads(line)

    def sync(self) -> None:
        """Have the disk keep all that is there: what a test prepared was synced long ago."""
        self._ask("sync")

    # --- power -------------------------------------------------------------------------------------

    def cut_at(self, nth: int, *, ops: Sequence[str] = ()) -> None:
        """Have power go off at the n-th change from here: from then on nobody gets an answer."""
        self._frozen = False
        self._ask("cut_at", nth, list(ops))

    def is_off(self, wait_s: float) -> bool:
        """Wait until power is off; tell whether it is."""
        if not self._frozen:
            self._socket.settimeout(wait_s)
            try:
                self._frozen = "frozen" in self._next()
            except TimeoutError:
                # The reader gives up for good after a time-out.
                self._lines = self._socket.makefile("rb")
            finally:
                self._socket.settimeout(PATIENCE_S)
        return self._frozen

    def off(self) -> None:
        """Power goes off now."""
        self._ask("freeze")

    def thaw(self) -> None:
        """Nothing was wrong with power: whoever was killed meanwhile, the disk and the system weren't."""
        self._ask("thaw")
        self._frozen = False

    def on(self, survival: Survival) -> None:
        """Power comes back. Who still waits gets an error: kill all of them before."""
        self._ask("restart", *survival)
        self._frozen = False

    def cut(self, kill: Callable[[], object], survival: Survival | None = None) -> None:
        """Cut power; `kill` sends SIGKILL to all that used the disk, and waits for nobody."""
        self.off()
        kill()
        self.on(survival or Survival())

    # --- faults ------------------------------------------------------------------------------------

    def fail(
        self, nth: int, number: int = errno.EIO, *, ops: Sequence[str] = (), forever: bool = False
    ) -> None:
        """Refuse the n-th change from here, or the n-th of these operations, once or from then on."""
        self._ask("fail", nth, number, list(ops), forever)

    def heal(self) -> Counted:
        """Refuse nothing any more; return what was asked for until now."""
        return Counted(*self._ask("clear"))

    def counted(self) -> Counted:
        """Return what was asked for since the last order."""
        return Counted(*self._ask("counted"))

    def save(self) -> None:
        """Remember what is synced now, for `back`."""
        self._ask("save")

    def back(self) -> None:
        """Have everything as it was saved; nobody may use the disk."""
        self._ask("back")


def why_not() -> str:
    """Return why there can be no such disk here, or ""."""
    if not Path("/dev/fuse").exists():
        return "there is no /dev/fuse here"
    if os.geteuid() != 0:
        return "only root can mount a file system"
    return ""


@contextmanager
def disk() -> Iterator[Disk]:
    """A disk for a test; skipped where there can be none."""
    if reason := why_not():
        missing("fuse", reason)
    with Disk() as found:
        yield found
