"""One process holds the store: an exclusive lock file next to it, with the holder's pid inside.

The system's SQLite may have the WAL-reset bug, which two writing connections can trigger, so no
other process may write. The kernel frees the lock however the process ends, and a fork doesn't
inherit it. The lock doesn't exclude its own process, so the module also keeps a list of held files.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from stepwell.core.records.errors import StoreRefused

_held: set[Path] = set()
_guard = threading.Lock()


class FileLock:
    """The lock on one store's file, held from construction to `release`."""

    def __init__(self, path: Path) -> None:
        """Acquire the lock.

        Raises:
            StoreRefused: another process, or this one, already has it.
        """
        self._path = path
        self._pid = os.getpid()
        with _guard:
            if path in _held:
                raise StoreRefused(
                    f"{str(path)!r} is open in this very process (pid {self._pid}); share that"
                    " store, or close it first"
                )
            self._file = _lock(path)
            _held.add(path)

    def release(self) -> None:
        """Release the lock. The file stays, because after its removal two processes could lock two different files."""
        with _guard:
            if self._path not in _held:
                return
            _held.discard(self._path)
            os.close(self._file)


def _lock(path: Path) -> int:
    name = path.with_name(path.name + ".lock")
    try:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreRefused(f"the lock {str(name)!r} can't be opened: {error.strerror}") from error
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        holder = os.pread(file, 32, 0).decode(errors="replace").strip()
        os.close(file)
        if not isinstance(error, BlockingIOError | PermissionError):
            raise StoreRefused(
                f"the lock {str(name)!r} can't be written: {error.strerror}"
            ) from error
        raise StoreRefused(
            f"{str(path)!r} is held by another process (pid {holder or 'unknown'}); stop it, or"
            " connect to it: one process holds a SQLite file"
        ) from None
    return file


def forget_after_fork() -> None:
    """Forget held locks in a forked child: the locks and the stores are the parent's."""
    _held.clear()


os.register_at_fork(after_in_child=forget_after_fork)
