"""Requests with text that is no UTF-8: which field it is, and what can be taken all the same.

Protobuf reads such a message not at all and names no field. Here it is read a second time as a message of
the same fields whose text may be any bytes. Half of a surrogate pair, as JavaScript's strings may hold, is
the usual cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count, islice
from typing import Any, TypeVar, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from stepwell.core.records.errors import INVALID_OUTCOME, InvalidArgument, Violation
from stepwell.core.records.limits import VIOLATIONS_MAX
from stepwell_client.store.v1 import store_pb2
from stepwell_client.v1 import orchestrator_pb2, worker_pb2

_WHAT = "no UTF-8; limit: text of whole characters"
_SOMEWHERE = "no UTF-8, here or behind it; limit: text of whole characters"
_PLACES_MAX = 50_000
"""Texts and messages that are looked at, which takes some 50 ms. If there are more, the next one is named."""
_ITEMS = ("outcomes", "begins")
"""The fields of a worker's message whose items are taken or refused each by itself."""

M = TypeVar("M", bound=Message)


def read_rest(kind: type[M], raw: bytes) -> M:
    """Return a worker's message in which a failure stands for each outcome with undecodable text.

    The failure is of the kind INVALID_OUTCOME and names the fields.

    Raises:
        InvalidArgument: it is no message of this kind, or the text is in no item; names the fields.
    """
    twin = _read(kind, raw)
    items = {name: list(getattr(twin, name)) for name in _ITEMS if hasattr(twin, name)}
    for name in items:
        twin.ClearField(name)
    faults = _faults(twin)
    if faults:
        first = faults[0]
        raise InvalidArgument(f"{first.field}: {first.description}", tuple(faults))
    message = kind.FromString(twin.SerializeToString())
    for name, found in items.items():
        for item in found:
            getattr(message, name).append(_item(name, item))
    return message


def _item(name: str, twin: Any) -> Message:
    """Return an outcome or begin, or what stands for it."""
    kind = worker_pb2.Outcome if name == "outcomes" else worker_pb2.Begin
    try:
        return kind.FromString(twin.SerializeToString())
    except DecodeError:
        faults = _faults(twin)
    paths = {one.field for one in faults}
    lease = {
        field: getattr(twin.lease, field)
        for field in ("run_id", "execution_id", "token")
        if f"lease.{field}" not in paths
    }
    ids: Any = {"lease": lease}
    if "delivery_id" not in paths:
        ids["delivery_id"] = twin.delivery_id
    if kind is worker_pb2.Begin:
        # Only its ids are text; without one of them it is refused.
        return worker_pb2.Begin(**ids)
    outcome = worker_pb2.Outcome(**ids)
    failure = outcome.failed.failure
    failure.kind = INVALID_OUTCOME
    failure.message = f"{faults[0].field}: {faults[0].description}"
    for one in faults:
        failure.violations.add(field=one.field, description=one.description)
    return outcome


def _read(kind: type[Message], raw: bytes) -> Any:
    try:
        return _twin(kind).FromString(raw)
    except DecodeError:
        what = "is no message of this method"
        raise InvalidArgument(f"the request {what}", (Violation("request", what),)) from None


def _faults(message: Message) -> list[Violation]:
    """Return the text fields that are no UTF-8, `VIOLATIONS_MAX` of them at the most."""
    return list(islice(_undecodable(message, "", count()), VIOLATIONS_MAX))


def _undecodable(message: Message, path: str, looked: Iterator[int]) -> Iterator[Violation]:
    """Yield the text fields that are no UTF-8, which are read as bytes."""
    for field, value in message.ListFields():
        is_message = field.message_type is not None
        if not is_message and field.type != FieldDescriptor.TYPE_STRING:
            continue
        for at, one in enumerate(value if field.is_repeated else (value,)):
            where = f"{path}{field.name}[{at}]" if field.is_repeated else path + field.name
            if next(looked) >= _PLACES_MAX:
                yield Violation(where, _SOMEWHERE)
                return
            if is_message:
                yield from _undecodable(one, f"{where}.", looked)
            elif isinstance(one, bytes):
                yield Violation(where, _WHAT)


@cache
def _twin(kind: type[Message]) -> Any:
    """Return the class that reads a message of this kind without looking at its text."""
    name = cast("Any", kind).DESCRIPTOR.full_name
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(name))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    known = set[str]()
    for module in (orchestrator_pb2, worker_pb2, store_pb2):
        _add(pool, cast("FileDescriptor", module.DESCRIPTOR), known)
    return pool


def _add(pool: descriptor_pool.DescriptorPool, file: FileDescriptor, known: set[str]) -> None:
    """Add a file, after those that it imports; ours as proto2, which checks no text."""
    if file.name in known:
        return
    known.add(file.name)
    for imported in file.dependencies:
        _add(pool, imported, known)
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    if file.package.startswith("stepwell"):
        proto.syntax = "proto2"
        for message in proto.message_type:
            _make_proto2(message)
    pool.AddSerializedFile(proto.SerializeToString())


def _make_proto2(message: descriptor_pb2.DescriptorProto) -> None:
    """Take away what only proto3 has: the oneof, always a last one, around each optional field.

    A map becomes a list of its entries, which it is on the wire: a key that is no text is no key.
    """
    message.options.ClearField("map_entry")
    for nested in message.nested_type:
        _make_proto2(nested)
    for field in message.field:
        if field.proto3_optional:
            field.ClearField("proto3_optional")
            field.ClearField("oneof_index")
    kept = {field.oneof_index for field in message.field if field.HasField("oneof_index")}
    del message.oneof_decl[len(kept) :]
