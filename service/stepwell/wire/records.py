"""The functions that convert records and messages into each other.

Every record of `core.records` except the loop's own, and of `core.port`, what a worker
delivers (`core.loop.occurrences`), and the requests and responses of the Store service (`wire.store`) have
the message of their own name, with the exceptions in `scripts/conversions/pairs.py`. Records of which callers see a
part have two messages: the whole in `stepwell.store.v1`, and that part in `stepwell.v1`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from stepwell.core.records.record import Record
from stepwell.wire.conversions_pb2 import FILLERS, MESSAGES, READERS


def to_message(record: Record) -> Any:
    """Return the message that carries the record, or what callers see of it. Its type is that of the record's own name."""
    message = MESSAGES[type(record)]()
    FILLERS[type(message)](record, message)
    return message


def to_record(message: Message) -> Any:
    """Return the record that the message carries.

    Raises:
        InvalidArgument: an enum has an unknown number, or a field is absent that must be there; the
            violation names the field, without the path that leads to its message.
        KeyError: the message shows callers a part of a record: it is only written.
    """
    return READERS[type(message)](message)


def fill(record: Record, message: Message) -> None:
    """Write the record into an empty message of its own, such as a field of another, and make it present."""
    message.SetInParent()
    FILLERS[type(message)](record, message)
