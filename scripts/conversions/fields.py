"""Classifies each pair of a record's field and a message's field; TypeError if they don't match.

The mapping. `x_us` is a Timestamp `x_time` (`time_us`: `time`), `x_ms` a Duration `x`; all else has the
same name. A field that may be unset, or whose default isn't zero, has presence: absent is the record's
default. An empty value isn't sent where its absence means the same.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum, StrEnum, auto
from typing import Any, NamedTuple, Union, cast, get_args, get_origin

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from msgspec import NODEFAULT, UNSET, UnsetType
from msgspec.structs import FieldInfo, fields

from stepwell.core.records.model import Record
from stepwell.core.records.record import UNKNOWN

_SCALARS: dict[type, tuple[int, ...]] = {
    str: (FieldDescriptor.TYPE_STRING,),
    bytes: (FieldDescriptor.TYPE_BYTES,),
    int: (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_INT32),
    float: (FieldDescriptor.TYPE_DOUBLE,),
    bool: (FieldDescriptor.TYPE_BOOL,),
}
_TIMESTAMP = "google.protobuf.Timestamp"
_DURATION = "google.protobuf.Duration"


class Carried(NamedTuple):
    """The record that a message carries, and the name of the pair."""

    record: type[Record]
    name: str


Messages = Mapping[str, Carried]
"""The record of each message, by its full name: a field can't hold another's."""


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


class Shape(Enum):
    """The kinds of pairs of fields."""

    SCALAR = auto()
    """Text, bytes, a number, a truth or an enum."""
    MOMENT = auto()
    SPAN = auto()
    STRUCT = auto()
    MANY = auto()
    MAPPING = auto()
    CHOICE = auto()


class Field(NamedTuple):
    """A record's field, and the message's field that carries it."""

    name: str
    wire: str
    """The message field's name, or the oneof's. With a dot: a field of a message that this one holds."""
    shape: Shape
    descriptor: FieldDescriptor
    """The message field that holds the values; of a oneof: its first arm."""
    required: bool
    default: Any
    """None where `required`."""
    unset: bool
    """The record's field may be UNSET."""
    presence: bool = False
    """The message's field is a scalar that may be absent."""
    skip_zero: bool = False
    """A zero need not be written."""
    enum: type[StrEnum] | None = None
    record: str = ""
    """The name of the pair of the record that each value is."""
    inner: str = ""
    """The repeated field of the message that stands between."""
    nested: bool = False
    """A tuple of tuples."""
    arms: Mapping[str, Carried] = {}
    """A oneof's fields, and what each carries."""
    holder: str = ""
    """The record's field whose value has this one, where it is shown from within."""
    pair: str = ""
    """The name of the pair."""
    owner: type[Record] = Record
    """The record that has the field."""


def fields_of(pair: Pair, messages: Messages) -> list[Field]:
    """Return the pairs of fields.

    Raises:
        TypeError: a field of one side has none to match on the other.
    """
    record, descriptor = pair.record, descriptor_of(pair.message)
    infos = {info.name: info for info in fields(record) if info.name != UNKNOWN}
    found = [
        _pair(info, descriptor, pair.renamed, messages)._replace(pair=pair.name, owner=record)
        for info in infos.values()
        if not pair.shown or _has(descriptor, pair.renamed.get(info.name) or wire_name(info.name))
    ]
    for wire, path in pair.derived.items():
        holder, _, name = path.partition(".")
        (held,) = (kind for kind in _members(infos[holder].type) if kind is not UnsetType)
        (info,) = (one for one in fields(held) if one.name == name)
        shown = _pair(info, descriptor, {name: wire}, messages)
        found.append(shown._replace(holder=holder, pair=pair.name, owner=held))
    used = {one.wire.partition(".")[0] for one in found}.union(
        *(one.arms for one in found), pair.message_only
    )
    spare = {field.name for field in descriptor.fields} - used
    unknown = pair.message_only.keys() - {field.name for field in descriptor.fields}
    if spare or unknown:
        raise TypeError(
            f"{record.__name__} lacks {sorted(spare | unknown)} of {descriptor.full_name}"
        )
    return found


def _has(descriptor: Descriptor, wire: str) -> bool:
    return wire in descriptor.fields_by_name or wire in descriptor.oneofs_by_name


def descriptor_of(message: type[Message]) -> Descriptor:
    """Return the descriptor of a message, as the class that the stubs of protobuf name."""
    return cast("Descriptor", message.DESCRIPTOR)


def class_of(descriptor: Descriptor) -> str:
    """Return the name of a message's class, as the generated module has it: `worker_pb2.Outcome.Planned`."""
    module = descriptor.file.name.rpartition("/")[2].removesuffix(".proto")
    return f"{module}_pb2.{descriptor.full_name.removeprefix(descriptor.file.package + '.')}"


def enum_names(enum: type[StrEnum], field: FieldDescriptor) -> dict[int, StrEnum]:
    """Return the members by their numbers in the protocol.

    Raises:
        TypeError: the two enums don't have the same members.
    """
    kind = field.enum_type
    if kind is None:
        raise TypeError(f"{field.full_name} is no enum")
    prefix = "".join(f"_{c}" if c.isupper() else c.upper() for c in kind.name).lstrip("_") + "_"
    numbers = {value.name.removeprefix(prefix): value.number for value in kind.values}
    if numbers.pop("UNSPECIFIED", -1) != 0 or numbers.keys() != set(enum.__members__):
        raise TypeError(f"{enum.__name__} and {kind.full_name} differ")
    return {numbers[name]: member for name, member in enum.__members__.items()}


def wire_name(name: str) -> str:
    """Return the message field's name for a record field's: units stand in the type there."""
    if name == "time_us":
        return "time"
    if name.endswith("_us"):
        return name.removesuffix("_us") + "_time"
    return name.removesuffix("_ms")


def _pair(
    info: FieldInfo,
    descriptor: Descriptor,
    renamed: Mapping[str, str],
    messages: Messages,
) -> Field:
    wire = renamed.get(info.name) or wire_name(info.name)
    required = info.default is NODEFAULT and info.default_factory is NODEFAULT
    kinds = _members(info.type)
    unset = UnsetType in kinds
    kinds = tuple(kind for kind in kinds if kind not in (UnsetType, types.NoneType))
    default = None if required or info.default is NODEFAULT else info.default
    oneof = descriptor.oneofs_by_name.get(wire)
    if len(kinds) > 1 and oneof is not None:
        arms = {arm.name: _like(arm, kinds, messages) for arm in oneof.fields}
        if {arm.record for arm in arms.values()} != set(kinds):
            raise TypeError(f"{oneof.full_name} has other arms than {info.name}")
        return Field(
            info.name, wire, Shape.CHOICE, oneof.fields[0], required, default, unset, arms=arms
        )
    head, _, name = wire.rpartition(".")
    holder = (
        cast("Descriptor", descriptor.fields_by_name[head].message_type) if head else descriptor
    )
    field = holder.fields_by_name.get(name)
    if field is None or len(kinds) != 1:
        raise TypeError(f"{descriptor.full_name} has no field for {info.name}")
    pair = Field(info.name, wire, Shape.SCALAR, field, required, default, unset)
    return _shaped(pair, kinds[0], messages)


def _shaped(pair: Field, kind: Any, messages: Messages) -> Field:
    field = pair.descriptor
    holder = field.message_type
    origin = get_origin(kind)
    if origin is tuple:
        return _tuple(pair, get_args(kind)[0], messages)
    if origin is dict:
        if holder is None or not holder.GetOptions().map_entry or get_args(kind)[0] is not str:
            raise TypeError(f"{field.full_name} is no map of text")
        _check_scalar(holder.fields_by_name["value"], get_args(kind)[1])
        return pair._replace(shape=Shape.MAPPING)
    if field.is_repeated:
        raise TypeError(f"{field.full_name} is repeated, {pair.name} is not")
    if kind is int and holder is not None:
        unit = {_TIMESTAMP: ("_us", Shape.MOMENT), _DURATION: ("_ms", Shape.SPAN)}
        suffix, shape = unit.get(holder.full_name, ("", Shape.SCALAR))
        if not suffix or not pair.name.endswith(suffix):
            raise TypeError(f"{field.full_name} has another unit than {pair.name}")
        return pair._replace(shape=shape)
    if holder is not None:
        return pair._replace(shape=Shape.STRUCT, record=_like(field, (kind,), messages).name)
    return _scalar(pair, kind)


def _scalar(pair: Field, kind: Any) -> Field:
    field = pair.descriptor
    enum = _enum(kind)
    _check_scalar(field, kind)
    presence = field.has_presence
    if presence and pair.required:
        raise TypeError(f"{field.full_name} may be absent, {pair.name} may not")
    if pair.unset and not presence:
        raise TypeError(f"{field.full_name} can't be absent, {pair.name} can")
    # A zero that is written all the same keeps the sign of -0.0.
    skip_zero = enum is None and kind is not float
    return pair._replace(presence=presence, skip_zero=skip_zero, enum=enum)


def _tuple(pair: Field, kind: Any, messages: Messages) -> Field:
    field = pair.descriptor
    inner, nested = "", get_origin(kind) is tuple
    if nested or not field.is_repeated:
        # A message of one repeated field stands between: presence, or a second level.
        if field.message_type is None or len(field.message_type.fields) != 1:
            raise TypeError(f"{field.full_name} holds no list for {pair.name}")
        if nested:
            kind = get_args(kind)[0]
        inner = field.message_type.fields[0].name
        field = field.message_type.fields[0]
    if not field.is_repeated or (pair.unset and not inner) or pair.default not in ((), None, UNSET):
        raise TypeError(f"{pair.descriptor.full_name} does not match {pair.name}")
    pair = pair._replace(shape=Shape.MANY, descriptor=field, inner=inner, nested=nested)
    if field.message_type is not None:
        return pair._replace(record=_like(field, (kind,), messages).name)
    _check_scalar(field, kind)
    return pair._replace(enum=_enum(kind))


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _enum(kind: Any) -> type[StrEnum] | None:
    return kind if isinstance(kind, type) and issubclass(kind, StrEnum) else None


def _check_scalar(field: FieldDescriptor, kind: Any) -> None:
    enum = _enum(kind)
    if enum is not None:
        enum_names(enum, field)
    elif field.type not in _SCALARS.get(kind, ()):
        raise TypeError(f"{field.full_name} has another type than the record's")


def _like(field: FieldDescriptor, kinds: tuple[Any, ...], messages: Messages) -> Carried:
    """Return that record among `kinds` which the field's message carries."""
    holder = cast("Descriptor", field.message_type)
    carried = messages.get(holder.full_name)
    if carried is not None and carried.record in kinds:
        return carried
    raise TypeError(f"{field.full_name} carries none of the records that it should")
