"""Answers in a form on which two stores must agree, and brief descriptions of differences."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from stepwell.core.port import (
    FeedQuery,
    JournalQuery,
    LeaseQuery,
    Loaded,
    LogQuery,
    PresenceQuery,
    Query,
    QuestionQuery,
    Store,
)
from stepwell.core.records.errors import InvalidArgument

PAGES_MAX = 2_000
SHOWN_MAX = 1_200


class Differs(Exception):
    """A driver answered differently from the reference, or not as the port says."""


class Failed(msgspec.Struct, frozen=True):
    """A call that raised, as an answer."""

    error: str
    text: str = ""


class Reader:
    """Reads a list to its end, and continues later; page boundaries are the driver's."""

    def __init__(self, query: Query[Any]) -> None:
        self.query = query
        self.rows: list[Any] = []

    async def page(self, store: Store, limit: int) -> bool:
        """Read one page; return whether more may follow."""
        limits = {"limit": limit} if limit else {}
        page = await store.page(replace(self.query, **limits))
        if len(page.items) > (limit or len(page.items)):
            raise Differs(f"a page of {len(page.items)} where at most {limit} were asked for")
        self.query = replace(self.query, cursor=page.cursor) if page.cursor else self.query
        self.rows += page.items
        # A log, a journal and the feed have a cursor also at their ends, where a page is empty.
        on_and_on = isinstance(self.query, FeedQuery | LogQuery | JournalQuery)
        return bool(page.items if on_and_on else page.cursor)

    async def read(self, store: Store, limit: int) -> list[Any]:
        """Read to the end, and return all rows so far."""
        for _ in range(PAGES_MAX):
            if not await self.page(store, limit):
                return self.rows
        raise Differs(f"more than {PAGES_MAX} pages, and no end")


async def listed(store: Store, query: Query[Any]) -> list[Any]:
    """Return all rows of a query, sorted if the port gives no order."""
    rows = await Reader(query).read(store, getattr(query, "limit", 0))
    match query:
        case QuestionQuery():  # Ordered by creation times, which come from their writers.
            return sorted(rows, key=lambda one: (one.run_id, one.question.question_id))
        case PresenceQuery():
            return sorted(rows, key=lambda one: (one.worker_id, one.instance_id))
        case JournalQuery():  # Two clocks stamped them.
            return [
                replace(one, written_us=0, until_us=one.until_us and one.until_us - one.written_us)
                for one in rows
            ]
        case LeaseQuery():
            return sorted(rows, key=lambda one: (one.run_id, one.execution_id))
        case _:
            return rows


async def answered(answer: Awaitable[object]) -> object:
    """Return the answer, which may be an error."""
    try:
        return await answer
    except Differs:
        raise
    except InvalidArgument:
        return Failed("InvalidArgument")
    except Exception as error:  # noqa: BLE001 - a driver may raise anything
        return Failed(type(error).__name__, str(error))


async def loaded(store: Store, key: tuple[str, str], since: int) -> list[object]:
    """Return a run's rows since a version (None if the store returned all), all rows, and the run."""
    rows = await store.load(*key, since=since)
    if rows is None:
        return [None, None, await store.get_run(*key)]
    if not 0 < since <= rows.run.version and not rows.complete:
        raise Differs(f"load since {since} answered with a part of a run at {rows.run.version}")
    whole = rows if rows.complete else await store.load(*key)
    assert whole is not None
    part = None if rows.complete else sorted_rows(rows)
    return [part, sorted_rows(whole), await store.get_run(*key)]


def sorted_rows(rows: Loaded) -> tuple[object, ...]:
    """Return rows in an order that drivers need not keep; plans and requests stay in order."""
    return (
        rows.run,
        rows.plans,
        sorted(rows.tasks, key=lambda task: task.task_id),
        sorted(rows.executions, key=lambda row: row.execution.execution_id),
        sorted(rows.questions, key=lambda row: row.question_id),
        rows.requests,
        rows.checkpoint,
    )


def must_equal(expected: object, got: object) -> None:
    """Check that the driver's answer equals the reference's.

    Raises:
        Differs: it doesn't; the message says where.
    """
    if expected != got:
        if isinstance(got, Failed) and not isinstance(expected, Failed):
            raise Differs(f"the driver raised {got.error}: {got.text}")
        plain = [msgspec.to_builtins(answer) for answer in (expected, got)]
        where, one, other = _first_difference(*plain, at="")
        raise Differs(
            f"at {where or 'the answer'}\n  the reference: {brief(one)}\n  the driver:    {brief(other)}"
        )


def _first_difference(expected: Any, got: Any, *, at: str) -> tuple[str, object, object]:
    """Return the place of the first difference of two built-in values, and both values there."""
    for name in _places(expected, got):
        one, other = _at(expected, name), _at(got, name)
        if one != other:
            return _first_difference(one, other, at=f"{at}.{name}")
    return at, expected, got


def _places(expected: Any, got: Any) -> Iterable[Any]:
    """Return the keys or indexes at which two containers of one size can be compared."""
    if type(expected) is not type(got) or not isinstance(got, dict | list | tuple):
        return ()
    if len(expected) != len(cast("list[Any]", got)):
        return ()
    places: Any = expected
    return places.keys() if isinstance(expected, dict) else range(len(places))


def _at(whole: Any, name: Any) -> Any:
    held: Any = whole
    return held.get(name) if isinstance(whole, dict) else held[name]


def brief(value: object) -> str:
    """Return a value as a short text, without fields at their defaults."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
