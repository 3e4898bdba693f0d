"""Answers in a form that two stores must agree on, and where they don't, told briefly."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TypeVar, cast

import msgspec

from stepwell.core.port import Loaded, Store

T = TypeVar("T")
PAGES_MAX = 2_000
SHOWN_MAX = 300


class Differs(Exception):
    """A driver answered otherwise than the reference, or not as the port says."""


class Failed(msgspec.Struct, frozen=True):
    """A call that raised, as an answer."""

    error: str
    text: str = ""


async def walk(page_at: Callable[[str], Awaitable[tuple[Sequence[T], str]]], limit: int) -> list[T]:
    """Read every page and return what they hold together; page boundaries are the driver's."""
    rows_found: list[T] = []
    cursor = ""
    for _ in range(PAGES_MAX):
        rows, cursor = await page_at(cursor)
        if len(rows) > limit:
            raise Differs(f"a page of {len(rows)} where at most {limit} were asked for")
        rows_found += rows
        if not cursor:
            return rows_found
    raise Differs(f"more than {PAGES_MAX} pages, and no end")


class Rows(msgspec.Struct, frozen=True, eq=False):
    """A load since a version, and the whole one: a store may answer the first with the second."""

    part: object
    """None: it did."""
    whole: object

    def __eq__(self, other: object) -> bool:
        """Compare the parts only where both stores have returned one."""
        if not isinstance(other, Rows):
            return NotImplemented
        one_is_whole = self.part is None or other.part is None
        return self.whole == other.whole and (one_is_whole or self.part == other.part)

    def __hash__(self) -> int:
        """Refuse: what is equal is not the same."""
        raise TypeError("rows are compared, never kept by their value")


async def rows_of(store: Store, tenant_id: str, run_id: str, since: int) -> object:
    """Load; all of a run is as good an answer as what changed."""
    rows: Loaded | None = await store.load(tenant_id, run_id, since=since)
    if rows is None:
        return None
    if not 0 < since <= rows.run.version and not rows.complete:
        raise Differs(f"load since {since} answered with a part of a run at {rows.run.version}")
    part = None if rows.complete else sorted_rows(rows)
    whole = rows if rows.complete else await store.load(tenant_id, run_id)
    assert whole is not None
    return Rows(part, sorted_rows(whole))


def sorted_rows(rows: Loaded) -> tuple[object, ...]:
    """Return rows in an order that no driver has to keep; plans and requests come in theirs."""
    return (
        rows.run,
        rows.plans,
        sorted(rows.tasks, key=lambda task: task.task_id),
        sorted(rows.executions, key=lambda row: row.execution.execution_id),
        sorted(rows.inputs, key=lambda row: row.input_id),
        rows.requests,
    )


def must_equal(expected: object, got: object) -> None:
    """Insist that the driver's answer is the reference's.

    Raises:
        Differs: it isn't; the message says where.
    """
    if expected != got:
        if isinstance(got, Failed) and not isinstance(expected, Failed):
            raise Differs(f"the driver raised {got.error}: {got.text}")
        where, one, other = _first_difference(expected, got, "")
        raise Differs(
            f"at {where or 'the answer'}\n  the reference: {brief(one)}\n  the driver:    {brief(other)}"
        )


def _first_difference(expected: object, got: object, at: str) -> tuple[str, object, object]:
    if type(expected) is type(got):
        ours, its = _parts(expected), _parts(got)
        if ours.keys() == its.keys():
            for name, one in ours.items():
                if one != its[name]:
                    return _first_difference(one, its[name], at + name)
    return at, expected, got


def _parts(value: object) -> dict[str, object]:
    if isinstance(value, list | tuple):
        return {f"[{at}]": one for at, one in enumerate(cast("Sequence[object]", value))}
    if isinstance(value, msgspec.Struct):
        return {f".{name}": getattr(value, name) for name in value.__struct_fields__}
    return {}


def brief(value: object) -> str:
    """Return a value as text, without what is at its default, and not too long."""
    text = _text(value)
    return text if len(text) <= SHOWN_MAX * 4 else f"{text[: SHOWN_MAX * 4]}…"


def _is_default(field: msgspec.structs.FieldInfo, value: object) -> bool:
    return value == field.default or value in ({}, ())


def _text(value: object) -> str:
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        parts = [
            f"{field.name}={_text(part)}"
            for field in fields
            if not _is_default(field, part := getattr(value, field.name))
        ]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(one) for one in cast('Sequence[object]', value))}]"
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return f"{{{', '.join(f'{_text(key)}: {_text(one)}' for key, one in pairs)}}}"
    if isinstance(value, bytes) and len(value) > 20:
        return f"{value[:8]!r}…({len(value)} bytes)"
    return str(value) if isinstance(value, int | StrEnum) else repr(value)
