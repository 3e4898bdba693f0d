"""Splits what is sent or asked for, so that no message in either direction is too large."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.limits import STORE_MESSAGE_BYTES_MAX

ITEMS_MAX = 1_000
"""In one message."""
BYTES_MAX = STORE_MESSAGE_BYTES_MAX - 64 * 1024
"""Of one message, with room for what surrounds it."""
LIMIT_MAX = 1_000_000
"""What a page may be asked to hold."""

T = TypeVar("T")
R = TypeVar("R", bound=Message)


def packed(items: Sequence[T], make: Callable[[Sequence[T]], R]) -> Iterator[R]:
    """Yield requests that hold all items in their order; one where they fit, and also for none.

    Raises:
        InvalidArgument: an item alone is too large, or holds what no message can carry.
    """
    if len(items) <= ITEMS_MAX:
        request = storable(make, items)
        size = request.ByteSize()
        if size <= BYTES_MAX:
            yield request
            return
        if len(items) == 1:
            raise InvalidArgument(
                f"{size:,} bytes are more than a message to a Store service holds ({BYTES_MAX:,})",
                reason="TOO_LARGE",
            )
    half = len(items) // 2
    yield from packed(items[:half], make)
    yield from packed(items[half:], make)


def storable(make: Callable[..., R], *args: Any, **fields: Any) -> R:
    """Make a message.

    Raises:
        InvalidArgument: half a surrogate pair, or an integer beyond 64 bits.
    """
    try:
        return make(*args, **fields)
    except ValueError as error:
        words = f"a value can't be sent: {type(error).__name__}"
        raise InvalidArgument(words, reason="NOT_STORABLE") from error


def within(limit: int) -> int:
    """Return a page's limit as the protocol takes it: a page holds one thing at least."""
    return min(max(limit, 1), LIMIT_MAX)
