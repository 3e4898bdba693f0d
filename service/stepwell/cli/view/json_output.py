"""JSON of all that commands print and tools answer: the protocol's field names, integers as numbers, payloads of JSON as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from stepwell.cli.view.text import lines
from stepwell_client import Payload
from stepwell_client.errors import DecodeError
from stepwell_client.internal import read_record
from stepwell_client.records import Record
from stepwell_client.v1 import types_pb2


class Bounds(NamedTuple):
    """The most that a reader takes, such as a model: longer texts are cut, and longer lists end."""

    chars: int
    items: int = 100

    def cut(self, text: str) -> str:
        """Return text without control characters, and cut where it is too long, which it then says."""
        clean = lines(text)
        if len(clean) <= self.chars:
            return clean
        return f"{clean[: self.chars]}… [cut: {self.chars:,} of {len(clean):,} characters]"


def document(
    one: Message | Record, *, defaults: bool = True, within: Bounds | None = None
) -> dict[str, Any]:
    """Return a message by the protocol's field names; `defaults`: fields without presence also where they are empty.

    Of a record it is the message that it was read from.

    Enums are their members' names, times and durations strings as protobuf writes them, bytes base64.
    """
    message: Message = one.source if isinstance(one, Record) else one
    made: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        is_set = message.HasField(field.name) if field.has_presence else defaults or bool(value)
        if is_set:
            made[field.name] = _field(field, value, defaults, within)
    return made


def jsonable(value: object) -> Any:
    """Return a value with all records and messages in it as documents."""
    if isinstance(value, Message | Record):
        return document(value)
    if isinstance(value, Mapping):
        return {key: jsonable(one) for key, one in cast("Mapping[str, object]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [jsonable(one) for one in cast("Sequence[object]", value)]
    return value


def _field(field: Any, value: Any, defaults: bool, within: Bounds | None) -> Any:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        of_value = kind.fields_by_name["value"]
        return {str(key): _single(of_value, value[key], defaults, within) for key in sorted(value)}
    if field.is_repeated:
        kept = value[: within.items] if within else value
        return [_single(field, each, defaults, within) for each in kept]
    return _single(field, value, defaults, within)


def _single(field: Any, value: Any, defaults: bool, within: Bounds | None) -> Any:
    if isinstance(value, Timestamp | Duration):
        return value.ToJsonString()
    if isinstance(value, types_pb2.Payload):
        data = json_value(payload_of(value))
        text = json_text(data)
        if within and within.cut(text) != text:
            data = within.cut(text)
        return {"media_type": value.media_type, "data": data}
    if isinstance(value, Message):
        return document(value, defaults=defaults, within=within)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if field.enum_type is not None:
        member = field.enum_type.values_by_number.get(value)
        return member.name if member is not None else value
    return within.cut(value) if within and isinstance(value, str) else value


def json_text(value: Any) -> str:
    """Return a JSON value as a text: a string as it is, anything else as JSON in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def payload_of(message: types_pb2.Payload) -> Payload:
    """Return a payload's record."""
    return read_record(message, Payload)


def json_value(payload: Payload) -> Any:
    """Return a payload as a JSON value: JSON as it is, text as a string, other bytes as a string in base64.

    What JSON can't say again, such as a number beyond all others, is a string too.
    """
    try:
        value = payload.value
    except DecodeError:
        value = payload.data
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if _is_finite(value) else payload.data.decode()


def _is_finite(value: Any) -> bool:
    """Return whether no number of a decoded value overflowed."""
    rest: list[Any] = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, float) and not math.isfinite(one):
            return False
        if isinstance(one, dict):
            rest += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            rest += cast("list[Any]", one)
    return True
