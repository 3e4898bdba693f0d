"""Events as bytes of the protocol, so that one encoding serves all who are sent the event.

A message in protobuf's encoding is the concatenation of its fields. So a batch of events is made of events
that were encoded before, without a look into them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stepwell.core.records.events import Event
from stepwell.wire.records import to_message
from stepwell_client.v1 import orchestrator_pb2 as pb

_LENGTH_DELIMITED = 2
"""The wire type of texts and messages."""


def event_bytes(event: Event) -> bytes:
    """Return an event as one entry of a batch's `events`: the field's tag, a length and the message."""
    return _with_length(_EVENTS, to_message(event).SerializeToString())


def batch_bytes(entries: Iterable[bytes], after: int) -> bytes:
    """Return a WatchRunResponse with events that `event_bytes` has encoded, at least one; it goes on after the event `after`."""
    return _with_length(_BATCH, b"".join((*entries, _with_length(_RESUME_TOKEN, b"%d" % after))))


def _tag(message: Any, field: str, wire_type: int) -> bytes:
    return _varint(message.DESCRIPTOR.fields_by_name[field].number << 3 | wire_type)


def _with_length(tag: bytes, value: bytes) -> bytes:
    return b"".join((tag, _varint(len(value)), value))


def _varint(number: int) -> bytes:
    """Return a number as groups of seven bits, the lowest first; all but the last have the top bit set."""
    if number < 0x80:
        return bytes((number,))
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


_EVENTS = _tag(pb.EventBatch, "events", _LENGTH_DELIMITED)
_RESUME_TOKEN = _tag(pb.EventBatch, "resume_token", _LENGTH_DELIMITED)
_BATCH = _tag(pb.WatchRunResponse, "events", _LENGTH_DELIMITED)
