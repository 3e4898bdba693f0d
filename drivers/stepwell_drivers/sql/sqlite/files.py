"""Checks that the store's files are still the ones that were opened.

SQLite silently keeps writing to a file that was deleted or replaced; what it writes is lost when
this process ends.
"""

from __future__ import annotations

import os
from pathlib import Path


class Files:
    """The database and its log, identified by their inodes, which aren't reused while the files are open."""

    def __init__(self, path: Path) -> None:
        """Remember the files that are there now.

        Raises:
            OSError: one of them is missing.
        """
        self._path = path
        both = (path, path.with_name(path.name + "-wal"))
        self._inodes = {one: _inode(one.stat()) for one in both}
        self.log_bytes = both[1].stat().st_size
        """The size of the log's file when it was last checked."""

    def loss(self) -> str:
        """Return a message about a file that was moved, replaced or deleted; empty if all are in place."""
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
        """Return the free bytes on the disk, including those reserved for root if this is root; none if unknown."""
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
