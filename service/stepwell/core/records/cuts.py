"""Sizes of texts and failures, and failures cut to a size, for messages with a limit."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.records.model import Failure, Violation

_MARK = "…"
_MARK_BYTES = len(_MARK.encode())
_OVERHEAD_BYTES = 16
"""The size of a failure, or of one violation in it, without its texts."""


def text_bytes(text: str) -> int:
    """Return the bytes of a text in UTF-8; the text is encoded only if it isn't ASCII."""
    return len(text) if text.isascii() else len(text.encode())


def failure_bytes(failure: Failure) -> int:
    """Return the bytes that a failure takes in a message, or slightly more."""
    size = text_bytes(failure.kind) + text_bytes(failure.message) + text_bytes(failure.details)
    return size + _OVERHEAD_BYTES + sum(_violation_bytes(one) for one in failure.violations)


def cut_failure(failure: Failure, bytes_max: int) -> Failure:
    """Return the failure, cut to at most `bytes_max` bytes.

    If it is too large, the message loses its end, the details their beginning (a traceback's end
    tells most), and the last violations are left out. The kind, which has its own limit, stays.
    """
    if failure_bytes(failure) <= bytes_max:
        return failure
    room = bytes_max - _OVERHEAD_BYTES - text_bytes(failure.kind)
    message = _cut(failure.message, room // 2)
    room -= text_bytes(message)
    violations: list[Violation] = []
    for one in failure.violations:
        if _violation_bytes(one) > room:
            break
        violations.append(one)
        room -= _violation_bytes(one)
    details = _cut(failure.details, room, keep_end=True)
    return replace(failure, message=message, details=details, violations=tuple(violations))


def _cut(text: str, bytes_max: int, *, keep_end: bool = False) -> str:
    data = text.encode()
    if len(data) <= bytes_max:
        return text
    room = bytes_max - _MARK_BYTES
    if room <= 0:
        return ""
    if keep_end:
        return _MARK + data[-room:].decode("utf-8", "ignore")
    return data[:room].decode("utf-8", "ignore") + _MARK


def _violation_bytes(one: Violation) -> int:
    return _OVERHEAD_BYTES + text_bytes(one.field) + text_bytes(one.description)
