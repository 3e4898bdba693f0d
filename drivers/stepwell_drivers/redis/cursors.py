"""Cursors: opaque to callers and checked here. Each names the list that it is a position in."""

from __future__ import annotations

import zlib
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from stepwell.core.records.errors import InvalidArgument, PageTokenInvalid

CHARS_MAX = 4_096
_STAMP_BYTES = 7
_STAMP_MAX = 1 << (8 * _STAMP_BYTES)

T = TypeVar("T")


def cursor_of(kind: str, place: object) -> str:
    """Return a position as text."""
    return urlsafe_b64encode(msgspec.msgpack.encode((kind, place))).decode().rstrip("=")


def place_of(cursor: str, kind: str, shape: type[T], start: T) -> T:
    """Return the position that a cursor stands for; "" is the start.

    Raises:
        InvalidArgument: no store made the cursor, or it belongs to another list.
    """
    if not cursor:
        return start
    try:
        found, place = msgspec.msgpack.decode(_bytes(cursor), type=tuple[str, shape])
    except (msgspec.DecodeError, ValueError):
        raise PageTokenInvalid("the page cursor is none of this store's") from None
    if found != kind:
        raise PageTokenInvalid("the page cursor is of another list")
    return place


def _bytes(cursor: str) -> bytes:
    if len(cursor) > CHARS_MAX or not cursor.isascii():
        raise ValueError(cursor[:10])
    padded = cursor + "=" * (-len(cursor) % 4)
    return b64decode(padded.encode(), altchars=b"-_", validate=True)


def feed_cursor(store_id: str, places: Sequence[int]) -> str:
    """Return a cursor of the feed: a stamp in each partition, in seven bytes each."""
    stamps = b"".join(place.to_bytes(_STAMP_BYTES, "big") for place in places)
    body = _mark(store_id) + stamps
    return urlsafe_b64encode(body).decode().rstrip("=")


def feed_places(cursor: str, store_id: str, partitions: int) -> list[int]:
    """Return a stamp in each partition.

    Raises:
        InvalidArgument: the cursor is not from this store.
    """
    try:
        body = _bytes(cursor)
    except ValueError:
        body = b""
    stamps = body[4:]
    if body[:4] != _mark(store_id) or len(stamps) != partitions * _STAMP_BYTES:
        raise InvalidArgument("the feed cursor is none of this store's")
    return [
        int.from_bytes(stamps[at : at + _STAMP_BYTES], "big")
        for at in range(0, len(stamps), _STAMP_BYTES)
    ]


def _mark(store_id: str) -> bytes:
    return zlib.crc32(store_id.encode()).to_bytes(4, "big")
