"""What a field of a request may hold, as pydantic constraints with the words that say it.

A `Limit` is made by one of the functions below from the constants of `core.limits`. Its words stand in
the field's comment in the protocol, behind "Limit:", and in the violation that a caller reads: a test
compares them, so that the three can't differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from types import GenericAlias
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter

from stepwell.core.records.limits import NAME_PATTERN

_SHOWN_CHARS_MAX = 40
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_NO_CONTROLS = r"^[^\x00-\x1f\x7f]*$"
_NAME_HINT = " (letters, digits and . _ : / @ + -, first a letter or digit)"
_SPANS_MS = {"day": 86_400_000, "minute": 60_000, "second": 1_000}


class Limit(NamedTuple):
    """What one field may hold."""

    annotation: Any
    words: str
    """As the protocol's comment has it."""
    show: Callable[[Any], str]
    """Says in a few words what came instead, and never a secret."""
    look: Callable[[Any], Any] | None = None
    """Takes from the message's value what the annotation is about; None: the value itself."""
    hint: str = ""
    """How to mend it, where the words don't say that."""
    each: Limit | None = None
    """Of a list: what each item may be; of a map: what each value may be."""
    key: Limit | None = None
    """Of a map: what each key may be."""
    demanded: bool = False
    """It is only about being there."""

    def test(self) -> Callable[[Any], bool]:
        """Return a function that says whether a value is within the limit."""
        inside = TypeAdapter[Any](self.annotation).validator.isinstance_python
        look = self.look
        return inside if look is None else lambda value: inside(look(value))

    def test_all(self) -> Callable[[list[Any]], bool]:
        """Return a function that says, in one call, whether all of a list are within the limit."""
        annotation: Any = GenericAlias(list, (self.annotation,))
        return TypeAdapter[Any](annotation).validator.isinstance_python

    def fault(self, value: Any) -> str:
        """Say what is wrong with a value, and what would be right."""
        return f"{self.show(value)}; limit: {self.words}{self.hint}"


def name(chars_max: int, *, required: bool = False, or_star: bool = False) -> Limit:
    """Return the limit of a name: of the allow-list of characters and no others."""
    pattern = NAME_PATTERN if not or_star else NAME_PATTERN.replace("$", r"$|^\*$")
    if not required:
        pattern += "|^$"
    amount = "1 to" if required else "at most"
    words = f"a name of {amount} {chars_max:,} characters" + (", or `*`" if or_star else "")
    constraint = StringConstraints(max_length=chars_max, pattern=pattern)
    return Limit(Annotated[str, constraint], words, _quoted, hint=_NAME_HINT)


def uuid(*, required: bool = True) -> Limit:
    """Return the limit of an id that the service made."""
    pattern, words = _UUID, "a UUID in lower case"
    if not required:
        pattern, words = pattern + "|^$", f"empty, or {words}"
    return Limit(Annotated[str, StringConstraints(pattern=pattern)], words, _quoted)


def chars(chars_max: int, *, required: bool = False) -> Limit:
    """Return the limit of a short text: one line of it, without control characters."""
    words = f"1 to {chars_max:,} characters" if required else f"{chars_max:,} characters"
    constraint = StringConstraints(
        min_length=int(required), max_length=chars_max, pattern=_NO_CONTROLS
    )
    return Limit(Annotated[str, constraint], words, _length, hint=", no control characters")


def text(bytes_max: int) -> Limit:
    """Return the limit of a text of any characters, counted in UTF-8."""

    def fits(value: str) -> str:
        if len(value) * 4 > bytes_max and len(value.encode()) > bytes_max:
            raise ValueError
        return value

    constraints = (StringConstraints(max_length=bytes_max), AfterValidator(fits))
    return Limit(Annotated[str, *constraints], _size(bytes_max), _utf8_bytes)


def blob(bytes_max: int) -> Limit:
    """Return the limit of bytes."""
    return Limit(Annotated[bytes, Field(max_length=bytes_max)], _size(bytes_max), _bytes)


def data(bytes_max: int) -> Limit:
    """Return the limit of a payload that must be smaller than other payloads."""
    annotation = Annotated[int, Field(le=bytes_max)]
    return Limit(annotation, f"{_size(bytes_max)} of data", _data_bytes, look=_data_size)


def message(bytes_max: int) -> Limit:
    """Return the limit of a message with all that is in it."""
    annotation = Annotated[int, Field(le=bytes_max)]
    return Limit(annotation, _size(bytes_max), _message_bytes, look=_message_size)


def whole(low: int, high: int | None = None) -> Limit:
    """Return the limit of an integer, both ends included."""
    words = f"{low:,} or more" if high is None else f"{low:,} to {high:,}"
    return Limit(Annotated[int, Field(ge=low, le=high)], words, str)


def real(low: int, high: int) -> Limit:
    """Return the limit of a number, both ends included; NaN is none."""
    annotation = Annotated[float, Field(ge=low, le=high, allow_inf_nan=False)]
    return Limit(annotation, f"{low:,} to {high:,}", str)


def span(low_ms: int, high_ms: int) -> Limit:
    """Return the limit of a Duration, both ends included."""
    annotation = Annotated[int, Field(ge=low_ms * 1_000_000, le=high_ms * 1_000_000)]
    words = f"{_span(low_ms)} to {_span(high_ms)}"
    return Limit(annotation, words, _seconds, look=_nanoseconds)


def given() -> Limit:
    """Return the limit of a field, or a oneof, that must be there and be no zero."""
    return Limit(Any, "it must be given", _absent, demanded=True)


def many(items_max: int, each: Limit | None = None) -> Limit:
    """Return the limit of a list; `each` is None where the items are messages or enums."""
    words = f"{items_max:,} items" + (f", each {each.words}" if each else "")
    return Limit(Annotated[int, Field(le=items_max)], words, _items, look=len, each=each)


def one_of(words: str, *numbers: int) -> Limit:
    """Return the limit of an enum of which only some values fit here."""
    return Limit(Literal[numbers], words, str)


def mapping(entries_max: int, key: Limit, each: Limit) -> Limit:
    """Return the limit of a map of text to text."""
    words = f"{entries_max:,} entries, each key {key.words}, each value {each.words}"
    return many(entries_max)._replace(words=words, key=key, each=each)


def shown(value: str) -> str:
    """Return a value fit for an error: short, and with no control characters."""
    cut = value if len(value) <= _SHOWN_CHARS_MAX else value[:_SHOWN_CHARS_MAX] + "…"
    return re.sub(r"\s", " ", repr(cut))


def _quoted(value: str) -> str:
    return f"{shown(value)} of {len(value):,} characters"


def _length(value: str) -> str:
    return f"{len(value):,} characters"


def _bytes(value: bytes) -> str:
    return f"{len(value):,} bytes"


def _utf8_bytes(value: str) -> str:
    return f"{len(value.encode()):,} bytes"


def _data_size(payload: Any) -> int:
    return len(payload.data)


def _data_bytes(payload: Any) -> str:
    return _bytes(payload.data)


def _message_size(value: Any) -> int:
    return value.ByteSize()


def _message_bytes(value: Any) -> str:
    return f"{value.ByteSize():,} bytes"


def _items(value: Sized) -> str:
    return f"{len(value):,} items"


def _absent(_value: object) -> str:
    return "absent"


def _nanoseconds(value: Any) -> int:
    return value.seconds * 1_000_000_000 + value.nanos


def _seconds(value: Any) -> str:
    return f"{_nanoseconds(value) / 1_000_000_000:g} s"


def _size(bytes_max: int) -> str:
    for unit, size in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if bytes_max % size == 0:
            return f"{bytes_max // size:,} {unit}"
    return f"{bytes_max:,} bytes"


def _span(ms: int) -> str:
    for unit, length_ms in _SPANS_MS.items():
        if ms and ms % length_ms == 0:
            count = ms // length_ms
            return f"{count:,} {unit}{'s' if count > 1 else ''}"
    return str(ms)
