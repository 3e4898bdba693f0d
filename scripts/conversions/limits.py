"""The kinds of limits that a field of a request can have.

A `Limit` is made by one of the functions below from the options of a field (`options`). Its wording stands
in the violation that a caller reads. Its test is source code within the function that checks the whole message: called
as functions, the same tests take half as long again.

No store can hold NUL. A person's text with one is beyond its limit. What a machine wrote (failures, logs,
conversations, a worker's reasons) is `written`: the same function puts escapes in place of what can't be kept.
"""

from __future__ import annotations

from typing import NamedTuple

_NAME_HINT = " (letters, digits and . _ : / @ + -, first a letter or digit)"
_HAS_NUL = r"'\0' in v"
_NANOS = 1_000_000_000
_SPANS_MS = {"day": 86_400_000, "minute": 60_000, "second": 1_000}


class Limit(NamedTuple):
    """The limit of one field."""

    beyond: str
    """An expression that is true if the value `v` is beyond the limit."""
    wording: str
    """The limit in words."""
    show: str = ""
    """The function of `stepwell.wire.faults` that describes a value; empty: the value itself."""
    hint: str = ""
    """Advice on mending a value, where the wording does not give it."""
    required: bool = False
    """Absent, empty and zero are beyond the limit; but an `optional` field may be absent."""
    each: Limit | None = None
    """The limit of each item of a list, or of each value of a map."""
    key: Limit | None = None
    """The limit of each key of a map."""
    unclean: str = ""
    """An expression that is true if the value can't be kept as it is, though within the limit."""
    cleaned: str = ""
    """An expression for what is kept in its place."""
    reason: str = ""
    """The reason of the error for a value beyond the limit; empty: the one of most limits."""

    def fault(self, before: str = "") -> str:
        """Return an expression for what is wrong with the value `v`, and what would be right."""
        show = f"{self.show}(v)" if self.show else "v"
        return f"f{f'{before}{{{show}}}; limit: {self.wording}{self.hint}'!r}"


def name(chars_max: int, *, required: bool = False, or_star: bool = False) -> Limit:
    """Return the limit of a name: of the allow-list of characters and no others."""
    beyond = f"len(v) > {chars_max} or not is_name(v)"
    if or_star:
        beyond = f"v != '*' and ({beyond})"
    if not required:
        beyond = f"v and ({beyond})"
    amount = "1 to" if required else "at most"
    wording = f"a name of {amount} {chars_max:,} characters" + (", or `*`" if or_star else "")
    return Limit(beyond, wording, "quoted", hint=_NAME_HINT, required=required)


def chars(chars_max: int, *, required: bool = False, written: bool = False) -> Limit:
    """Return the limit of a short text: one line of it, without control characters.

    `written`: by a machine, so that control characters are escaped and not refused.
    """
    # `isprintable` is quick, but refuses some characters that are allowed, such as a hard space.
    control = "not v.isprintable() and has_control(v)"
    beyond, wording = f"len(v) > {chars_max}", f"{chars_max:,} characters"
    if required:
        beyond, wording = f"not v or {beyond}", f"1 to {wording}"
    limit = Limit(beyond, wording, "length", required=required)
    if written:
        return limit._replace(unclean=control, cleaned="one_line(v)")
    return limit._replace(beyond=f"{beyond} or {control}", hint=", no control characters")


def text(bytes_max: int, *, written: bool = False) -> Limit:
    """Return the limit of a text of any characters but NUL, counted in UTF-8.

    `written`: by a machine, so that NUL is escaped and not refused.
    """
    # Most texts are so short that nobody needs to count their bytes.
    beyond = f"len(v) > {bytes_max // 4} and len(v.encode()) > {bytes_max}"
    limit = Limit(beyond, _size(bytes_max), "utf8_size")
    if written:
        return limit._replace(unclean=_HAS_NUL, cleaned="storable(v)")
    return limit._replace(beyond=f"{beyond} or {_HAS_NUL}")


def unbounded() -> Limit:
    """Return the limit of a text that was measured before: any characters but NUL."""
    return Limit(_HAS_NUL, "any text", "utf8_size")


def blob(bytes_max: int) -> Limit:
    """Return the limit of bytes."""
    return Limit(f"len(v) > {bytes_max}", _size(bytes_max), "size")


def data(bytes_max: int) -> Limit:
    """Return the limit of a payload that must be smaller than other payloads."""
    return Limit(f"len(v.data) > {bytes_max}", f"{_size(bytes_max)} of data", "data_size")


def message(bytes_max: int) -> Limit:
    """Return the limit of a message with all that is in it."""
    return Limit(f"v.ByteSize() > {bytes_max}", _size(bytes_max), "message_size")


def number(low: int, high: int | None = None) -> Limit:
    """Return the limit of a number, both ends included; NaN is never between them."""
    if high is None:
        return Limit(f"v < {low}", f"{low:,} or more", required=low > 0)
    wording = f"{low:,} to {high:,}"
    return Limit(f"not {low} <= v <= {high}", wording, required=not low <= 0 <= high)


def span(low_ms: int, high_ms: int) -> Limit:
    """Return the limit of a Duration, both ends included."""
    low, high = low_ms * 1_000_000, high_ms * 1_000_000
    amount = f"{low} <= v.seconds * {_NANOS} + v.nanos <= {high}"
    beyond = f"not (0 <= v.nanos < {_NANOS} and {amount})"
    return Limit(beyond, f"{_span(low_ms)} to {_span(high_ms)}", "seconds")


def given() -> Limit:
    """Return the limit of a field, or a oneof, that must be there and not be zero."""
    return Limit("False", "it must be given", required=True)


def many(items_max: int, each: Limit | None = None) -> Limit:
    """Return the limit of a list; `each` is None where the items are messages or enums."""
    wording = f"{items_max:,} items" + (f", each {each.wording}" if each else "")
    return Limit(f"len(v) > {items_max}", wording, "items", each=each)


def messages(items_max: int, bytes_max: int) -> Limit:
    """Return the limit of a list of messages, by their number and by the bytes of all."""
    beyond = f"len(v) > {items_max} or sum([one.ByteSize() for one in v]) > {bytes_max}"
    return Limit(beyond, f"{items_max:,} items, together {_size(bytes_max)}", "items_size")


def one_of(wording: str, *numbers: int) -> Limit:
    """Return the limit of an enum of which only some values fit here."""
    return Limit(f"v not in {numbers!r}", wording)


def mapping(entries_max: int, key: Limit, each: Limit) -> Limit:
    """Return the limit of a map of text to text."""
    wording = f"{entries_max:,} entries, each key {key.wording}, each value {each.wording}"
    return many(entries_max)._replace(wording=wording, key=key, each=each)


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
