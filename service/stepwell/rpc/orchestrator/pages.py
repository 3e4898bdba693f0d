"""Pages: opaque tokens that only the query that made them can use, and pages that fit a message.

A token is the store's cursor behind a hash of the cursor, the tenant, the method and the query
without its page fields. Nothing in it is a secret; the hash proves that the token was issued for this
query of this tenant.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, PageTokenInvalid, Violation

PAGE_BYTES_MAX = 3 * 1024 * 1024
"""Most gRPC clients refuse a message above 4 MiB."""
_HASH_BYTES = 12


class PageRequest(Protocol):
    """The fields that the requests of all lists have."""

    page_size: int
    page_token: str


T = TypeVar("T")
M = TypeVar("M", bound=Message)


def size_of(request: PageRequest) -> int:
    """Return how many items the caller wants."""
    return request.page_size or limits.PAGE_SIZE_DEFAULT


def cursor_of(tenant_id: str, request: Any) -> str:
    """Return the store's cursor from the request's page token.

    Raises:
        PageTokenInvalid: it is malformed, or none of this query's.
    """
    token: str = request.page_token
    if not token:
        return ""
    try:
        raw = base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
        cursor = raw[_HASH_BYTES:].decode()
    except (binascii.Error, UnicodeError, ValueError):
        raise _invalid() from None
    # Encoded again: another spelling of the same bytes was not issued either.
    if token_of(tenant_id, request, cursor) != token:
        raise _invalid()
    return cursor


def token_of(tenant_id: str, request: Any, cursor: str) -> str:
    """Return the page token for this cursor; the end of the list has none."""
    if not cursor:
        return ""
    query = type(request)()
    query.CopyFrom(request)
    query.ClearField("page_size")
    query.ClearField("page_token")
    digest = hashlib.sha256()
    for part in (tenant_id, request.DESCRIPTOR.full_name, cursor):
        digest.update(f"{len(part)}:{part}".encode())
    digest.update(query.SerializeToString(deterministic=True))
    raw = digest.digest()[:_HASH_BYTES] + cursor.encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


async def read_page(
    read: Callable[[int], Awaitable[tuple[Sequence[T], str]]],
    show: Callable[[T], Awaitable[M | None]],
    limit: int,
) -> tuple[list[M], str]:
    """Return a page's messages and the cursor behind it; the page is cut where it gets too large.

    `read(limit)` returns items and the cursor behind them. `show` returns None for what is not to
    be in the list, so a page may be shorter than asked for, and empty before the last.
    """
    try:
        items, cursor = await read(limit)
        shown: list[M] = []
        room = PAGE_BYTES_MAX
        for count, item in enumerate(items):
            message = await show(item)
            if message is None:
                continue
            room -= message.ByteSize()
            if room < 0 and count:
                # The cursor behind a shorter page is only known to the store.
                _, cursor = await read(count)
                break
            shown.append(message)
    except InvalidArgument:
        raise _invalid() from None
    return shown, cursor


def _invalid() -> PageTokenInvalid:
    what = "is none that this query gave out; start again without it"
    return PageTokenInvalid(f"page_token {what}", (Violation("page_token", what),))
