"""Pages: tokens that only the query that made them can use, and pages that fit a message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message
from msgspec.structs import replace

from stepwell.core.port import Query, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import InvalidArgument, PageTokenInvalid, Violation
from stepwell.rpc.orchestrator.tokens import seal, unseal

PAGE_BYTES_MAX = 3 * 1024 * 1024
"""Most gRPC clients refuse a message above 4 MiB."""


class PageRequest(Protocol):
    """The fields that the requests of all lists have."""

    page_size: int
    page_token: str


T = TypeVar("T")
M = TypeVar("M", bound=Message)
Reader = Callable[[int], Awaitable[tuple[Sequence[T], str]]]
"""Called with the most items to return; returns them and the cursor behind them."""


def size_of(request: PageRequest) -> int:
    """Return how many items the caller wants."""
    return request.page_size or limits.PAGE_SIZE_DEFAULT


def cursor_of(tenant_id: str, request: Any) -> str:
    """Return the store's cursor from the request's page token.

    Raises:
        PageTokenInvalid: it is malformed, or was not issued for this query.
    """
    if not request.page_token:
        return ""
    cursor = unseal(request.page_token, *_query_of(tenant_id, request))
    if cursor is None:
        raise _invalid()
    return cursor


def token_of(tenant_id: str, request: Any, cursor: str) -> str:
    """Return the page token for this cursor; the end of the list has none."""
    return seal(cursor, *_query_of(tenant_id, request)) if cursor else ""


def _query_of(tenant_id: str, request: Any) -> tuple[str, str, bytes]:
    """Return the tenant, the method and the request without its page fields."""
    query = type(request)()
    query.CopyFrom(request)
    query.ClearField("page_size")
    query.ClearField("page_token")
    return tenant_id, request.DESCRIPTOR.full_name, query.SerializeToString(deterministic=True)


def rows_of(store: Store, query: Query[T]) -> Reader[T]:
    """Return the reader, for `read_page`, of the rows that a query asks for."""

    async def read(limit: int) -> tuple[Sequence[T], str]:
        page = await store.page(replace(query, limit=limit))
        return page.items, page.cursor

    return read


async def read_page(
    read: Reader[T],
    show: Callable[[T], Awaitable[M | None]],
    limit: int,
) -> tuple[list[M], str]:
    """Return a page's messages and the cursor behind it; the page is cut where it gets too large.

    `show` returns None for what is not to
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
