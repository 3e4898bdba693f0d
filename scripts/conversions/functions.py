"""Writes the functions that convert records to messages and back, from the fields of both.

For each pair of a record and a message there are `fill_X(record, message)` and `read_X(message)`. A field that one
side has and the other lacks, or has with another type, is an error, so the protocol and the records can't drift apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from msgspec import UNSET
from scripts.conversions.checks import Checks
from scripts.conversions.fields import (
    Carried,
    Field,
    Pair,
    Shape,
    class_of,
    descriptor_of,
    enum_names,
    fields_of,
)

from stepwell.wire import store


class Source:
    """The names that the functions use, besides those of every generated module."""

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}
        """Name to expression."""
        self.imports: dict[str, set[str]] = {}
        """Module to the records and enums that are used of it."""

    def name_of(self, kind: type) -> str:
        """Return how the functions call a record or an enum; see to it that they can."""
        if kind.__module__ == store.__name__:
            method, _, part = re.sub("(Request|Response)$", r" \1", kind.__name__).partition(" ")
            name = re.sub("(?<!^)([A-Z])", r"_\1", method).lower()
            self.constants[kind.__name__] = f"METHODS[{name!r}].{part.lower()}"
        else:
            self.imports.setdefault(kind.__module__, set()).add(kind.__name__)
        return kind.__name__

    def typed(self, kind: type) -> str:
        """Return the annotation of a record: those of the Store's methods are made at run time."""
        name = self.name_of(kind)
        return "Any" if kind.__module__ == store.__name__ else name

    def default(self, field: Field) -> str:
        """Return an expression for the default of a record's field: a constant where it is no plain value."""
        value = field.default
        if value is UNSET:
            return "UNSET"
        if value is None or value == () or type(value) in (bool, int, float, str):
            return repr(value)
        name = f"D_{field.pair}_{field.name}"
        self.constants[name] = f"default_of({self.name_of(field.owner)}, {field.name!r})"
        return name

    def numbers(self, field: Field, enum: type[StrEnum]) -> tuple[str, str]:
        """Return the tables of an enum: of its members by number for this field, and of numbers by value."""
        numbers = enum_names(enum, field.descriptor)
        of, to = f"OF_{field.pair}_{field.name}", f"TO_{enum.__name__}"
        values = {member.value: number for number, member in numbers.items()}
        self.constants[to] = repr(values)
        if isinstance(field.default, enum):
            numbers = {0: field.default, **numbers}
        own = self.name_of(enum)
        rows = ", ".join(f"{number}: {own}.{one.name}" for number, one in numbers.items())
        self.constants[of] = f"Numbers({f'{field.pair}.{field.wire}'!r}, {{{rows}}})"
        return of, to


def write_pairs(pairs: Sequence[Pair], checks: Checks, source: Source) -> list[str]:
    """Return the functions of all pairs, `fill_X(record, message)` and `read_X(message)`; `X` is the pair's name.

    A pair that is `checked` has `checked_X(message, faults)`, too, with these checks: it reads, and adds faults to
    those given; with any, the record is of no use.

    Raises:
        TypeError: a field of one side has none to match on the other.
    """
    carried = {
        descriptor_of(pair.message).full_name: Carried(pair.record, pair.name) for pair in pairs
    }
    lines: list[str] = []
    for pair in pairs:
        found = fields_of(pair, carried)
        codes = [(field, _EMITTERS[field.shape](field, source)) for field in found]
        lines += [*_fill(pair, codes, source), "", ""]
        if not pair.shown:
            lines += [*_read(pair, codes, source), "", ""]
        if pair.checked:
            lines += [*_checked(pair, codes, checks, source), "", ""]
    kinds = [(pair, class_of(descriptor_of(pair.message))) for pair in pairs]
    own = {pair.record: kind for pair, kind in kinds}
    return [
        *lines,
        *_table("MESSAGES", {source.name_of(record): kind for record, kind in own.items()}),
        *_table("FILLERS", {kind: f"fill_{pair.name}" for pair, kind in kinds}),
        *_table("READERS", {kind: f"read_{pair.name}" for pair, kind in kinds if not pair.shown}),
    ]


def _table(name: str, rows: Mapping[str, str]) -> list[str]:
    return [f"{name}: dict[Any, Any] = {{", *(f"    {k}: {v}," for k, v in rows.items()), "}"]


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


def _fill(pair: Pair, codes: Iterable[tuple[Field, _Code]], source: Source) -> list[str]:
    lines = [line for field, code in codes for line in _within(field, code.fill)]
    kind = class_of(descriptor_of(pair.message))
    head = f"def fill_{pair.name}(r: {source.typed(pair.record)}, m: {kind}) -> None:"
    return [head, *_indented(lines or ["pass"])]


def _within(field: Field, lines: list[str]) -> list[str]:
    """Return the statements over a record that a field holds, where it is there."""
    if not field.holder:
        return lines
    inner = [line.replace(f"r.{field.name}", f"h.{field.name}") for line in lines]
    return [f"h = r.{field.holder}", "if h is not UNSET:", *_indented(inner)]


def _read(pair: Pair, codes: Iterable[tuple[Field, _Code]], source: Source) -> list[str]:
    values = [f"{field.name}={code.read(field.wire)}," for field, code in codes]
    kind, record = class_of(descriptor_of(pair.message)), source.name_of(pair.record)
    return [
        f"def read_{pair.name}(m: {kind}) -> {source.typed(pair.record)}:",
        f"    return {record}(",
        *_indented(_indented(values)),
        "    )",
    ]


def _checked(
    pair: Pair, codes: Iterable[tuple[Field, _Code]], checks: Checks, made: Source
) -> list[str]:
    """Return a function that reads only the fields that are there, with one for each field.

    Most fields of what callers send are absent, and to ask for each takes longer than to list the others.
    The fields of the message alone are only checked: the record lacks them.
    """
    name, descriptor = pair.name, descriptor_of(pair.message)
    fields_by_name = descriptor.fields_by_name
    source: list[str] = []
    table: list[str] = []
    end: list[str] = []

    def add(field: FieldDescriptor, lines: list[str]) -> None:
        function = f"checked_{name}_{field.name}"
        head = f"def {function}(m: Any, v: Any, k: dict[str, Any], f: Faults, p: str = '') -> None:"
        source.extend([head, *_indented(lines or ["pass"]), "", ""])
        table.append(f"{field.number}: {function}")

    for field in map(fields_by_name.__getitem__, pair.message_only):
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
                read = f"if not f: {key} = read_{field.arms[arm.name].name}(v)"
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
    record = made.name_of(pair.record)
    return [
        *source,
        f"CHECKED_{name}: dict[int, Callable[..., None]] = {{{', '.join(table)}}}",
        "",
        "",
        f"def checked_{name}(m: {class_of(descriptor)}, f: Faults, p: str = '') -> {record} | None:",
        "    k: dict[str, Any] = {}",
        "    for d, v in m.ListFields():",
        f"        CHECKED_{name}[d.number](m, v, k, f)",
        *_indented(end),
        f"    return None if f else {record}(**k)",
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


def _scalar(field: Field, source: Source) -> _Code:
    value, target = f"r.{field.name}", f"m.{field.wire}"
    to, of = _value(field, source)
    if not field.presence:
        if field.skip_zero:
            return _Code([f"v = {value}", f"if v: {target} = {to.format('v')}"], of)
        return _Code([f"{target} = {to.format(value)}"], of)
    default = source.default(field)
    if field.unset:
        fill = [f"v = {value}", f"if v is not UNSET: {target} = {to.format('v')}"]
        return _Code(fill, of, default)
    return _Code([f"{target} = {to.format(value)}"], of, default)


def _value(field: Field, source: Source) -> tuple[str, str]:
    """Return how to write and read one value, as templates; enums go by tables."""
    if field.enum is None:
        return "{}", "{}"
    of, to = source.numbers(field, field.enum)
    # `_value_` and not the member: an enum's own hash is a Python function.
    return f"{to}[{{}}._value_]", f"{of}[{{}}]"


def _moment(field: Field, source: Source) -> _Code:
    condition = "v is not UNSET" if field.unset else "v"
    fill = [
        f"v = r.{field.name}",
        f"if {condition}:",
        f"    t = m.{field.wire}",
        "    t.seconds = v // 1000000",
        "    t.nanos = v % 1000000 * 1000",
        *(["    t.SetInParent()"] if field.unset else []),
    ]
    absent = source.default(field) if field.unset or field.default else ""
    return _Code(fill, "({0}.seconds * 1000000 + {0}.nanos // 1000)", absent)


def _span(field: Field, source: Source) -> _Code:
    write = f"put_ms(m.{field.wire}, v)"
    # A default other than "none" is sent, for readers that don't know it.
    quiet = field.default if isinstance(field.default, int) and field.default <= 0 else None
    condition = "v is not UNSET" if field.unset else "True" if quiet is None else f"v != {quiet}"
    absent = "0" if field.required else source.default(field)
    return _Code([f"v = r.{field.name}", f"if {condition}: {write}"], "get_ms({})", absent)


def _struct(field: Field, source: Source) -> _Code:
    write = [
        f"c = m.{field.wire}",
        "c.SetInParent()",
        f"fill_{field.record}(v, c)",
    ]
    if field.required:
        otherwise = f'missing("{field.pair}.{field.wire}")'
        fill = [f"v = r.{field.name}", *write]
    else:
        otherwise = default = source.default(field)
        test = f"v is not {default}"
        if not field.unset and field.default is not None:
            test += f" and v != {default}"
        fill = [f"v = r.{field.name}", f"if {test}:", *("    " + line for line in write)]
    return _Code(fill, f"read_{field.record}({{}})", otherwise)


def _many(field: Field, source: Source) -> _Code:
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
        to, of = _value(field, source)
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


def _mapping(field: Field, _source: Source) -> _Code:
    target = f"m.{field.wire}"
    return _Code([f"v = r.{field.name}", f"if v: {target}.update(v)"], "dict({})")


def _choice(field: Field, source: Source) -> _Code:
    """Write a union of records: a oneof with an arm for each."""
    fill = [f"v: Any = r.{field.name}", "k = type(v)"]
    read = ""
    for arm, (record, name) in field.arms.items():
        test = f"m.{arm}.SetInParent(); fill_{name}(v, m.{arm})"
        fill.append(f"if k is {source.name_of(record)}: {test}")
        asked = f'(a := m.WhichOneof("{field.wire}"))' if not read else "a"
        read += f'read_{name}(m.{arm}) if {asked} == "{arm}" else '
    return _Code(fill, f'{read}missing("{field.pair}.{field.wire}")')


_EMITTERS: dict[Shape, Callable[[Field, Source], _Code]] = {
    Shape.SCALAR: _scalar,
    Shape.MOMENT: _moment,
    Shape.SPAN: _span,
    Shape.STRUCT: _struct,
    Shape.MANY: _many,
    Shape.MAPPING: _mapping,
    Shape.CHOICE: _choice,
}
