"""Splits requests, so that no message in either direction is too large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from google.protobuf.message import Message
from msgspec.structs import replace

from stepwell.core.port import OldLogs, Query
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.limits import DURATION_MS_MAX, STORE_MESSAGE_BYTES_MAX
from stepwell.core.records.model import Record
from stepwell.wire.records import to_message
from stepwell.wire.store import Method

ITEMS_MAX = 1_000
"""The most items in one message."""
BYTES_MAX = STORE_MESSAGE_BYTES_MAX - 64 * 1024
"""The most bytes of items in one message, which leaves room for the rest of it."""
LIMIT_MAX = 1_000_000
"""The most items that a page may be asked for."""


class Packed(NamedTuple):
    """A request, and the message that carries it."""

    request: Record
    message: Message


def packed(method: Method, request: Record) -> Iterator[Packed]:
    """Yield as few requests as can carry all items of the method's list, in order.

    Raises:
        InvalidArgument: a single item is too large, or holds a value that no message can carry.
    """
    items = getattr(request, method.many) if method.many else ()
    if len(items) <= ITEMS_MAX:
        message = _message_of(request)
        size = message.ByteSize()
        if size <= BYTES_MAX:
            yield Packed(request, message)
            return
        if len(items) < 2:
            raise InvalidArgument(
                f"{size:,} bytes are more than a message to a Store service holds ({BYTES_MAX:,})",
                reason="TOO_LARGE",
            )
    for half in _halves(method, request):
        yield from packed(method, half)


def smaller(method: Method, request: Record) -> list[Record]:
    """Return requests that ask for the same in smaller answers; empty if a request can't be split."""
    if method.many:
        return _halves(method, request) if len(getattr(request, method.many)) > 1 else []
    for name in ("", *request.__struct_fields__):
        asked = getattr(request, name) if name else request
        limit = getattr(asked, "limit", 1)
        if limit > 1:
            less = replace(asked, limit=limit // 2)
            return [replace(request, **{name: less}) if name else less]
    return []


def bounded(request: Record) -> Record:
    """Return a request within the protocol's bounds: a page has at least one row, no number is below 0."""
    changes: dict[str, Any] = {}
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if isinstance(value, Query | OldLogs):
            changes[name] = bounded(cast("Record", value))
        elif type(value) is int:
            changes[name] = _bounded(name, value)
    return replace(request, **changes) if changes else request


def _bounded(name: str, value: int) -> int:
    if name == "limit":
        return min(max(value, 1), LIMIT_MAX)
    return min(max(value, 0), DURATION_MS_MAX) if name == "ttl_ms" else max(value, 0)


def _halves(method: Method, request: Record) -> list[Record]:
    items = getattr(request, method.many)
    half = len(items) // 2
    return [replace(request, **{method.many: part}) for part in (items[:half], items[half:])]


def _message_of(request: Record) -> Message:
    """Return the message that carries a request.

    Raises:
        InvalidArgument: the request holds half a surrogate pair, or an integer beyond 64 bits.
    """
    try:
        return to_message(request)
    except ValueError as error:
        words = f"a value can't be sent: {type(error).__name__}"
        raise InvalidArgument(words, reason="NOT_STORABLE") from error
