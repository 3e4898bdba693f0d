"""The base of the records that the clients return, and the small records within others.

Enums are enums, points in time are datetimes in UTC, spans are timedeltas. Absent values are None
or empty. `repr` shows the fields that differ from their defaults, with long texts cut. A record's
own id is `id`; references to others are `task_id` and so on.
"""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from stepwell_client.enums import (
    StepKind,
    WaitKind,
)
from stepwell_client.errors import Violation
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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FailureRecord(Record):
    """The failure of a run, a task, an attempt or a call."""

    kind: str = ""
    """A stable word, such as an exception's class name. Empty: none."""
    message: str = ""
    """The mistake in words."""
    details: str = field(default="", repr=False)
    """The traceback, or other details from the worker."""
    retryable: bool | None = None
    """False: there is no further attempt. None: the worker didn't say, and there may be one."""
    violations: tuple[Violation, ...] = ()
    """The mistakes by field, if fields are at fault."""
    retry_after: datetime.timedelta | None = None
    """The earliest time for the next attempt."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Usage(Record):
    """Used tokens and cost."""

    input_tokens: int = 0
    """Tokens that a model read."""
    output_tokens: int = 0
    """Tokens that a model wrote."""
    cost_micros: int = 0
    """Millionths of the currency unit that you bill in."""
    model: str = ""
    """The models of an attempt. Empty for a run."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Counts(Record):
    """The tasks of a run, counted."""

    total: int = 0
    """All tasks."""
    completed: int = 0
    """Tasks that are COMPLETED."""
    failed: int = 0
    """Tasks that are FAILED."""
    skipped: int = 0
    """Tasks that are SKIPPED."""
    cancelled: int = 0
    """Tasks that are CANCELLED."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AttemptCounts(Record):
    """The ended attempts of a run, counted by their status."""

    completed: int = 0
    """Attempts that are COMPLETED."""
    failed: int = 0
    """Attempts that are FAILED."""
    timed_out: int = 0
    """Attempts that are TIMED_OUT."""
    lost: int = 0
    """Attempts that are LOST."""
    released: int = 0
    """Attempts that are RELEASED."""
    cancelled: int = 0
    """Attempts that are CANCELLED."""
    needs_answer: int = 0
    """Attempts that are NEEDS_ANSWER."""
    suspended: int = 0
    """Attempts that are SUSPENDED."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Session(Record):
    """The agent's own conversation with a backend."""

    backend: str = ""
    """The backend's name."""
    session_id: str = ""
    """The conversation's id there."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Wait(Record):
    """A wait of a suspended step."""

    call: str = ""
    """The call that waits, by its key within the step's journal."""
    kind: WaitKind = WaitKind.UNSPECIFIED
    """The kind of thing."""
    question_id: str = ""
    """The question of a QUESTION."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WaitingStep(Record):
    """A step that no connected worker does."""

    queue: str = ""
    """The queue that its worker must serve."""
    kind: StepKind = StepKind.UNSPECIFIED
    """The kind that its worker must do."""
    type: str = ""
    """The type of its task."""
    role: str = ""
    """The role of its task."""
    worker_version: str = ""
    """The version that its worker must have, as in `start`. Empty: any."""
    alone: bool = False
    """True if its worker must hold no other step, because this step may be what kills its workers."""
