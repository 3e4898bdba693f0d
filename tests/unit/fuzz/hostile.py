"""Hostile input: odd texts, numbers at the edges, messages with anything in them, damaged bytes.

All of it comes from one `Random`, so that an input is made again from its seed.
"""

from __future__ import annotations

from random import Random
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

TEXTS = (
    "",
    "a",
    "0",
    "-1",
    "1e999",
    "default",
    "task:a#1",
    "task:a#01",
    "run",
    "plan#1",
    "\x00",
    "a\x00b",
    "{}",
    "}{",
    "{tenant}",
    ":",
    "%00%2e%2e",
    "../../etc/passwd",
    "a/b",
    "'; DROP TABLE runs; --",
    '"',
    "\\",
    "\n\r\t\x1b[31m",
    "\u202eabc",
    "\U0001f600" * 3,
    "é\u0301",
    "\ufeff",
    "null",
    "00000000-0000-4000-8000-000000000000",
    "g" * 1_024,
    "[" * 2_000,
    '{"a":' * 300,
    '{"$ref": "#"}',
    '{"pattern": "(a+)+$"}',
    '{"type": ["string", "string"], "minLength": -1}',
    '{"allOf": [{"$ref": "#/allOf/0"}]}',
    "(a|a)*b",
    "[z-a]",
    "(?=x)",
    "a{1000}{1000}",
    "postgresql://u:p@h/d?sslmode=disable&sslmode=prefer",
    "redis+cluster://h:1,h:2/0?wait=-1",
    "sqlite:///:memory:?mode=ro",
    "grpc://[::1]:99999",
)
NUMBERS = (0, 1, -1, 2, 7, 100, 10_001, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
DEPTH_MAX = 4
REPEATED_MAX = 4


class Hostile:
    """Makes one input after the other."""

    def __init__(self, rnd: Random, known: tuple[str, ...] = ()) -> None:
        self.rnd = rnd
        self.known = known
        """Names of things that are there; half of all texts are among them."""

    def text(self) -> str:
        """Return a name, an odd text, or two of those in one."""
        rnd = self.rnd
        if self.known and rnd.random() < 0.5:
            return rnd.choice(self.known)
        text = rnd.choice(TEXTS)
        if rnd.random() < 0.3:
            text += rnd.choice(TEXTS)
        if text and rnd.random() < 0.3:
            at = rnd.randrange(len(text))
            text = (
                text[:at]
                + chr(rnd.choice((0, 32, 127, 0x85, 0x2028, 0xFFFD, 0x10FFFF)))
                + text[at:]
            )
        return text

    def number(self, low: int, high: int) -> int:
        """Return a number between the two, at an edge as likely as not."""
        edges = [one for one in NUMBERS if low <= one <= high]
        return self.rnd.choice(edges) if self.rnd.random() < 0.7 else self.rnd.randint(low, high)

    def data(self) -> bytes:
        """Return bytes."""
        if self.rnd.random() < 0.5:
            return self.text().encode()
        return self.rnd.randbytes(self.rnd.choice((0, 1, 7, 300)))

    def damaged(self, raw: bytes) -> bytes:
        """Return bytes with some of them changed, lost, doubled or put in."""
        rnd = self.rnd
        for _ in range(rnd.randint(1, 4)):
            at = rnd.randint(0, len(raw))
            kind = rnd.randrange(4)
            if kind == 0:
                raw = raw[:at] + rnd.randbytes(1) + raw[at + 1 :]
            elif kind == 1:
                raw = raw[:at]
            elif kind == 2:
                raw = raw[:at] + raw[max(0, at - 8) : at] + raw[at:]
            else:
                raw = raw[:at] + rnd.randbytes(rnd.randint(1, 9)) + raw[at:]
        return raw

    def message(self, descriptor: Descriptor, depth: int = 0) -> Message:
        """Return a message with some of its fields, each with anything in it."""
        message = message_factory.GetMessageClass(descriptor)()
        for field in descriptor.fields:
            if self.rnd.random() < 0.5:
                self._fill(message, field, depth)
        return message

    def _fill(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        inner = field.message_type
        if inner is not None and depth >= DEPTH_MAX:
            return
        if inner is not None and inner.GetOptions().map_entry:
            values = getattr(message, field.name)
            if inner.fields_by_name["value"].message_type is None:
                for _ in range(self.rnd.randint(0, REPEATED_MAX)):
                    key, value = (self._value(inner.fields_by_name[n]) for n in ("key", "value"))
                    values[key] = value
        elif inner is not None and field.is_repeated:
            for _ in range(self.rnd.randint(0, REPEATED_MAX)):
                getattr(message, field.name).append(self.message(inner, depth + 1))
        elif inner is not None:
            getattr(message, field.name).CopyFrom(self.message(inner, depth + 1))
        elif field.is_repeated:
            count = self.rnd.randint(0, REPEATED_MAX)
            getattr(message, field.name).extend(self._value(field) for _ in range(count))
        else:
            setattr(message, field.name, self._value(field))

    def _value(self, field: FieldDescriptor) -> Any:
        kind = field.cpp_type
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self.data()
        if kind == FieldDescriptor.CPPTYPE_STRING:
            return self.text()
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return self.rnd.random() < 0.5
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            return self.rnd.choice((0, 1, 2, 3, 99))
        if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return self.rnd.choice((0.0, -0.0, 1.5, -1.0, 1e308, float("inf"), float("nan")))
        bits = 31 if kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 63
        unsigned = kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
        return self.number(0 if unsigned else -(2**bits), 2**bits - 1)
