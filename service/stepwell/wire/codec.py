"""Compiles records to messages and back, from the fields of both: nothing is written by hand twice.

For each pair of a record and a message two functions are generated and compiled once, at import:
`fill_X(record, message)` and `read_X(message)`. A field that one side has and the other lacks, or has
with another type, is an error at import, so the protocol and the records can't drift apart.

The mapping. `x_us` is a Timestamp `x_time` (`time_us`: `time`), `x_ms` a Duration `x`; all else has the
same name. A field that may be unset, or whose default isn't zero, has presence: absent is the record's
default. An empty value isn't sent where its absence means the same.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from msgspec import UNSET

from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Record
from stepwell.wire.shapes import Field, Shape, descriptor_of, enum_names, fields_of

SOURCE_NAME = "<stepwell.wire, generated>"


class Pair(NamedTuple):
    """A record and the message that carries it."""

    record: type[Record]
    message: type[Message]
    renamed: Mapping[str, str] = {}
    """Record field to message field, where the mapping's own rule doesn't hold."""
    message_only: Mapping[str, str] = {}
    """Message fields that the record lacks, and why."""


class Codec(NamedTuple):
    """The two compiled functions of a pair."""

    fill: Callable[[Any, Any], None]
    read: Callable[[Any], Any]


class Numbers(dict[int, StrEnum]):
    """An enum's members by number; an unknown number is an error that names the field."""

    def __init__(self, where: str, members: Mapping[int, StrEnum]) -> None:
        super().__init__(members)
        self.where = where

    def __missing__(self, number: int) -> StrEnum:
        """Refuse the number."""
        what = "must be given" if number == 0 else f"has no value numbered {number}"
        name = self.where.rpartition(".")[2]
        raise InvalidArgument(f"{self.where} {what}", (Violation(name, what),))


def compile_pairs(pairs: Iterable[Pair]) -> dict[type[Record], Codec]:
    """Return each pair's codec.

    Raises:
        TypeError: a field of one side has none to match on the other.
    """
    pairs = tuple(pairs)
    messages = {pair.record: descriptor_of(pair.message) for pair in pairs}
    space: dict[str, Any] = {
        "UNSET": UNSET,
        "put_ms": put_ms,
        "get_ms": get_ms,
        "missing": missing,
    }
    source: list[str] = []
    for pair in pairs:
        name = pair.record.__name__
        space[f"R_{name}"] = pair.record
        fields = fields_of(pair.record, pair.message, pair.renamed, pair.message_only, messages)
        source += _functions(name, fields, space)
    text = "\n".join(source) + "\n"
    # With its lines known, a traceback through generated code can be read.
    linecache.cache[SOURCE_NAME] = (len(text), None, text.splitlines(keepends=True), SOURCE_NAME)
    exec(compile(text, SOURCE_NAME, "exec"), space)  # noqa: S102  # our own text, made above
    return {
        record: Codec(space[f"fill_{record.__name__}"], space[f"read_{record.__name__}"])
        for record in messages
    }


def put_ms(duration: Duration, ms: int) -> None:
    """Write a time span, and its presence."""
    if ms < 0:
        duration.seconds, duration.nanos = -(-ms // 1_000), -(-ms % 1_000) * 1_000_000
    else:
        duration.seconds, duration.nanos = ms // 1_000, ms % 1_000 * 1_000_000
    duration.SetInParent()


def get_ms(duration: Duration) -> int:
    """Read a time span; a part of a millisecond counts as a whole one, as 0 would mean no limit."""
    return duration.seconds * 1_000 - (-duration.nanos // 1_000_000)


def missing(where: str) -> Any:
    """Refuse a message that lacks what its record can't do without."""
    what = "must be given"
    raise InvalidArgument(f"{where} {what}", (Violation(where.rpartition(".")[2], what),))


class _Code(NamedTuple):
    """The code that one field adds to the two functions."""

    fill: list[str]
    """Statements over `r` and `m`."""
    read: str
    """An expression over `m`."""


def _functions(name: str, fields: Iterable[Field], space: dict[str, Any]) -> list[str]:
    fill = [f"def fill_{name}(r, m):"]
    read = [f"def read_{name}(m):", f"    return R_{name}("]
    for field in fields:
        space[f"D_{name}_{field.name}"] = field.default
        code = _EMITTERS[field.shape](name, field, space)
        fill += ["    " + line for line in code.fill]
        read.append(f"        {field.name}={code.read},")
    return [*fill, "    return None", *read, "    )"]


def _scalar(name: str, field: Field, space: dict[str, Any]) -> _Code:
    source, target = f"r.{field.name}", f"m.{field.wire}"
    to, of = _value(name, field, space)
    default = f"D_{name}_{field.name}"
    if not field.presence:
        read = of.format(target)
        if field.skip_zero:
            return _Code([f"v = {source}", f"if v: {target} = {to.format('v')}"], read)
        return _Code([f"{target} = {to.format(source)}"], read)
    read = f'{of.format(target)} if m.HasField("{field.wire}") else {default}'
    if field.unset:
        return _Code([f"v = {source}", f"if v is not UNSET: {target} = {to.format('v')}"], read)
    return _Code([f"{target} = {to.format(source)}"], read)


def _value(name: str, field: Field, space: dict[str, Any]) -> tuple[str, str]:
    """Return how to write and read one value, as templates; enums go by tables."""
    if field.enum is None:
        return "{}", "{}"
    numbers = enum_names(field.enum, field.descriptor)
    space[f"TO_{field.enum.__name__}"] = {
        member.value: number for number, member in numbers.items()
    }
    if isinstance(field.default, field.enum):
        numbers = {0: field.default, **numbers}
    table = f"OF_{name}_{field.name}"
    space[table] = Numbers(f"{name}.{field.wire}", numbers)
    # `_value_` and not the member: an enum's own hash is a Python function.
    return f"TO_{field.enum.__name__}[{{}}._value_]", f"{table}[{{}}]"


def _moment(name: str, field: Field, _space: dict[str, Any]) -> _Code:
    condition = "v is not UNSET" if field.unset else "v"
    fill = [
        f"v = r.{field.name}",
        f"if {condition}:",
        f"    t = m.{field.wire}",
        "    t.seconds = v // 1000000",
        "    t.nanos = v % 1000000 * 1000",
        *(["    t.SetInParent()"] if field.unset else []),
    ]
    read = f"m.{field.wire}.seconds * 1000000 + m.{field.wire}.nanos // 1000"
    if field.unset or field.default:
        read = f'({read}) if m.HasField("{field.wire}") else D_{name}_{field.name}'
    return _Code(fill, read)


def _span(name: str, field: Field, _space: dict[str, Any]) -> _Code:
    write = f"put_ms(m.{field.wire}, v)"
    # A default other than "none" is sent, for readers that don't know it.
    quiet = field.default if isinstance(field.default, int) and field.default <= 0 else None
    condition = "v is not UNSET" if field.unset else "True" if quiet is None else f"v != {quiet}"
    read = f'get_ms(m.{field.wire}) if m.HasField("{field.wire}") else '
    return _Code(
        [f"v = r.{field.name}", f"if {condition}: {write}"],
        read + ("0" if field.required else f"D_{name}_{field.name}"),
    )


def _struct(name: str, field: Field, _space: dict[str, Any]) -> _Code:
    default = f"D_{name}_{field.name}"
    write = [
        f"c = m.{field.wire}",
        "c.SetInParent()",
        f"fill_{field.record}(v, c)",
    ]
    if field.required:
        otherwise = f'missing("{name}.{field.wire}")'
        fill = [f"v = r.{field.name}", *write]
    else:
        otherwise = default
        test = f"v is not {default}"
        if not field.unset and field.default is not None:
            test += f" and v != {default}"
        fill = [f"v = r.{field.name}", f"if {test}:", *("    " + line for line in write)]
    read = f'read_{field.record}(m.{field.wire}) if m.HasField("{field.wire}") else {otherwise}'
    return _Code(fill, read)


def _many(name: str, field: Field, space: dict[str, Any]) -> _Code:
    """Write a tuple: repeated, or within a message of its own where presence or nesting needs one."""
    target = f"m.{field.wire}" + (f".{field.inner}" if field.inner and not field.nested else "")
    if field.nested:
        fill = [
            f"for x in r.{field.name}:",
            f"    a = {target}.add().{field.inner}",
            f"    for y in x: fill_{field.record}(y, a.add())",
        ]
        read = (
            f"tuple([tuple([read_{field.record}(y) for y in x.{field.inner}]) for x in {target}])"
        )
        return _Code(fill, read)
    if field.record:
        write = [f"a = {target}", f"for x in v: fill_{field.record}(x, a.add())"]
        read = f"tuple([read_{field.record}(x) for x in {target}])"
    elif field.enum:
        to, of = _value(name, field, space)
        write = [f"{target}.extend([{to.format('x')} for x in v])"]
        read = f"tuple([{of.format('x')} for x in {target}])"
    else:
        write = [f"{target}.extend(v)"]
        read = f"tuple({target})"
    if field.unset:
        write.insert(0, f"m.{field.wire}.SetInParent()")
        read = f'{read} if m.HasField("{field.wire}") else UNSET'
    test = "v is not UNSET" if field.unset else "v"
    return _Code([f"v = r.{field.name}", f"if {test}:", *("    " + w for w in write)], read)


def _mapping(_name: str, field: Field, _space: dict[str, Any]) -> _Code:
    target = f"m.{field.wire}"
    return _Code([f"v = r.{field.name}", f"if v: {target}.update(v)"], f"dict({target})")


def _choice(name: str, field: Field, _space: dict[str, Any]) -> _Code:
    """Write a union of records: a oneof with an arm for each."""
    fill = [f"v = r.{field.name}", "k = type(v)"]
    read = ""
    for arm, record in field.arms.items():
        test = f"m.{arm}.SetInParent(); fill_{record}(v, m.{arm})"
        fill.append(f"if k is R_{record}: {test}")
        asked = f'(a := m.WhichOneof("{field.wire}"))' if not read else "a"
        read += f'read_{record}(m.{arm}) if {asked} == "{arm}" else '
    return _Code(fill, f'{read}missing("{name}.{field.wire}")')


_EMITTERS: dict[Shape, Callable[[str, Field, dict[str, Any]], _Code]] = {
    Shape.SCALAR: _scalar,
    Shape.MOMENT: _moment,
    Shape.SPAN: _span,
    Shape.STRUCT: _struct,
    Shape.MANY: _many,
    Shape.MAPPING: _mapping,
    Shape.CHOICE: _choice,
}
