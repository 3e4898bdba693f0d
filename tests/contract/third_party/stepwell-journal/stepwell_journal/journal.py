"""The file: whole entries, one after the other, each on the disk before anybody is told of it.

A header (the magic, the store's id, a salt), then frames: a mark, the length, a checksum, the bytes.
One frame is written at a time and the next only after the fsync, so that a crash can tear no more
than the last one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from stepwell.core.port import Runtime
from stepwell.core.records.errors import OutcomeUnknown, StoreFull, StoreRefused, StoreUnavailable

_MAGIC = b"stepwell-journal 1\n"
_HEADER = struct.Struct(f">{len(_MAGIC)}s32s32s")
_MARK = b"\xf1jrn"
_FRAME = struct.Struct(">4sII")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Journal:
    """An open file that nobody else has open. Used by one thread at a time."""

    def __init__(self, path: Path, runtime: Runtime) -> None:
        self._path = path
        self.broken = False
        """The content of the file is unknown, so it must be read again before anything else."""
        self._open: list[int] = []
        try:
            self._open.append(_lock(path))
            if not path.exists():
                _create(path, runtime)
            self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._open.append(self._file)
        except OSError as error:
            self.close()
            raise StoreRefused(f"{str(path)!r} can't be opened: {error.strerror}") from error
        header = os.pread(self._file, _HEADER.size, 0)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            self.close()
            raise StoreRefused(f"{str(path)!r} is no journal of this version; it was left alone")
        _, store_id, salt = _HEADER.unpack(header)
        self.store_id = store_id.decode()
        self._seed = zlib.crc32(salt)
        self._end = _HEADER.size

    def replay(self) -> Iterator[bytes]:
        """Yield what was appended; afterwards the file ends with its last whole frame."""
        data = self._path.read_bytes()
        while (body := self._frame(data, self._end)) is not None:
            yield body
            self._end += _FRAME.size + len(body)
        at = self._end
        while (at := data.find(_MARK, at + 1)) >= 0:
            if self._frame(data, at) is not None:
                # No crash leaves that: what was acknowledged has been damaged since.
                raise StoreRefused(
                    f"{str(self._path)!r} is damaged at byte {self._end}, and whole entries follow"
                    f" at byte {at}: restore a backup"
                )
        os.ftruncate(self._file, self._end)
        os.fsync(self._file)

    def append(self, body: bytes) -> None:
        """Write an entry and wait until the disk has it.

        Raises:
            StoreUnavailable: nothing was written (StoreFull: there is no room).
            OutcomeUnknown: it may be there or not; the journal is broken until it is reopened.
        """
        mark = _FRAME.pack(_MARK, len(body), zlib.crc32(body, self._seed))
        rest = memoryview(mark + body)
        try:
            while rest:
                at = self._end + len(mark) + len(body) - len(rest)
                rest = rest[os.pwrite(self._file, rest, at) :]
        except OSError as error:
            self._take_back(error)
        try:
            os.fsync(self._file)
        except OSError as error:
            # The kernel may have dropped the pages: a second fsync would say nothing of them.
            self.broken = True
            raise OutcomeUnknown(f"the journal's fsync failed: {error.strerror}") from error
        self._end += len(mark) + len(body)

    def close(self) -> None:
        """Let go of the file, then of the lock."""
        while self._open:
            os.close(self._open.pop())

    def _frame(self, data: bytes, at: int) -> bytes | None:
        if at + _FRAME.size > len(data):
            return None
        mark, length, checksum = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        # The salt: no user's bytes look like a frame of this file.
        whole = len(body) == length and zlib.crc32(body, self._seed) == checksum
        return body if mark == _MARK and whole else None

    def _take_back(self, error: OSError) -> None:
        try:
            os.ftruncate(self._file, self._end)
        except OSError:
            self.broken = True
        kind = StoreFull if error.errno in _NO_ROOM else StoreUnavailable
        raise kind(f"the journal can't be written: {error.strerror}") from error


def _lock(path: Path) -> int:
    """Hold a file beside the journal: a journal that is being made can't be locked itself."""
    file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise StoreRefused(f"{str(path)!r} is in use: one process holds a journal") from None
    return file


def _create(path: Path, runtime: Runtime) -> None:
    """Make an empty journal: the whole header is there, or no file."""
    new = path.with_name(f"{path.name}.new")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        tokens = (runtime.new_token().encode(), runtime.new_token().encode())
        os.write(file, _HEADER.pack(_MAGIC, *tokens))
        os.fsync(file)
    finally:
        os.close(file)
    new.replace(path)
    # A file whose name is not on the disk is lost with all that is in it.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
