"""NUL in texts: legal in the port, impossible in Postgres' TEXT and JSONB, so written otherwise there.

NUL becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002: whatever was written reads back as it was,
equal stays equal, and a text without either (all of them, nearly) stays as it is. In JSON the same is
done to the escapes, so that a text shows the same in a TEXT column and inside a JSONB one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

_NUL = "\0"
_MARK = "\x01"
_IN_JSON = re.compile(r"\\(?:u000[01]|[^u])")
_HIDDEN_IN_JSON = re.compile(r"\\(?:u0001\\u000[12]|[^u])")
_TO_JSON = {r"\u0000": r"\u0001\u0001", r"\u0001": r"\u0001\u0002"}
_FROM_JSON = {r"\u0001\u0001": r"\u0000", r"\u0001\u0002": r"\u0001"}


def hide(text: str) -> str:
    """Return a text as Postgres can hold it."""
    if _NUL not in text and _MARK not in text:
        return text
    return text.replace(_MARK, "\x01\x02").replace(_NUL, "\x01\x01")


def show(text: str) -> str:
    """Return the text that `hide` was given."""
    if _MARK not in text:
        return text
    # From left to right, two by two: every mark begins a pair.
    return re.sub("\x01([\x01\x02])", lambda pair: _NUL if pair[1] == _MARK else _MARK, text)


def hide_json(text: str) -> str:
    """Return JSON text as JSONB can hold it."""
    if r"\u000" not in text:
        return text
    return _IN_JSON.sub(lambda found: _TO_JSON.get(found[0], found[0]), text)


def show_json(text: str) -> str:
    """Return JSON text that means what `hide_json` was given."""
    if r"\u0001" not in text:
        return text
    return _HIDDEN_IN_JSON.sub(lambda found: _FROM_JSON.get(found[0], found[0]), text)


def hidden(values: Sequence[Any]) -> Sequence[Any]:
    """Return parameters, texts and lists of texts among them, as Postgres can hold them."""
    return [
        hide(value)
        if type(value) is str
        else _hidden_list(cast("list[Any]", value))
        if type(value) is list
        else value
        for value in values
    ]


def hidden_json(values: list[Any]) -> list[Any]:
    """Return JSON texts, and None where there is none, as JSONB can hold them."""
    if r"\u000" not in "".join([value for value in values if value is not None]):
        return values
    return [None if value is None else hide_json(value) for value in values]


def _hidden_list(values: list[Any]) -> list[Any]:
    if not values or type(values[0]) is int or type(values[0]) is bytes:
        return values
    joined = "".join([value for value in values if type(value) is str])
    if _NUL not in joined and _MARK not in joined:
        return values
    return [hide(value) if type(value) is str else value for value in values]


def shown(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return rows as they were before they were hidden."""
    return [
        tuple(show(value) if type(value) is str else value for value in row)
        if any(type(value) is str and _MARK in value for value in row)
        else row
        for row in rows
    ]
