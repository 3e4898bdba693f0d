"""The structures of linux/fuse.h by which the kernel talks to a file system in a process.

Read and written by hand: no library, no compiler, and each request is ours to answer, late or never.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct


class Op(IntEnum):
    """Requests of the kernel; others are answered with ENOSYS, and it finds another way."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    READ = 15
    WRITE = 16
    STATFS = 17
    FSYNC = 20
    INIT = 26
    READDIR = 28
    FSYNCDIR = 30
    INTERRUPT = 36
    BATCH_FORGET = 42
    RENAME2 = 45


UNANSWERED = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})

MAJOR, MINOR = 7, 31
WRITE_BYTES_MAX = 1 << 20
BUFFER_BYTES = WRITE_BYTES_MAX + (64 << 10)
BIG_WRITES, MAX_PAGES, NO_OPEN, NO_OPENDIR = 1 << 5, 1 << 22, 1 << 17, 1 << 24
WRITE_CACHE = 1
"""The kernel writes a page that was mapped, whenever it likes."""

REQUEST = Struct("=IIQQIIIHH")
"""Length, operation, number, node, user, group, process, and two of no use."""
REPLY = Struct("=IiQ")
INIT_IN = Struct("=IIII")
INIT_OUT = Struct("=IIIIHHIIHHIIH22x")
ATTRIBUTES = Struct("=QQQQQQIIIIIIIIII")
ATTRIBUTES_OUT = Struct("=QII")
ENTRY_OUT = Struct("=QQQQII")
SETATTR_IN = Struct("=IIQQQQQQIIIIIIII")
MKNOD_IN = Struct("=IIII")
MKDIR_IN = Struct("=II")
NODE_IN = Struct("=Q")
RENAME2_IN = Struct("=QII")
READ_IN = Struct("=QQIIQII")
WRITE_IN = Struct("=QQIIQII")
WRITE_OUT = Struct("=II")
BATCH_IN = Struct("=II")
FORGET_ONE = Struct("=QQ")
STATFS_OUT = Struct("=QQQQQIIII24x")
DIRENT = Struct("=QQII")

SET_MODE, SET_UID, SET_GID, SET_SIZE = 1, 2, 4, 8
SET_MTIME, SET_MTIME_NOW = 32, 256


def names(body: bytes) -> list[bytes]:
    """Return the names that end a request."""
    return body.split(b"\0")[:-1]


def dirent(number: int, node: int, kind: int, name: bytes) -> bytes:
    """Return one entry of a folder's listing; `number` is where the next one begins."""
    entry = DIRENT.pack(node, number, len(name), kind) + name
    return entry.ljust(-(-len(entry) // 8) * 8, b"\0")
