"""The base of the records that the clients return, and the properties that some of them have.

`repr` shows the fields that differ from their defaults, with long texts cut.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, ClassVar, cast

from stepwell_client.enums import ENDED, BlockedKind, RunStatus
from stepwell_client.records.payloads import Payload
from stepwell_client.word import Word

_TEXT_CHARS, _ITEMS = 60, 5
"""The length of a text, and of a tuple, in a `repr`."""


class Record:
    """The base of the records: the message that each was read from, and a short `repr`."""

    __slots__ = ("_source",)
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def source(self) -> Any:
        """The protocol's message that it was read from; None if it was made here, or copied."""
        return getattr(self, "_source", None)

    def __repr__(self) -> str:
        values = [(one, getattr(self, one.name)) for one in dataclasses.fields(self) if one.repr]
        shown = [f"{one.name}={_short(value)}" for one, value in values if value != _default(one)]
        return f"{type(self).__name__}({', '.join(shown)})"


def _default(one: dataclasses.Field[Any]) -> Any:
    made = one.default_factory
    return one.default if made is dataclasses.MISSING else made()


def _short(value: object) -> str:
    if isinstance(value, Word):
        return value.name
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, str):
        return repr(value if len(value) <= _TEXT_CHARS else value[: _TEXT_CHARS - 1] + "…")
    if type(value) is tuple:
        items = cast("tuple[object, ...]", value)
        more = ["…"] if len(items) > _ITEMS else []
        return f"({', '.join([*map(_short, items[:_ITEMS]), *more])})"
    return repr(value)


class RunProperties:
    """The properties of `Run`."""

    __slots__ = ()
    status: RunStatus
    reason: str
    queue: str
    blocked_on: BlockedKind
    blocked_run_id: str

    @property
    def has_ended(self) -> bool:
        """True if the run has ended."""
        return self.status in ENDED

    @property
    def standstill(self) -> str:
        """The thing that it waits for and that needs somebody to act, with what to do; empty: none."""
        if self.status == RunStatus.PAUSED:
            return (
                f"is paused{f': {self.reason}' if self.reason else ''}; resume it, or stop waiting"
            )
        if self.blocked_on == BlockedKind.QUESTION:
            return "waits for an answer; `questions` has the question, `answer` answers it"
        if self.blocked_on == BlockedKind.UNKNOWN_OUTCOME:
            return "waits for somebody to `resolve` an execution whose outcome is unknown"
        if self.blocked_on == BlockedKind.KEY:
            key_of = self.blocked_run_id or "(not known)"
            return f"waits for an idempotency key that run {key_of!r} has"
        if self.blocked_on == BlockedKind.WORKER:
            return f"waits for a worker of queue {self.queue!r}; none is connected"
        return ""


class ResultValue:
    """The property of `Result`."""

    __slots__ = ()
    payload: Payload | None

    @property
    def value(self) -> Any:
        """The decoded value, or None."""
        return None if self.payload is None else self.payload.value
