"""Compiles records to messages and back, from the fields of both: nothing is written by hand twice.

For each pair of a record and a message two functions are generated at import, and compiled when they are first called:
`fill_X(record, message)` and `read_X(message)`. A field that one side has and the other lacks, or has
with another type, is an error at import, so the protocol and the records can't drift apart.

The mapping. `x_us` is a Timestamp `x_time` (`time_us`: `time`), `x_ms` a Duration `x`; all else has the
same name. A field that may be unset, or whose default isn't zero, has presence: absent is the record's
default. An empty value isn't sent where its absence means the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from google.protobuf.descriptor import FieldDescriptor, OneofDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from msgspec import UNSET

from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.model import Record
from stepwell.wire.shapes import Carried, Field, Shape, descriptor_of, enum_names, fields_of
from stepwell.wire.sources import Functions

SOURCE_NAME = "<stepwell.wire, generated>"


class Pair(NamedTuple):
    """A record and the message that carries it."""

    record: type[Record]
    message: type[Message]
    renamed: Mapping[str, str] = {}
    """Record field to message field, where the mapping's own rule doesn't hold. `a.b`: to field b of the message a."""
    message_only: Mapping[str, str] = {}
    """Message fields that the record lacks, and why."""
    derived: Mapping[str, str] = {}
    """Message field to the record's field within a field that it shows: `tally.tasks`."""
    shown: bool = False
    """The message has what callers see of the record: it may lack fields, and is only written."""
    checked: bool = False
    """The record is also read from messages whose fields are checked in the same pass."""

    @property
    def name(self) -> str:
        """The name in the functions' names."""
        return f"Shown{self.record.__name__}" if self.shown else self.record.__name__


class Checks(Protocol):
    """Writes the source that checks a message's fields: over the message `m`, its path `p` and the faults `f`."""

    @property
    def space(self) -> Mapping[str, Any]:
        """The names that the source uses."""
        ...

    def value(self, field: FieldDescriptor) -> list[str]:
        """Return the statements that check the value `v` of a field that is there."""
        ...

    def absent(self, field: FieldDescriptor | OneofDescriptor) -> list[str]:
        """Return the statements for a field, or all of a oneof, that is absent or zero; none: it may be."""
        ...

    def is_cleaned(self, field: FieldDescriptor) -> bool:
        """Return whether the check may put another value into the message."""
        ...


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


def compile_pairs(pairs: Iterable[Pair], checks: Checks | None = None) -> Functions:
    """Return the functions of all pairs, `fill_X(record, message)` and `read_X(message)`; `X` is the pair's name.

    A pair that is `checked` has `checked_X(message, faults)`, too, with these checks: it reads, and adds faults to
    those given; with any, the record is of no use.

    Raises:
        TypeError: a field of one side has none to match on the other.
    """
    pairs = tuple(pairs)
    carried = {
        descriptor_of(pair.message).full_name: Carried(pair.record, pair.name) for pair in pairs
    }
    space: dict[str, Any] = {
        "UNSET": UNSET,
        "put_ms": put_ms,
        "get_ms": get_ms,
        "missing": missing,
    }
    sources: dict[str, list[str]] = {}
    for pair in pairs:
        name = pair.name
        space[f"R_{name}"] = pair.record
        fields = fields_of(pair.record, pair.message, pair, carried)
        codes = [(field, _EMITTERS[field.shape](name, field, space)) for field in fields]
        space |= {f"D_{name}_{field.name}": field.default for field in fields}
        sources[f"fill_{name}"] = _fill(name, codes)
        if not pair.shown:
            sources[f"read_{name}"] = _read(name, codes)
        if pair.checked and checks is not None:
            by_name = descriptor_of(pair.message).fields_by_name
            sources[f"checked_{name}"] = _checked(name, codes, by_name, pair.message_only, checks)
            space |= checks.space
    return Functions(SOURCE_NAME, sources, space)


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
    """The code of one field."""

    fill: list[str]
    """Statements over `r` and `m`."""
    value: str
    """An expression for the record's value; `{}` stands for the message's field."""
    absent: str = ""
    """An expression for the value where the message's field is absent; empty: that of its zero."""

    def read(self, wire: str) -> str:
        """Return an expression over `m`."""
        value = self.value.format(f"m.{wire}")
        return f'{value} if m.HasField("{wire}") else {self.absent}' if self.absent else value


def _fill(name: str, codes: Iterable[tuple[Field, _Code]]) -> list[str]:
    lines = [line for field, code in codes for line in _within(field, code.fill)]
    return [f"def fill_{name}(r, m):", *_indented(lines), "    return None"]


def _within(field: Field, lines: list[str]) -> list[str]:
    """Return the statements over a record that a field holds, where it is there."""
    if not field.holder:
        return lines
    inner = [line.replace(f"r.{field.name}", f"h.{field.name}") for line in lines]
    return [f"h = r.{field.holder}", "if h is not UNSET:", *_indented(inner)]


def _read(name: str, codes: Iterable[tuple[Field, _Code]]) -> list[str]:
    values = [f"{field.name}={code.read(field.wire)}," for field, code in codes]
    return [f"def read_{name}(m):", f"    return R_{name}(", *_indented(_indented(values)), "    )"]


def _checked(
    name: str,
    codes: Iterable[tuple[Field, _Code]],
    fields_by_name: Mapping[str, FieldDescriptor],
    apart: Iterable[str],
    checks: Checks,
) -> list[str]:
    """Return a function that reads only the fields that are there, with one for each field.

    Most fields of what callers send are absent, and to ask for each takes longer than to list the others.
    The fields named in `apart` are only checked: the record lacks them.
    """
    source: list[str] = []
    table: list[str] = []
    end: list[str] = []

    def add(field: FieldDescriptor, lines: list[str]) -> None:
        function = f"checked_{name}_{field.name}"
        source.extend([f"def {function}(m, v, k, f, p=''):", *_indented(lines or ["pass"])])
        table.append(f"{field.number}: {function}")

    for field in map(fields_by_name.__getitem__, apart):
        add(field, checks.value(field))
        if absent := checks.absent(field):
            end += [f"if not m.{field.name}:", *_indented(absent)]
    within: dict[str, list[str]] = {}
    for field, code in codes:
        key = f"k[{field.name!r}]"
        if "." in field.wire:
            head, _, tail = field.wire.partition(".")
            within.setdefault(head, []).append(f"{key} = v.{tail}")
            continue
        if field.shape is Shape.CHOICE:
            oneof = field.descriptor.containing_oneof
            assert oneof is not None
            for arm in oneof.fields:
                read = f"if not f: {key} = read_{field.arms[arm.name]}(v)"
                add(arm, [*checks.value(arm), read])
            end += [f"if m.WhichOneof({field.wire!r}) is None:", *_indented(checks.absent(oneof))]
            continue
        add(field.descriptor, _check(field, code, key, checks))
        absent = checks.absent(field.descriptor)
        if absent and field.record:
            raise TypeError(f"{field.descriptor.full_name} is a record, and can't be asked for")
        if absent:
            end += [f"if {field.name!r} not in k:", *_indented(absent)]
        elif field.required:
            raise TypeError(
                f"{field.descriptor.full_name} may be absent, {name}.{field.name} may not"
            )
    for head, lines in within.items():
        holder = fields_by_name[head]
        add(holder, [*checks.value(holder), *lines])
        end += [f"if not m.HasField({head!r}):", *_indented(checks.absent(holder))]
    return [
        *source,
        f"CHECKED_{name} = {{{', '.join(table)}}}",
        f"def checked_{name}(m, f, p=''):",
        "    k = {}",
        "    for d, v in m.ListFields():",
        f"        CHECKED_{name}[d.number](m, v, k, f)",
        *_indented(end),
        f"    return None if f else R_{name}(**k)",
    ]


def _check(field: Field, code: _Code, target: str, checks: Checks) -> list[str]:
    """Return the statements that check a field's value `v`, and keep it in `target`."""
    lines = checks.value(field.descriptor)
    if field.shape is Shape.MANY and not field.record:
        # A tuple is walked through in half the time that the message's own list takes.
        return [f"v = {target} = {code.value.format('v')}", *lines]
    if field.enum is not None:
        # A number that no member has is a fault, and has no value.
        return [*lines, f"else: {target} = {code.value.format('v')}"]
    is_other = checks.is_cleaned(field.descriptor) or field.shape is Shape.MANY
    value = code.value.format(f"m.{field.wire}" if is_other else "v")
    # What has a fault may be too much, or unreadable.
    return [*lines, f"if not f: {target} = {value}" if field.record else f"{target} = {value}"]


def _indented(lines: Iterable[str]) -> list[str]:
    return ["    " + line for line in lines]


def _scalar(name: str, field: Field, space: dict[str, Any]) -> _Code:
    source, target = f"r.{field.name}", f"m.{field.wire}"
    to, of = _value(name, field, space)
    if not field.presence:
        if field.skip_zero:
            return _Code([f"v = {source}", f"if v: {target} = {to.format('v')}"], of)
        return _Code([f"{target} = {to.format(source)}"], of)
    default = f"D_{name}_{field.name}"
    if field.unset:
        fill = [f"v = {source}", f"if v is not UNSET: {target} = {to.format('v')}"]
        return _Code(fill, of, default)
    return _Code([f"{target} = {to.format(source)}"], of, default)


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
    absent = f"D_{name}_{field.name}" if field.unset or field.default else ""
    return _Code(fill, "({0}.seconds * 1000000 + {0}.nanos // 1000)", absent)


def _span(name: str, field: Field, _space: dict[str, Any]) -> _Code:
    write = f"put_ms(m.{field.wire}, v)"
    # A default other than "none" is sent, for readers that don't know it.
    quiet = field.default if isinstance(field.default, int) and field.default <= 0 else None
    condition = "v is not UNSET" if field.unset else "True" if quiet is None else f"v != {quiet}"
    absent = "0" if field.required else f"D_{name}_{field.name}"
    return _Code([f"v = r.{field.name}", f"if {condition}: {write}"], "get_ms({})", absent)


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
    return _Code(fill, f"read_{field.record}({{}})", otherwise)


def _many(name: str, field: Field, space: dict[str, Any]) -> _Code:
    """Write a tuple: repeated, or within a message of its own where presence or nesting needs one."""
    inner = f".{field.inner}" if field.inner and not field.nested else ""
    target, items = f"m.{field.wire}{inner}", f"{{}}{inner}[:]"
    if field.nested:
        fill = [
            f"for x in r.{field.name}:",
            f"    a = {target}.add().{field.inner}",
            f"    for y in x: fill_{field.record}(y, a.add())",
        ]
        each = f"tuple([read_{field.record}(y) for y in x.{field.inner}[:]])"
        return _Code(fill, f"tuple([{each} for x in {items}])")
    if field.record:
        write = [f"a = {target}", f"for x in v: fill_{field.record}(x, a.add())"]
        value = f"tuple([read_{field.record}(x) for x in {items}])"
    elif field.enum:
        to, of = _value(name, field, space)
        write = [f"{target}.extend([{to.format('x')} for x in v])"]
        value = f"tuple([{of.format('x')} for x in {items}])"
    else:
        write = [f"{target}.extend(v)"]
        value = f"tuple({items})"
    if field.unset:
        write.insert(0, f"m.{field.wire}.SetInParent()")
    test = "v is not UNSET" if field.unset else "v"
    fill = [f"v = r.{field.name}", f"if {test}:", *_indented(write)]
    return _Code(fill, value, "UNSET" if field.unset else "")


def _mapping(_name: str, field: Field, _space: dict[str, Any]) -> _Code:
    target = f"m.{field.wire}"
    return _Code([f"v = r.{field.name}", f"if v: {target}.update(v)"], "dict({})")


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
