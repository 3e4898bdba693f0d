"""The contents of a disk, which differ from what programs see until a sync.

A program sees each write at once; the disk surely has it after a sync. Between the two it is undefined: at a
power cut each block of a file may be as any write since the last sync left it, and the file as long as it
was after any of them; or, where it is asked for, all up to some moment is there and nothing behind it. A
folder's changes reach the disk in their order, as a journal brings them there.

A sync that fails lets go of what it should have written, as Linux does: programs go on seeing it in memory,
the next sync says that all is well, and the disk never gets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Generic, NamedTuple, TypeVar

PAGE = 4_096

N = TypeVar("N")


class Survival(NamedTuple):
    """The fate of unsynced writes at a power cut."""

    share: float = 0.0
    """The probability that a block has its last write."""
    block: int = PAGE
    """The bytes that a disk writes whole or not at all: 512 or 4,096."""
    seed: str = ""
    """Empty: nothing unsynced survives."""
    in_order: bool = False
    """A file gets its writes one after the other, so what is lost of them is the end: there are no holes."""

    def chance(self) -> Random | None:
        """Return the stream that decides, or None: nothing survives."""
        return Random(self.seed) if self.seed else None


class _Write(NamedTuple):
    offset: int
    data: bytes | None
    """None: the file was cut, or grew by zeros, to `offset`."""


class Contents:
    """The bytes of one file."""

    def __init__(self, data: bytes | bytearray = b"") -> None:
        self.data = bytearray(data)
        """As programs see it."""
        self._kept_bytes = len(data)
        self._before: dict[int, bytes] = {}
        """Pages written since the last sync, as the disk has them."""
        self._gone: dict[int, bytes] = {}
        """Pages that a failed sync let go of, as the disk has them."""
        self._writes: list[_Write] = []

    def write(self, offset: int, data: bytes) -> None:
        self._remember(offset, offset + len(data))
        self._writes.append(_Write(offset, data))
        _put(self.data, offset, data)

    def resize(self, size: int) -> None:
        self._remember(size, max(len(self.data), size))
        self._writes.append(_Write(size, None))
        _resize(self.data, size)

    def _remember(self, start: int, end: int) -> None:
        """Keep the pages as the disk has them, unless they are kept already."""
        # What lies behind the end is zeros, on the disk as in memory.
        for page in range(start // PAGE, -(-min(end, len(self.data)) // PAGE)):
            if page not in self._before:
                at = page * PAGE
                known = self._gone.pop(page, None)
                self._before[page] = bytes(self.data[at : at + PAGE]) if known is None else known

    def sync(self) -> None:
        """The disk has all that programs see, but for what an earlier sync let go of."""
        self._before.clear()
        self._writes.clear()
        self._kept_bytes = len(self.data)

    def fail_to_sync(self) -> None:
        """Let go of what was written since the last sync."""
        self._gone |= self._before
        # New pages were never kept: the disk has zeros there.
        for write in self._writes:
            if write.data is not None:
                first = max(write.offset, self._kept_bytes) // PAGE
                for page in range(first, -(-(write.offset + len(write.data)) // PAGE)):
                    self._gone.setdefault(page, b"")
        self._before.clear()
        self._writes.clear()

    @property
    def synced(self) -> bool:
        """Return true if a power cut would change nothing."""
        return not (self._writes or self._gone)

    def after_cut(self, survival: Survival) -> bytearray:
        """Return what the disk has when power comes back."""
        image = bytearray(self.data)
        _resize(image, max(len(image), self._kept_bytes))
        for page, data in (self._gone | self._before).items():
            _put(image, page * PAGE, data.ljust(PAGE, b"\0"))
        _resize(image, self._kept_bytes)
        chance = survival.chance()
        if chance is not None and self._writes:
            survive = self._survive_in_order if survival.in_order else self._survive
            survive(image, survival, chance)
        return image

    def _survive_in_order(self, image: bytearray, survival: Survival, chance: Random) -> None:
        """Put in what reached the disk unasked: all writes up to some block of one of them."""
        steps: list[_Write] = []
        for write in self._writes:
            if write.data is None:
                steps.append(write)
                continue
            blocks = _blocks(write.offset, write.data, survival.block)
            steps += [_Write(start, data) for _, start, data in blocks]
        whole = chance.random() < survival.share
        for step in steps if whole else steps[: chance.randint(0, len(steps))]:
            if step.data is None:
                _resize(image, step.offset)
            else:
                _put(image, step.offset, step.data)

    def _survive(self, image: bytearray, survival: Survival, chance: Random) -> None:
        """Put in what reached the disk unasked: of each block the writes up to some moment."""
        count = len(self._writes)
        sized = count if chance.random() < 0.5 else chance.randint(0, count)
        until: dict[int, int] = {}
        size = self._kept_bytes
        for at, write in enumerate(self._writes):
            if at < sized:
                size = _size_after(size, write)
            if write.data is None:
                if at < sized:
                    _resize(image, write.offset)
                continue
            for block, start, data in _blocks(write.offset, write.data, survival.block):
                if block not in until:
                    whole = chance.random() < survival.share
                    until[block] = count if whole else chance.randint(0, count)
                if at < until[block]:
                    _put(image, start, data)
        _resize(image, size)


def _size_after(size: int, write: _Write) -> int:
    if write.data is None:
        return write.offset
    return max(size, write.offset + len(write.data))


def _blocks(offset: int, data: bytes, size: int) -> list[tuple[int, int, bytes]]:
    """Cut a write at the borders of blocks: number of the block, offset, bytes."""
    found: list[tuple[int, int, bytes]] = []
    at, end = offset, offset + len(data)
    while at < end:
        border = min((at // size + 1) * size, end)
        found.append((at // size, at, data[at - offset : border - offset]))
        at = border
    return found


def _put(image: bytearray, offset: int, data: bytes) -> None:
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _resize(image: bytearray, size: int) -> None:
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


class Names(Generic[N]):
    """The entries of one folder."""

    def __init__(self, entries: Mapping[bytes, N] | None = None) -> None:
        self.entries: dict[bytes, N] = dict(entries or {})
        """As programs see them."""
        self._kept = dict(self.entries)
        self._changes: list[Mapping[bytes, N | None]] = []

    def change(self, entries: Mapping[bytes, N | None]) -> None:
        """Put these names (None: take it away), all of them in one step."""
        _apply(self.entries, entries)
        self._changes.append(entries)

    def sync(self) -> None:
        self._kept = dict(self.entries)
        self._changes.clear()

    def after_cut(self, survival: Survival) -> dict[bytes, N]:
        """Return the entries that are there when power comes back."""
        found = dict(self._kept)
        chance = survival.chance()
        if chance is not None:
            for change in self._changes[: chance.randint(0, len(self._changes))]:
                _apply(found, change)
        return found


def _apply(entries: dict[bytes, N], change: Mapping[bytes, N | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node
