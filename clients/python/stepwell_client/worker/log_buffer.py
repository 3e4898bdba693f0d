"""A bounded, ordered, thread-safe buffer for steps' log entries until they are sent.

It has no network: a sender asks for a batch and reports when it is stored; entries written
meanwhile make the next batch. A step never waits for its log: entries that don't fit are left out,
and an entry counts them.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from stepwell_client.records.clean_text import storable_bytes
from stepwell_client.records.limits import (
    ITEMS_PER_MESSAGE_MAX,
    LEVEL_CHARS_MAX,
    LOG_BYTES_PER_EXECUTION_MAX,
    LOG_ENTRY_BYTES,
    LOG_TEXT_BYTES_MAX,
)
from stepwell_client.v1 import types_pb2, worker_pb2

BUFFER_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes of all executions together."""
EXECUTION_BYTES_MAX = 1024 * 1024
"""The most bytes of one execution."""
BATCH_BYTES_MAX = 1024 * 1024
"""The most bytes of one message; the last entry of an execution may exceed it."""
LEVEL_DEFAULT = "INFO"

_LEVEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")

ExecutionKey = tuple[str, str]
"""The ids of a run and an execution."""


class _Entry:
    __slots__ = ("at", "kind", "level", "size", "text")

    def __init__(
        self, text: str, size: int, level: str, kind: types_pb2.LogKind, at: float
    ) -> None:
        self.text = text
        self.size = size
        self.level = level
        self.kind = kind
        self.at = at


class _Pending:
    """The entries of one execution that are not stored yet."""

    __slots__ = (
        "closed",
        "dropped",
        "dropped_bytes",
        "entries",
        "sending",
        "size",
        "token",
        "used",
    )

    def __init__(self, token: str) -> None:
        self.token = token
        self.entries: deque[_Entry] = deque()
        self.size = 0
        self.used = 0
        """The bytes written so far, counted like the server does."""
        self.dropped = 0
        self.dropped_bytes = 0
        self.sending = False
        self.closed = False
        """True if further entries are dropped, because the lease is lost."""

    @property
    def is_quiet(self) -> bool:
        return self.closed or not (self.entries or self.sending or self.dropped)


class LogBuffer:
    """The unsent log entries of all running executions. Every method may be called from any thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._executions: dict[ExecutionKey, _Pending] = {}
        self._size = 0

    def write(self, key: ExecutionKey, token: str, text: str, level: str, *, chunk: bool) -> bool:
        """Add a line or a chunk; return False if it was left out, and counted by an entry instead."""
        kind = types_pb2.LOG_KIND_CHUNK if chunk else types_pb2.LOG_KIND_LINE
        level = level if len(level) <= LEVEL_CHARS_MAX and _LEVEL.fullmatch(level) else ""
        pieces = _chunks(text) if chunk else [_truncated(text)]
        with self._lock:
            pending = self._executions.get(key)
            if pending is None:
                pending = self._executions[key] = _Pending(token)
            kept = True
            for piece, size in pieces:
                kept = self._add(pending, piece, size, level or LEVEL_DEFAULT, kind) and kept
            return kept

    def _add(
        self, pending: _Pending, text: str, size: int, level: str, kind: types_pb2.LogKind
    ) -> bool:
        if pending.closed or pending.used > LOG_BYTES_PER_EXECUTION_MAX:
            # The first entry beyond the limit was sent, and the server writes a note instead of it.
            return False
        room = min(EXECUTION_BYTES_MAX - pending.size, BUFFER_BYTES_MAX - self._size)
        if pending.dropped or size + LOG_ENTRY_BYTES > room:
            pending.dropped += 1
            pending.dropped_bytes += size
            return False
        last = pending.entries[-1] if pending.entries else None
        if (
            kind == types_pb2.LOG_KIND_CHUNK
            and last is not None
            and last.kind == kind
            and last.size + size <= LOG_TEXT_BYTES_MAX
        ):
            last.text += text
            last.size += size
        else:
            pending.entries.append(_Entry(text, size, level, kind, self._now()))
            size += LOG_ENTRY_BYTES
        pending.size += size
        pending.used += size
        self._size += size
        return True

    @property
    def has_entries(self) -> bool:
        """True if there are entries to send."""
        with self._lock:
            return any(not pending.is_quiet for pending in self._executions.values())

    def next_batch(self) -> worker_pb2.AppendOutputRequest | None:
        """Return the next batch, or None. Call `batch_done` afterwards."""
        request = worker_pb2.AppendOutputRequest()
        with self._lock:
            room, now = BATCH_BYTES_MAX, self._now()
            for key, pending in self._executions.items():
                if pending.is_quiet:
                    continue
                if room <= 0 or len(request.appended) >= ITEMS_PER_MESSAGE_MAX:
                    break
                appended = request.appended.add(
                    lease=worker_pb2.Lease(run_id=key[0], execution_id=key[1], token=pending.token)
                )
                room -= self._fill(pending, appended, room, now)
                pending.sending = True
            if len(request.appended) < len(self._executions):
                # Round robin: served executions go to the end.
                for appended in request.appended:
                    key = (appended.lease.run_id, appended.lease.execution_id)
                    self._executions[key] = self._executions.pop(key)
        return request if request.appended else None

    def _fill(self, pending: _Pending, appended: worker_pb2.Appended, room: int, now: float) -> int:
        taken = 0
        while pending.entries and taken < room and len(appended.logs) < ITEMS_PER_MESSAGE_MAX - 1:
            entry = pending.entries.popleft()
            taken += entry.size + LOG_ENTRY_BYTES
            _add_entry(appended, entry.text, entry.level, entry.kind, now - entry.at)
        pending.size -= min(taken, pending.size)
        self._size -= min(taken, self._size)
        if pending.dropped and not pending.entries:
            note = (
                f"[cut: {pending.dropped:,} entries of {pending.dropped_bytes:,} bytes left out: "
                "they came faster than they could be sent]"
            )
            pending.used += LOG_ENTRY_BYTES + len(note)
            pending.dropped = pending.dropped_bytes = 0
            _add_entry(appended, note, "WARNING", types_pb2.LOG_KIND_CUT, 0.0)
        return taken

    def batch_done(self, request: worker_pb2.AppendOutputRequest) -> list[ExecutionKey]:
        """Mark a batch as stored, or given up; return its executions that have no more entries."""
        with self._lock:
            quiet: list[ExecutionKey] = []
            for appended in request.appended:
                key = (appended.lease.run_id, appended.lease.execution_id)
                pending = self._executions.get(key)
                if pending is not None:
                    pending.sending = False
                if pending is None or pending.is_quiet:
                    quiet.append(key)
            return quiet

    @staticmethod
    def add_age(request: worker_pb2.AppendOutputRequest, seconds: float) -> None:
        """Increase the age of a batch's entries, when it is sent again this many seconds later."""
        for appended in request.appended:
            for entry in appended.logs:
                entry.age.FromTimedelta(entry.age.ToTimedelta() + timedelta(seconds=seconds))

    def is_quiet(self, key: ExecutionKey) -> bool:
        """Return whether all entries of an execution are stored, or can't be."""
        with self._lock:
            pending = self._executions.get(key)
            return pending is None or pending.is_quiet

    def close(self, key: ExecutionKey) -> None:
        """Drop all present and future entries of an execution whose lease is lost."""
        with self._lock:
            pending = self._executions.get(key)
            if pending is not None:
                pending.closed = True
                self._clear(pending)

    def remove(self, key: ExecutionKey) -> None:
        """Remove an execution that has ended."""
        if key not in self._executions:
            return
        with self._lock:
            pending = self._executions.pop(key, None)
            if pending is not None:
                self._clear(pending)

    def _clear(self, pending: _Pending) -> None:
        self._size -= min(pending.size, self._size)
        pending.entries.clear()
        pending.size = pending.dropped = pending.dropped_bytes = 0


def _add_entry(
    appended: worker_pb2.Appended, text: str, level: str, kind: types_pb2.LogKind, age: float
) -> None:
    entry = appended.logs.add(text=text, level=level, kind=kind)
    if age >= 0.001:
        entry.age.FromTimedelta(timedelta(seconds=age))


def _truncated(text: str) -> tuple[str, int]:
    """Return a line, cut with a note if it is too long, and its size."""
    data = storable_bytes(text)
    if len(data) > LOG_TEXT_BYTES_MAX:
        kept = data[: LOG_TEXT_BYTES_MAX - 64].decode("utf-8", "ignore").encode()
        data = kept + f" … [cut: {len(data) - len(kept):,} bytes left out]".encode()
    return data.decode(), len(data)


def _chunks(text: str) -> list[tuple[str, int]]:
    """Return a chunk in pieces that each fit into an entry, with their sizes."""
    data = storable_bytes(text)
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
