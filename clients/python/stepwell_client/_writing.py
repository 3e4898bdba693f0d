"""What steps write while they work, until it is sent: bounded, in order, from any thread.

No network here. Whoever sends asks for a batch and says what became of it; what comes meanwhile makes the
next one. A step never waits for its log: what finds no room is left out, and an entry says so.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from stepwell_client._limits import (
    ITEMS_PER_MESSAGE_MAX,
    LEVEL_CHARS_MAX,
    LOG_BYTES_PER_EXECUTION_MAX,
    LOG_ENTRY_BYTES,
    LOG_TEXT_BYTES_MAX,
)
from stepwell_client.v1 import types_pb2, worker_pb2

BUFFER_BYTES_MAX = 16 * 1024 * 1024
"""Of all executions together."""
PAGE_BYTES_MAX = 1024 * 1024
"""Of one execution."""
BATCH_BYTES_MAX = 1024 * 1024
"""Of one message; a single page's lines may exceed it by one."""
LEVEL_DEFAULT = "INFO"

_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")

Key = tuple[str, str]
"""Run and execution."""


class _Line:
    __slots__ = ("at", "kind", "level", "size", "text")

    def __init__(
        self, text: str, size: int, level: str, kind: types_pb2.LogKind, at: float
    ) -> None:
        self.text = text
        self.size = size
        self.level = level
        self.kind = kind
        self.at = at


class _Page:
    """What one execution has written and isn't kept yet."""

    __slots__ = ("closed", "dropped", "dropped_bytes", "lines", "sending", "size", "token", "used")

    def __init__(self, token: str) -> None:
        self.token = token
        self.lines: deque[_Line] = deque()
        self.size = 0
        self.used = 0
        """Of its share, counted as the server does."""
        self.dropped = 0
        self.dropped_bytes = 0
        self.sending = False
        self.closed = False
        """Nothing more is kept of it."""

    @property
    def is_quiet(self) -> bool:
        return self.closed or not (self.lines or self.sending or self.dropped)


class Buffer:
    """The pages of all executions in hand. Every method may be called from any thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._pages: dict[Key, _Page] = {}
        self._size = 0

    def write(self, key: Key, token: str, text: str, level: str, *, chunk: bool) -> bool:
        """Take a line or a piece; False: it was left out, and a word about that comes in its place."""
        kind = types_pb2.LOG_KIND_CHUNK if chunk else types_pb2.LOG_KIND_LINE
        level = level if len(level) <= LEVEL_CHARS_MAX and _LEVEL.fullmatch(level) else ""
        pieces = _pieces(text) if chunk else [_cut(text)]
        with self._lock:
            page = self._pages.get(key)
            if page is None:
                page = self._pages[key] = _Page(token)
            kept = True
            for piece, size in pieces:
                kept = self._add(page, piece, size, level or LEVEL_DEFAULT, kind) and kept
            return kept

    def _add(self, page: _Page, text: str, size: int, level: str, kind: types_pb2.LogKind) -> bool:
        if page.closed or page.used > LOG_BYTES_PER_EXECUTION_MAX:
            return False  # The first that was too much has left: the server says so in its place.
        room = min(PAGE_BYTES_MAX - page.size, BUFFER_BYTES_MAX - self._size)
        if page.dropped or size + LOG_ENTRY_BYTES > room:
            page.dropped += 1
            page.dropped_bytes += size
            return False
        last = page.lines[-1] if page.lines else None
        if (
            kind == types_pb2.LOG_KIND_CHUNK
            and last is not None
            and last.kind == kind
            and last.size + size <= LOG_TEXT_BYTES_MAX
        ):
            last.text += text
            last.size += size
        else:
            page.lines.append(_Line(text, size, level, kind, self._now()))
            size += LOG_ENTRY_BYTES
        page.size += size
        page.used += size
        self._size += size
        return True

    @property
    def has_lines(self) -> bool:
        """Whether there is anything to be sent."""
        with self._lock:
            return any(not page.is_quiet for page in self._pages.values())

    def take(self) -> worker_pb2.AppendRequest | None:
        """Return the next batch; None: there is nothing. `done` says that it is over."""
        request = worker_pb2.AppendRequest()
        with self._lock:
            room, now = BATCH_BYTES_MAX, self._now()
            for key, page in self._pages.items():
                if page.is_quiet:
                    continue
                if room <= 0 or len(request.appended) >= ITEMS_PER_MESSAGE_MAX:
                    break
                appended = request.appended.add(
                    run_id=key[0], execution_id=key[1], lease_token=page.token
                )
                room -= self._fill(page, appended, room, now)
                page.sending = True
            if len(request.appended) < len(self._pages):
                # Each has its turn: those that were served go to the end.
                for appended in request.appended:
                    key = (appended.run_id, appended.execution_id)
                    self._pages[key] = self._pages.pop(key)
        return request if request.appended else None

    def _fill(self, page: _Page, appended: worker_pb2.Appended, room: int, now: float) -> int:
        taken = 0
        while page.lines and taken < room and len(appended.logs) < ITEMS_PER_MESSAGE_MAX - 1:
            line = page.lines.popleft()
            taken += line.size + LOG_ENTRY_BYTES
            _add_line(appended, line.text, line.level, line.kind, now - line.at)
        page.size -= min(taken, page.size)
        self._size -= min(taken, self._size)
        if page.dropped and not page.lines:
            words = (
                f"[cut: {page.dropped:,} entries of {page.dropped_bytes:,} bytes left out: "
                "they came faster than they could be sent]"
            )
            page.used += LOG_ENTRY_BYTES + len(words)
            page.dropped = page.dropped_bytes = 0
            _add_line(appended, words, "WARNING", types_pb2.LOG_KIND_CUT, 0.0)
        return taken

    def done(self, request: worker_pb2.AppendRequest) -> list[Key]:
        """Note that a batch is kept, or given up; return the executions that have nothing more."""
        with self._lock:
            quiet: list[Key] = []
            for appended in request.appended:
                key = (appended.run_id, appended.execution_id)
                page = self._pages.get(key)
                if page is not None:
                    page.sending = False
                if page is None or page.is_quiet:
                    quiet.append(key)
            return quiet

    def is_quiet(self, key: Key) -> bool:
        """Whether everything that an execution wrote is kept, or can't be."""
        with self._lock:
            page = self._pages.get(key)
            return page is None or page.is_quiet

    def close(self, key: Key) -> None:
        """Keep nothing more of an execution: its lease is lost."""
        with self._lock:
            page = self._pages.get(key)
            if page is not None:
                page.closed = True
                self._clear(page)

    def forget(self, key: Key) -> None:
        """Let go of an execution that has ended."""
        with self._lock:
            page = self._pages.pop(key, None)
            if page is not None:
                self._clear(page)

    def _clear(self, page: _Page) -> None:
        self._size -= min(page.size, self._size)
        page.lines.clear()
        page.size = page.dropped = page.dropped_bytes = 0


def _add_line(
    appended: worker_pb2.Appended, text: str, level: str, kind: types_pb2.LogKind, age: float
) -> None:
    line = appended.logs.add(text=text, level=level, kind=kind)
    if age >= 0.001:
        line.age.FromTimedelta(timedelta(seconds=age))


def grow_older(request: worker_pb2.AppendRequest, seconds: float) -> None:
    """Put right how long ago the lines of a batch were written that is sent again so much later."""
    for appended in request.appended:
        for line in appended.logs:
            line.age.FromTimedelta(line.age.ToTimedelta() + timedelta(seconds=seconds))


def _cut(text: str) -> tuple[str, int]:
    """Return a line that is not too long, with how much of it is missing, and its size."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > LOG_TEXT_BYTES_MAX:
        kept = data[: LOG_TEXT_BYTES_MAX - 64].decode("utf-8", "ignore").encode()
        data = kept + f" … [cut: {len(data) - len(kept):,} bytes left out]".encode()
    return data.decode(), len(data)


def _pieces(text: str) -> list[tuple[str, int]]:
    """Return a piece of what the step is producing in parts that each are an entry."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= LOG_TEXT_BYTES_MAX:
        return [(data.decode(), len(data))] if data else []
    pieces: list[tuple[str, int]] = []
    start = 0
    while start < len(data):
        piece = data[start : start + LOG_TEXT_BYTES_MAX].decode("utf-8", "ignore")
        size = len(piece.encode())
        pieces.append((piece, size))
        start += size
    return pieces
