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
    *("", "a", "0", "-1", "1e999", "default", "null", "run", "plan#1", "task:a#1", "task:a#01"),
    *("\x00", "a\x00b", "{}", "}{", "{tenant}", ":", '"', "\\", "\n\r\t\x1b[31m", "g" * 1_024),
    *("\u202eabc", "\U0001f600" * 3, "é\u0301", "\ufeff", "00000000-0000-4000-8000-000000000000"),
    *("%00%2e%2e", "../../etc/passwd", "a/b", "'; DROP TABLE runs; --"),
    *("[" * 2_000, '{"a":' * 300, '{"$ref": "#"}', '{"allOf": [{"$ref": "#/allOf/0"}]}'),
    *('{"pattern": "(a+)+$"}', '{"type": ["string", "string"], "minLength": -1}'),
    *("(a|a)*b", "[z-a]", "(?=x)", "a{1000}{1000}"),
    *("postgresql://u:p@h/d?sslmode=disable&sslmode=prefer", "redis+cluster://h:1,h:2/0?wait=-1"),
    *("sqlite:///:memory:?mode=ro", "grpc://[::1]:99999"),
)
NUMBERS = (0, 1, -1, 2, 7, 100, 10_001, 2**31 - 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
DOUBLES = (0.0, -0.0, 1.5, -1.0, 1e308, float("inf"), float("nan"))
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
            odd = chr(rnd.choice((0, 32, 127, 0x85, 0x2028, 0xFFFD, 0x10FFFF)))
            text = text[:at] + odd + text[at:]
        return text

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
            head, tail = raw[:at], raw[at:]
            some = rnd.randbytes(rnd.randint(1, 9))
            raw = rnd.choice((head + some[:1] + tail[1:], head, head + raw[-8:] + tail))
            raw = raw if rnd.random() < 0.7 else head + some + tail
        return raw

    def like(self, sound: str) -> str:
        """Return a sound text, what is left of it when it is damaged, or another text."""
        left = self.damaged(sound.encode()).decode("utf-8", "replace")
        return self.rnd.choice((sound, left, self.text()))

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
        value = getattr(message, field.name)
        count = self.rnd.randint(0, REPEATED_MAX)
        if inner is not None and inner.GetOptions().map_entry:
            if inner.fields_by_name["value"].message_type is None:
                for _ in range(count):
                    key = self._value(inner.fields_by_name["key"])
                    value[key] = self._value(inner.fields_by_name["value"])
        elif inner is not None and field.is_repeated:
            value.extend(self.message(inner, depth + 1) for _ in range(count))
        elif inner is not None:
            value.CopyFrom(self.message(inner, depth + 1))
        elif field.is_repeated:
            value.extend(self._value(field) for _ in range(count))
        else:
            setattr(message, field.name, self._value(field))

    def _value(self, field: FieldDescriptor) -> Any:
        match field.cpp_type:
            case _ if field.type == FieldDescriptor.TYPE_BYTES:
                return self.data()
            case FieldDescriptor.CPPTYPE_STRING:
                return self.text()
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.rnd.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return self.rnd.choice((0, 1, 2, 3, 99))
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self.rnd.choice(DOUBLES)
            case kind:
                small = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32)
                unsigned = (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
                most = 2 ** (31 if kind in small else 63) - 1
                least = 0 if kind in unsigned else -most - 1
                edges = [one for one in NUMBERS if least <= one <= most]
                return self.rnd.choice((*edges, self.rnd.randint(least, most)))
