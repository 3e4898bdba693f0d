"""The log of a step's graphs: each checkpoint, write and deletion is an entry of the step's journal.

A checkpoint's entry has only the changed channels. The next attempt replays the log into a saver in
memory, which then answers all reads.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from stepwell_client import JournalError, NonRetryable, StepContext
from stepwell_client.internal import (
    INVALID_RESULT,
    PAYLOAD_BYTES_MAX,
    RESULT_TOO_LARGE,
    in_thread,
    on_loop,
    opened_calls,
)
from stepwell_client.v1 import types_pb2
from stepwell_frameworks.langgraph.kept_types import check_types

SCOPE = "langgraph"
"""The scope of the nodes' calls."""
PREFIX = "langgraph-"
"""The prefix of the entries' keys, before their number."""
NAME = "langgraph."
"""The prefix of the entries' names, before the operation."""
MEDIA_TYPE = "application/x-langgraph-"
"""The prefix of a value's media type, before the name of its form in the serializer."""


def packed(serde: SerializerProtocol, value: object) -> types_pb2.Payload:
    """Return a value serialized by LangGraph's serializer. Raises NonRetryable if it wouldn't come back as it is."""
    if isinstance(serde, JsonPlusSerializer):
        check_types(serde, value)
    try:
        form, data = serde.dumps_typed(value)
    except (TypeError, ValueError) as error:
        raise NonRetryable(f"a value can't be kept: {error}", kind=INVALID_RESULT) from error
    return types_pb2.Payload(data=data, media_type=f"{MEDIA_TYPE}{form}")


def _entry(serde: SerializerProtocol, what: str, arguments: Sequence[Any]) -> types_pb2.Payload:
    """Return an operation serialized. Raises NonRetryable with its largest channel if it has more than an entry holds."""
    value = packed(serde, [*arguments])
    if (size := len(value.data)) > PAYLOAD_BYTES_MAX:
        given = arguments[1]["channel_values"].items() if what == "put" else arguments[1]
        sizes = {str(name): len(serde.dumps_typed(one)[1]) for name, one in given}
        name = max(sizes, key=lambda one: sizes[one], default="")
        raise NonRetryable(
            f"the graph's channel {name!r} has {sizes.get(name, 0):,} bytes of {size:,} in one entry; "
            f"{PAYLOAD_BYTES_MAX:,} is the most: keep large values elsewhere, and their names in the state",
            kind=RESULT_TOO_LARGE,
        )
    return value


def unpacked(serde: SerializerProtocol, payload: types_pb2.Payload) -> Any:
    """Return the value of `packed`."""
    return serde.loads_typed((payload.media_type.removeprefix(MEDIA_TYPE), payload.data))


class _Played:
    """An attempt's state: how far its log is replayed."""

    def __init__(self) -> None:
        self.memory = InMemorySaver()
        self.number = 0
        """The number of the newest entry."""
        self.is_read = False
        self.lock = threading.Lock()


_PLAYED: WeakKeyDictionary[StepContext, _Played] = WeakKeyDictionary()
_opening = threading.Lock()


class StepLog:
    """The log of all graphs of a step, over all attempts so far."""

    def __init__(self, step: StepContext) -> None:
        self._calls = opened_calls(step)
        self._on_loop = on_loop(step)
        self._in_thread = in_thread(step)
        with _opening:
            self._played = _PLAYED.setdefault(step, _Played())

    def read(self, serde: SerializerProtocol, scan: Callable[[InMemorySaver], Any]) -> Any:
        """Read from the replayed saver, from a thread."""
        self._calls.excuse(SCOPE)
        if not self._played.is_read:
            self._play(serde, self._in_thread(lambda: self._calls.kept(PREFIX)))
        return self._seen(serde, scan)

    async def aread(self, serde: SerializerProtocol, scan: Callable[[InMemorySaver], Any]) -> Any:
        """Read from the replayed saver."""
        self._calls.excuse(SCOPE)
        if not self._played.is_read:
            self._play(serde, await self._on_loop(self._calls.kept(PREFIX)))
        return self._seen(serde, scan)

    def do(self, serde: SerializerProtocol, what: str, *arguments: Any) -> Any:
        """Record an operation of a graph, from a thread, and return what the saver in memory returns."""
        self.read(serde, lambda _: None)
        value = _entry(serde, what, arguments)
        key = self._next()
        self._in_thread(lambda: self._calls.keep(key, f"{NAME}{what}", value))
        return self._seen(serde, lambda memory: _apply(memory, what, arguments))

    async def ado(self, serde: SerializerProtocol, what: str, *arguments: Any) -> Any:
        """Record an operation of a graph, and return what the saver in memory returns."""
        await self.aread(serde, lambda _: None)
        value = _entry(serde, what, arguments)
        key = self._next()
        await self._on_loop(self._calls.keep(key, f"{NAME}{what}", value))
        return self._seen(serde, lambda memory: _apply(memory, what, arguments))

    def _next(self) -> str:
        with self._played.lock:
            self._played.number += 1
            return f"{PREFIX}{self._played.number}"

    def _play(self, serde: SerializerProtocol, entries: list[types_pb2.JournalEntry]) -> None:
        numbered = {int(one.key.removeprefix(PREFIX)): one for one in entries}
        with self._played.lock:
            if self._played.is_read:
                return
            memory = _with(self._played.memory, serde)
            for number, entry in sorted(numbered.items()):
                _apply(memory, entry.name.removeprefix(NAME), unpacked(serde, entry.value))
                self._played.number = number
            self._played.is_read = True

    def _seen(self, serde: SerializerProtocol, scan: Callable[[InMemorySaver], Any]) -> Any:
        with self._played.lock:
            return scan(_with(self._played.memory, serde))


def _with(memory: InMemorySaver, serde: SerializerProtocol) -> InMemorySaver:
    """Return the saver in memory with the caller's serializer."""
    memory = copy.copy(memory)
    memory.serde = serde
    return memory


def _apply(memory: InMemorySaver, what: str, arguments: Sequence[Any]) -> Any:
    match what:
        case "put":
            return memory.put(*arguments)
        case "put_writes":
            return memory.put_writes(*arguments)
        case "delete_thread":
            return memory.delete_thread(*arguments)
        case _:
            raise JournalError(f"the journal has {NAME}{what}, which this version doesn't know")
