"""The store's files as they were opened: whether they are still where others will look for them.

SQLite goes on writing to a file that was deleted or replaced, without a word. What it writes there is gone with
this process.
"""

from __future__ import annotations

import os
from pathlib import Path


class Files:
    """The database and its log, known by their inodes, which nobody else gets while they are open."""

    def __init__(self, path: Path) -> None:
        """Remember the files that are there now.

        Raises:
            OSError: one of them is missing.
        """
        self._path = path
        both = (path, path.with_name(path.name + "-wal"))
        self._inodes = {one: _inode(one.stat()) for one in both}
        self.log_bytes = both[1].stat().st_size
        """The size of the log's file when it was looked at last."""

    def loss(self) -> str:
        """Return what became of a file that is not where it was opened, in words; empty: all are there."""
        for path, inode in self._inodes.items():
            try:
                found = path.stat()
            except FileNotFoundError:
                return f"{str(path)!r} was deleted or moved"
            except OSError as error:
                return f"{str(path)!r} can't be looked at any more ({error.strerror})"
            if _inode(found) != inode:
                return f"{str(path)!r} was replaced by another file"
            self.log_bytes = found.st_size
        return ""

    def free_bytes(self) -> int:
        """Return the room on the disk, with what it reserves for root if this is root; none if that can't be told."""
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            return 0
        blocks = disk.f_bavail if os.geteuid() else disk.f_bfree
        return blocks * disk.f_frsize

    def has_room_for(self, database_bytes: int) -> bool:
        """Return whether the database's file can grow to that size."""
        return database_bytes - self._path.stat().st_size <= self.free_bytes()


def _inode(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
