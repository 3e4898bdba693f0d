"""A worker's leases in memory that its keeper shares.

The worker writes a lease before it starts the step, which takes no system call and wakes no process.
The keeper reads the table now and then. No lock is shared, because a worker whose interpreter is held
would hold that, too: a checksum tells a lease that is being written.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

SLOT_BYTES = 512
_NUMBERS = SLOT_BYTES // 8
_HEAD = struct.Struct("=II")
"""The size and the checksum of a lease's message."""
_REST = struct.Struct("=dddII")
"""The numbers of a slot after the first, and the head of its message."""
_TIMES = 4
"""A slot begins with four numbers, in the order of `KeptLease`; the first is 0 in a free slot."""
_TEXT = _TIMES * 8 + _HEAD.size

BEAT_AT, ACTIVE_AT = range(2)
"""The numbers of a slot that change."""
NoteTime = Callable[[int, float], None]
"""Notes BEAT_AT or ACTIVE_AT of a lease; a BEAT_AT of 0 takes it out of the table, once."""

WORKER_AT, RENEWED, USED = range(3)
"""Numbers of the table: when the worker's heartbeats last were at work, how many heartbeats keepers have sent, and
the last slot that was ever used."""


class KeptLease(NamedTuple):
    """A lease as the keeper reads it; times in seconds on the system's monotonic clock."""

    beat_at: float
    active_at: float
    interval: float
    idle_timeout: float
    lease: bytes
    """The message of `stepwell.v1.Lease`."""


class LeaseTable:
    """The shared memory, on both sides: the worker makes the file, the keeper is given it."""

    def __init__(self, slots: int, file: int | None = None) -> None:
        """Raises OSError if there is no shared memory."""
        size = (slots + 1) * SLOT_BYTES
        self.slots = slots
        self.file = _shared_file(size) if file is None else file
        self._memory = mmap.mmap(self.file, size)
        self.numbers = memoryview(self._memory).cast("d")
        """The numbers of the table, in the first slot, which holds no lease."""
        self._lock = threading.Lock()
        self._unused = list(range(slots, 0, -1))
        self._used = 0

    def add(
        self, lease: bytes, *, now: float, interval: float, idle_timeout: float
    ) -> NoteTime | None:
        """Add a lease; return what notes its times, in any thread, or None if there is no room for it."""
        with self._lock:
            if len(lease) > SLOT_BYTES - _TEXT or not self._unused:
                return None
            index = self._unused.pop()
            start = index * SLOT_BYTES
            rest = _REST.pack(now, interval, idle_timeout, len(lease), zlib.crc32(lease)) + lease
            self._memory[start + 8 : start + 8 + len(rest)] = rest
            self.numbers[index * _NUMBERS] = now
            if index > self._used:
                self._used = self.numbers[USED] = index
            return partial(self._note, index)

    def _note(self, index: int, place: int, at: float) -> None:
        with self._lock:
            if self.numbers[index * _NUMBERS]:
                self.numbers[index * _NUMBERS + place] = at
                if not self.numbers[index * _NUMBERS]:
                    self._unused.append(index)

    def leases(self) -> Iterator[KeptLease]:
        """Yield the leases, but for those that are being written."""
        for index in range(1, int(self.numbers[USED]) + 1):
            beat_at, active_at, interval, idle = self.numbers[index * _NUMBERS :][:_TIMES]
            start = index * SLOT_BYTES + _TEXT
            size, checksum = _HEAD.unpack_from(self._memory, start - _HEAD.size)
            lease = self._memory[start : start + size]
            if beat_at and zlib.crc32(lease) == checksum:
                yield KeptLease(beat_at, active_at, interval, idle, lease)


def _shared_file(size: int) -> int:
    """Return an open file without a name; its memory is taken as far as it is written."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("stepwell-leases")
    else:  # Not Linux.
        with tempfile.TemporaryFile() as made:
            file = os.dup(made.fileno())
    os.ftruncate(file, size)
    return file
