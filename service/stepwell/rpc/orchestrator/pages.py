"""Pages: tokens that only the query that made them can use, and pages that fit into a message."""

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
    """The common fields of list requests."""

    page_size: int
    page_token: str


T = TypeVar("T")
M = TypeVar("M", bound=Message)
Reader = Callable[[int], Awaitable[tuple[Sequence[T], str]]]
"""Called with the most items to return; returns items and the cursor after them."""


def size_of(request: PageRequest) -> int:
    """Return the number of items that the caller wants."""
    return request.page_size or limits.PAGE_SIZE_DEFAULT


def cursor_of(tenant_id: str, request: Any) -> str:
    """Return the store's cursor from the request's page token.

    Raises:
        PageTokenInvalid: the token is malformed, or was not issued for this query.
    """
    if not request.page_token:
        return ""
    cursor = unseal(request.page_token, *_query_of(tenant_id, request))
    if cursor is None:
        raise _invalid()
    return cursor


def token_of(tenant_id: str, request: Any, cursor: str) -> str:
    """Return the page token for this cursor; "" at the end of the list."""
    return seal(cursor, *_query_of(tenant_id, request)) if cursor else ""


def _query_of(tenant_id: str, request: Any) -> tuple[str, str, bytes]:
    """Return the tenant, the method and the request without its page fields."""
    query = type(request)()
    query.CopyFrom(request)
    query.ClearField("page_size")
    query.ClearField("page_token")
    return tenant_id, request.DESCRIPTOR.full_name, query.SerializeToString(deterministic=True)


def rows_of(store: Store, query: Query[T]) -> Reader[T]:
    """Return the reader, for `read_page`, of a query's rows."""

    async def read(limit: int) -> tuple[Sequence[T], str]:
        page = await store.page(replace(query, limit=limit))
        return page.items, page.cursor

    return read


async def read_page(
    read: Reader[T],
    show: Callable[[T], Awaitable[M | None]],
    limit: int,
) -> tuple[list[M], str]:
    """Return a page's messages and the cursor after it; the page is cut if it gets too large.

    `show` returns None for rows to leave out, so a page may be shorter than requested, and empty
    before the last.
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
                # Only the store knows the cursor after a shorter page.
                _, cursor = await read(count)
                break
            shown.append(message)
    except InvalidArgument:
        raise _invalid() from None
    return shown, cursor


def _invalid() -> PageTokenInvalid:
    what = "is none that this query gave out; start again without it"
    return PageTokenInvalid(f"page_token {what}", (Violation("page_token", what),))
