"""Writes the functions that check messages against the limits of their fields.

For every message that a request can hold there is one: it reads each field and compares it with the field's limit. A
field of a request that needs a limit and has none is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from google.protobuf.descriptor import (
    Descriptor,
    FieldDescriptor,
    FileDescriptor,
    OneofDescriptor,
)
from scripts.conversions.fields import class_of
from scripts.conversions.limits import Limit, mapping
from scripts.conversions.options import (
    NOT_ENTERED,
    RECORDS,
    is_required,
    limit_of,
    record_limit,
)

from stepwell.core.records.limits import STORE_ITEMS_MAX
from stepwell_client.store.v1 import store_pb2
from stepwell_client.v1 import orchestrator_pb2, types_pb2, worker_pb2

_DURATION = "google.protobuf.Duration"


def request_descriptors() -> Iterator[Descriptor]:
    """Yield every request of every service, and the items that are checked by themselves."""
    for module in (orchestrator_pb2, worker_pb2, store_pb2):
        file = cast("FileDescriptor", module.DESCRIPTOR)
        for service in file.services_by_name.values():
            for method in service.methods:
                yield method.input_type
    yield cast("Descriptor", worker_pb2.Outcome.DESCRIPTOR)
    yield cast("Descriptor", worker_pb2.Begin.DESCRIPTOR)
    yield cast("Descriptor", worker_pb2.JournalWrite.DESCRIPTOR)
    yield cast("Descriptor", types_pb2.JournalEntry.DESCRIPTOR)
    yield cast("Descriptor", types_pb2.TaskSpec.DESCRIPTOR)


# The functions have the parameters `m`, a message; `p`, its path, empty or with a dot at its end; and
# `f`, the faults. Limits compare the variable `v`.


class Checks:
    """Writes the functions that check messages, one for each message that is reached."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        """The source of each function, by the full name of its message."""

    def value(self, field: FieldDescriptor) -> list[str]:
        """Return the statements that check the value `v` of a field that is there."""
        return self._value(field, limit_of(field))

    def absent(self, field: FieldDescriptor | OneofDescriptor) -> list[str]:
        """Return the statements for a field, or all of a oneof, that is absent or zero; none: it may be."""
        if isinstance(field, OneofDescriptor):
            fault = "absent; limit: it must be given" if is_required(field) else ""
        else:
            fault = _absent(field, limit_of(field))
        return [f"f.add(p + {field.name!r}, {fault!r})"] if fault else []

    def is_cleaned(self, field: FieldDescriptor) -> bool:
        """Return whether the check may put another value into the message."""
        limit = limit_of(field)
        return limit is not None and bool(limit.unclean)

    def function(self, descriptor: Descriptor) -> str:
        """Return the name of a message's function; write it unless it is written."""
        name = descriptor.full_name
        if name not in self.lines:
            lines = self.lines[name] = [_head(name, descriptor)]
            for field in sorted(descriptor.fields, key=lambda field: field.number):
                if field.containing_oneof is None or not _is_choice(field.containing_oneof):
                    lines += _indented(self._field(field))
            for oneof in filter(_is_choice, descriptor.oneofs):
                lines += _indented(self._oneof(oneof))
            lines.append("    return None")
        return _function_name(name)

    def record(self, descriptor: Descriptor) -> str:
        """Return the name of a record's function; write it unless it is written."""
        key = f"{descriptor.full_name}.record"
        if key not in self.lines:
            lines = self.lines[key] = [_head(key, descriptor)]
            for field in descriptor.fields:
                lines += _indented(self._record_field(field))
            lines.append("    return None")
        return _function_name(key)

    def _record_field(self, field: FieldDescriptor) -> list[str]:
        """Return the statements that check a record's text, or enter the records that a field holds."""
        name, kind = field.name, field.message_type
        limit = record_limit(field.full_name)
        at = f'f"{{p}}{name}[{{i}}]"' if field.is_repeated else f"p + {name!r}"
        if kind is None:
            body = self._test(limit, at) if field.type == FieldDescriptor.TYPE_STRING else []
        elif kind.GetOptions().map_entry:
            is_text = kind.fields_by_name["value"].type == FieldDescriptor.TYPE_STRING
            each = limit if is_text else Limit("False", "any number", "shown")
            return [f"v = m.{name}", *self._map(field, mapping(STORE_ITEMS_MAX, limit, each))]
        elif kind.full_name.startswith("google."):
            return []
        else:
            body = [f"{self.record(kind)}(v, {at} + '.', f)"]
        if not body:
            return []
        if field.is_repeated:
            return [f"for i, v in enumerate(m.{name}[:]):", *_indented(body)]
        if kind is None:
            return [f"v = m.{name}", *body]
        return [f"if m.HasField({name!r}):", f"    v = m.{name}", *_indented(body)]

    def _entered(self, field: FieldDescriptor, kind: Descriptor) -> str:
        return self.record(kind) if field.full_name in RECORDS else self.function(kind)

    def _oneof(self, oneof: OneofDescriptor) -> list[str]:
        lines, then = [f"o = m.WhichOneof({oneof.name!r})"], "if"
        if absent := self.absent(oneof):
            lines += ["if o is None:", *_indented(absent)]
            then = "elif"
        for field in oneof.fields:
            body = self.value(field)
            if body:
                lines += [
                    f"{then} o == {field.name!r}:",
                    f"    v = m.{field.name}",
                    *_indented(body),
                ]
                then = "elif"
        return lines

    def _field(self, field: FieldDescriptor) -> list[str]:
        name = field.name
        body = self.value(field)
        absent = self.absent(field)
        if field.has_presence:
            there = [f"if m.HasField({name!r}):", f"    v = m.{name}"]
        else:
            there = [f"v = m.{name}", "if v:"]
        if not body and not absent:
            return []
        lines = [*there, *(_indented(body) or ["    pass"])]
        if absent:
            lines += ["else:", *_indented(absent)]
        return lines

    def _value(self, field: FieldDescriptor, limit: Limit | None) -> list[str]:
        """Return the statements that check the value `v` of a field that is there."""
        name, kind = field.name, field.message_type
        at = f"p + {name!r}"
        if kind is not None and kind.GetOptions().map_entry:
            return self._map(field, _required(field, limit))
        if field.is_repeated:
            return self._list(field, _required(field, limit))
        if kind is not None and kind.full_name != _DURATION:
            if field.full_name in NOT_ENTERED:
                return []
            enter = [f"{self._entered(field, kind)}(v, p + {name + '.'!r}, f)"]
            return self._test(limit, at, enter) if limit else enter
        if field.enum_type is not None:
            return self._enum(field, at)
        if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return []
        return self._test(_required(field, limit), at) + _cleaning(limit, f"m.{name}")

    def _test(self, limit: Limit, at: str, otherwise: Iterable[str] = ()) -> list[str]:
        """Return the statements that add a fault at the path `at`, or else do `otherwise`."""
        if limit.beyond == "False":
            return list(otherwise)
        reason = f", {limit.reason!r}" if limit.reason else ""
        lines = [f"if {limit.beyond}: f.add({at}, {limit.fault()}{reason})"]
        other = _indented(otherwise)
        return [*lines, "else:", *other] if other else lines

    def _list(self, field: FieldDescriptor, limit: Limit) -> list[str]:
        at = f'f"{{p}}{field.name}[{{i}}]"'
        if field.message_type is not None:
            if field.full_name in NOT_ENTERED:
                return self._test(limit, f"p + {field.name!r}")
            path = f'f"{{p}}{field.name}[{{i}}]."'
            items = [f"{self._entered(field, field.message_type)}(v, {path}, f)"]
        elif limit.each is not None:
            items = self._test(limit.each, at)
        elif field.enum_type is not None:
            items = self._enum(field, at)
        else:
            raise TypeError(f"the items of {field.full_name} have no limit")
        loop = ["for i, v in enumerate(v[:]):", *_indented(items)]
        return self._test(limit, f"p + {field.name!r}", loop)

    def _map(self, field: FieldDescriptor, limit: Limit) -> list[str]:
        if limit.key is None or limit.each is None:
            raise TypeError(f"the map {field.name} has no limits for its keys and values")
        at = f'f"{{p}}{field.name}[{{shown(k)}}]"'
        loop = [
            "for k, w in v.items():",
            "    v = k",
            f"    if {limit.key.beyond}: f.add({at}, {limit.key.fault('key ')})",
            "    else:",
            "        v = w",
            *_indented(_indented(self._test(limit.each, at))),
        ]
        return self._test(limit, f"p + {field.name!r}", loop)

    def _enum(self, field: FieldDescriptor, at: str) -> list[str]:
        kind = field.enum_type
        values = kind.values if kind is not None else ()
        known = frozenset(value.number for value in values if value.number)
        return [f"if v not in {set(known)!r}: f.add({at}, f'there is no value numbered {{v}}')"]


def _function_name(name: str) -> str:
    """Return the name of the function of a message, or of a record, by its full name."""
    name = name.replace("stepwell.store.v1.", "store_").replace("stepwell.v1.", "")
    return "check_" + name.replace(".", "_")


def _head(name: str, descriptor: Descriptor) -> str:
    return f"def {_function_name(name)}(m: {class_of(descriptor)}, p: str, f: Faults) -> None:"


def _is_choice(oneof: OneofDescriptor) -> bool:
    """Return whether it is a oneof of the protocol's; an optional field is one, too, of its own."""
    return len(oneof.fields) > 1


def _indented(lines: Iterable[str]) -> list[str]:
    return ["    " + line for line in lines]


def _cleaning(limit: Limit | None, target: str) -> list[str]:
    """Return the branch that puts a value in order which is within its limit, and can't be kept as it is."""
    if limit is None or not limit.unclean:
        return []
    return [f"elif {limit.unclean}: {target} = {limit.cleaned}"]


def _required(field: FieldDescriptor, limit: Limit | None) -> Limit:
    if limit is None:
        raise TypeError(f"{field.full_name} has no limit")
    return limit


def _absent(field: FieldDescriptor, limit: Limit | None) -> str:
    """Return the fault of a field that is absent or zero, or "" if it may be absent."""
    optional = field.has_presence and field.message_type is None
    return f"absent; limit: {limit.wording}" if limit and limit.required and not optional else ""


def write_checks(checks: Checks) -> list[str]:
    """Return the functions of all requests, and the table by the class of each message.

    Raises:
        TypeError: a field that a request can bring has no limit.
    """
    table: dict[str, str] = {}
    for descriptor in request_descriptors():
        table[class_of(descriptor)] = checks.function(descriptor)
    lines = [line for function in checks.lines.values() for line in (*function, "", "")]
    rows = [f"    {kind}: {function}," for kind, function in table.items()]
    return [*lines, "CHECKS: dict[Any, Callable[[Any, str, Faults], None]] = {", *rows, "}"]
