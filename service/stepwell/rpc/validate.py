"""Checks requests against the table of limits, and says where each fault is.

For every message that a request can hold a walker is made once, at import. A field of a request that
the table doesn't know is an error then, so no field can be without a limit. Only sizes and shapes are
looked at here: whether a plan is a sound graph is for `core.graph` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import Message

from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.limits import VIOLATIONS_MAX
from stepwell.rpc.constraints import Limit, shown
from stepwell.rpc.field_limits import FIELD_LIMITS, NOT_ENTERED
from stepwell_client.v1 import orchestrator_pb2, store_pb2, worker_pb2

_DURATION = "google.protobuf.Duration"
_CPPTYPE_BOOL = FieldDescriptor.CPPTYPE_BOOL
_ABSENT = "absent; limit: it must be given"


class Findings:
    """The faults found so far; those beyond `VIOLATIONS_MAX` are only counted."""

    __slots__ = ("count", "violations")

    def __init__(self) -> None:
        self.count = 0
        self.violations: list[Violation] = []

    def add(self, field: str, description: str) -> None:
        """Note a fault."""
        self.count += 1
        if self.count <= VIOLATIONS_MAX:
            self.violations.append(Violation(field, description))


Check = Callable[[Any, str, Findings], None]
"""Looks at a field's value; is given the path of the message that the field is in."""


class Walker(NamedTuple):
    """What is looked at in a message of one kind."""

    checks: dict[int, Check]
    """For fields that are there, by number."""
    demands: list[tuple[str, Callable[[Any], bool], str]]
    """For fields that may not be absent or zero: name, whether it is there, what to say if not."""

    def walk(self, message: Any, path: str, findings: Findings) -> None:
        """Look at a message; `path` ends in a dot, or is empty."""
        checks = self.checks
        for field, value in message.ListFields():
            check = checks.get(field.number)
            if check is not None:
                check(value, path, findings)
        for name, there, description in self.demands:
            if not there(message):
                findings.add(path + name, description)


def check(request: Message) -> None:
    """Raise if any field of the request is beyond its limit.

    Raises:
        InvalidArgument: with the fields at fault, `VIOLATIONS_MAX` of them at the most.
    """
    findings = _look(request)
    if findings.count:
        first = findings.violations[0]
        more = f" (and {findings.count - 1:,} more)" if findings.count > 1 else ""
        raise InvalidArgument(
            f"{first.field}: {first.description}{more}", tuple(findings.violations)
        )


def violations(message: Message) -> tuple[Violation, ...]:
    """Return what is wrong with a message: a request, or an item such as an Outcome."""
    return tuple(_look(message).violations)


def _look(message: Message) -> Findings:
    findings = Findings()
    _WALKERS[message.DESCRIPTOR.full_name].walk(message, "", findings)
    return findings


def _make(descriptor: Descriptor, made: dict[str, Walker]) -> Walker:
    """Make a message's walker and those of the messages in it."""
    walker = made.get(descriptor.full_name)
    if walker is not None:
        return walker
    walker = made[descriptor.full_name] = Walker({}, [])
    for field in descriptor.fields:
        limit = FIELD_LIMITS.get(field.full_name)
        found = _field_check(field, limit, made)
        if found is not None:
            walker.checks[field.number] = found
        if limit is not None and not field.is_repeated:
            walker.demands.extend(_demand(field, limit))
    for oneof in descriptor.oneofs:
        if oneof.full_name in FIELD_LIMITS:
            name = oneof.name
            walker.demands.append((name, _chooses(name), _ABSENT))
    return walker


def _field_check(
    field: FieldDescriptor, limit: Limit | None, made: dict[str, Walker]
) -> Check | None:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        return _map_check(field.name, _entry(field, limit))
    if kind is not None and kind.full_name == _DURATION:
        return _value_check(field.name, _entry(field, limit))
    if field.is_repeated:
        return _list_check(field, _entry(field, limit), made)
    if kind is not None:
        enter = None if field.full_name in NOT_ENTERED else _make(kind, made)
        return _message_check(field.name, limit, enter)
    if field.enum_type is not None:
        return _enum_check(field)
    if field.cpp_type == _CPPTYPE_BOOL:
        return None
    return _value_check(field.name, _entry(field, limit))


def _entry(field: FieldDescriptor, limit: Limit | None) -> Limit:
    if limit is None:
        raise TypeError(f"{field.full_name} has no limit in stepwell.rpc.field_limits")
    return limit


def _demand(
    field: FieldDescriptor, limit: Limit
) -> Iterator[tuple[str, Callable[[Any], bool], str]]:
    """Yield what must be there: a zero that breaks the limit is told from an absent field."""
    name = field.name
    if limit.demanded and field.has_presence:
        yield name, lambda message: message.HasField(name), _ABSENT
    elif not field.has_presence and (limit.demanded or not limit.test()(field.default_value)):
        description = f"absent; limit: {limit.words}"
        yield name, lambda message: bool(getattr(message, name)), description


def _chooses(name: str) -> Callable[[Any], bool]:
    return lambda message: message.WhichOneof(name) is not None


def _value_check(name: str, limit: Limit) -> Check:
    inside = limit.test()

    def look(value: Any, path: str, findings: Findings) -> None:
        if not inside(value):
            findings.add(path + name, limit.fault(value))

    return look


def _enum_check(field: FieldDescriptor) -> Check:
    name, known = field.name, _numbers(field)

    def look(value: int, path: str, findings: Findings) -> None:
        if value not in known:
            findings.add(path + name, f"there is no value numbered {value}")

    return look


def _numbers(field: FieldDescriptor) -> frozenset[int]:
    """Return the numbers that mean something."""
    kind = field.enum_type
    return frozenset(value.number for value in kind.values if value.number) if kind else frozenset()


def _message_check(name: str, limit: Limit | None, walker: Walker | None) -> Check | None:
    # That it is given is seen where it is absent.
    inside = None if limit is None or limit.demanded else limit.test()
    if walker is None:
        return None

    def look(value: Any, path: str, findings: Findings) -> None:
        if inside is not None and limit is not None and not inside(value):
            findings.add(path + name, limit.fault(value))
            return
        walker.walk(value, f"{path}{name}.", findings)

    return look


def _list_check(field: FieldDescriptor, limit: Limit, made: dict[str, Walker]) -> Check:
    name, fits = field.name, limit.test()
    each = _item_check(field, limit, made)

    def look(values: Any, path: str, findings: Findings) -> None:
        if not fits(values):
            findings.add(path + name, limit.fault(values))
        elif each is not None:
            each(values, path + name, findings)

    return look


def _item_check(field: FieldDescriptor, limit: Limit, made: dict[str, Walker]) -> Check | None:
    """Return what looks at the items of a list; is given the list's own path."""
    if field.message_type is not None:
        if field.full_name in NOT_ENTERED:
            return None
        walk = _make(field.message_type, made).walk

        def look_into(values: Any, path: str, findings: Findings) -> None:
            for index, value in enumerate(values):
                walk(value, f"{path}[{index}].", findings)

        return look_into
    each = limit.each
    if each is not None:
        return _values_check(each)
    if field.enum_type is not None:
        return _numbers_check(_numbers(field))
    raise TypeError(f"the items of {field.full_name} have no limit")


def _values_check(each: Limit) -> Check:
    """Look at all items in one call, and at each by itself only where that finds a fault."""
    inside, all_inside = each.test(), each.test_all()

    def look(values: Any, path: str, findings: Findings) -> None:
        if all_inside(list(values)):
            return
        for index, value in enumerate(values):
            if not inside(value):
                findings.add(f"{path}[{index}]", each.fault(value))

    return look


def _numbers_check(known: frozenset[int]) -> Check:
    def look(values: Any, path: str, findings: Findings) -> None:
        for index, value in enumerate(values):
            if value not in known:
                findings.add(f"{path}[{index}]", f"there is no value numbered {value}")

    return look


def _map_check(name: str, limit: Limit) -> Check:
    fits, key, each = limit.test(), limit.key, limit.each
    if key is None or each is None:
        raise TypeError(f"the map {name} has no limits for its keys and values")
    key_inside, value_inside = key.test(), each.test()

    def look(entries: Any, path: str, findings: Findings) -> None:
        if not fits(entries):
            findings.add(path + name, limit.fault(entries))
            return
        for word, value in entries.items():
            if not key_inside(word):
                findings.add(f"{path}{name}[{shown(word)}]", f"key {key.fault(word)}")
            elif not value_inside(value):
                findings.add(f"{path}{name}[{shown(word)}]", each.fault(value))

    return look


def request_descriptors() -> Iterator[Descriptor]:
    """Yield every request of every service, and the items that are looked at by themselves."""
    for module in (orchestrator_pb2, worker_pb2, store_pb2):
        file = cast("FileDescriptor", module.DESCRIPTOR)
        for service in file.services_by_name.values():
            for method in service.methods:
                yield method.input_type
    yield cast("Descriptor", worker_pb2.Outcome.DESCRIPTOR)
    yield cast("Descriptor", worker_pb2.Begin.DESCRIPTOR)


_WALKERS: dict[str, Walker] = {}
for _descriptor in request_descriptors():
    _make(_descriptor, _WALKERS)
