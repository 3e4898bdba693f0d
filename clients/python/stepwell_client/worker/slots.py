"""Default ids of workers:

`agent@host`, `agent@host-2` …, each held by one process at a time. A server gives the leases of an
id's older instance to the newer one, and ends the older. A restarted worker should therefore get
the same id, and concurrent workers need different ones. A slot is a lock file in the state folder:
the kernel frees it however its process ends, and the next worker takes the lowest free slot.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from itertools import count
from pathlib import Path

from stepwell_client.link.runtime import WorkerRuntime
from stepwell_client.token_file import default_token_file

try:
    import fcntl
except ImportError:  # Windows: see WorkerSlots.take.
    fcntl = None

BASE_CHARS_MAX = 112
"""An id has at most 128 characters; the rest is for the suffix."""

_log = logging.getLogger("stepwell_client.worker")


def base_id(agent_name: str) -> str:
    """Return `agent@host`, in characters that an id may have."""
    name = re.sub(r"[^A-Za-z0-9._:/@+-]", "-", f"{agent_name}@{socket.gethostname()}")
    return name.lstrip("._:/@+-")[:BASE_CHARS_MAX] or "worker"


class WorkerSlots:
    """The slots of one worker, from `take` to `release`."""

    def __init__(self, base: str, runtime: WorkerRuntime, folder: Path | None = None) -> None:
        """`base` is the id of the first slot, `folder` the folder of the locks; default: the state folder's `workers`."""
        self._base = base
        self._runtime = runtime
        self._folder = folder or default_token_file().parent / "workers"
        self._held: list[int] = []

    def take(self) -> str:
        """Take the first free slot and return its id.

        Slots that this worker took before stay held, because other users of their ids can't see the
        locks. Without a writable folder, or without file locks, the id is a new one each time.
        """
        try:
            # The state folder is made separately, because `parents` would make it readable by
            # others, and servers then refuse it.
            for folder in (self._folder.parent, self._folder):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return next(
                one
                for number in count(1)
                if self._lock(one := self._base if number == 1 else f"{self._base}-{number}")
            )
        except OSError as error:
            _log.warning(
                "no lock can be had in %s (%s): this worker's id is new at each start, so that what it"
                " holds waits for the lease's end after a crash; name one with worker_id",
                self._folder,
                error.strerror or error,
            )
            return f"{self._base}-{self._runtime.new_id()[:8]}"

    def release(self) -> None:
        """Free the slots. The files stay, because after their removal two workers could lock two different files."""
        while self._held:
            file = self._held.pop()
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_UN)  # A forked child may also have the file open.
            os.close(file)

    def _lock(self, worker_id: str) -> bool:
        """Lock the id's file; return whether it was free. Raises OSError if files can't be locked."""
        if fcntl is None:
            raise OSError("this system has no flock")
        path = self._folder / f"{worker_id.replace('/', '%')}.lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # Unlike lockf's, a lock of the open file also separates two workers of one process.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError:
            os.close(file)
            raise
        self._held.append(file)
        return True
