"""Converts the protocol's messages to records.

A field of a message becomes the record's field of the same name, converted by its type. Fields that
a message doesn't set keep the record's defaults. This module names only the differences.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.timestamp_pb2 import Timestamp

from stepwell_client import enums as _enums
from stepwell_client.errors import Violation
from stepwell_client.records.messages_pb2 import (
    RECORDS,
    Event,
    Execution,
    FailureRecord,
    Question,
    Run,
    RunTask,
    Thread,
    ThreadMessage,
    Wait,
)
from stepwell_client.records.payloads import decode
from stepwell_client.records.plans import Task
from stepwell_client.records.record import Record
from stepwell_client.v1 import orchestrator_pb2, types_pb2

T = TypeVar("T")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

OWN_IDS: Mapping[type, str] = {
    Execution: "execution_id",
    Question: "question_id",
    Run: "run_id",
    RunTask: "task_id",
    Thread: "thread_id",
    Task: "task_id",
}
"""The fields of messages that become a record's own id."""


def read(message: ProtoMessage, kind: Callable[..., T], **more: object) -> T:
    """Return the record of a message, which it keeps as `source`; `more` are fields that aren't in the message."""
    made = kind(**_values(message) | more)
    if isinstance(made, Record):
        object.__setattr__(made, "_source", message)
    return made


def reader(kind: Callable[..., T]) -> Callable[[ProtoMessage], T]:
    """Return the function that converts messages to these records."""
    return lambda message: read(message, kind)


def read_event(message: types_pb2.Event, run_id: str) -> Event:
    """Return an event of that run as a record."""
    return read(
        message, Event, questions=tuple(read_question(one, run_id) for one in message.questions)
    )


def read_question(message: types_pb2.Question, run_id: str) -> Question:
    """Return a question of that run as a record."""
    return read(message, Question, run_id=run_id)


def read_thread(message: types_pb2.Thread) -> Thread:
    """Return a thread as a record."""
    state = decode(message.state) if message.HasField("state") else None
    return read(message, Thread, state=state)


def read_thread_message(message: types_pb2.ThreadMessage) -> ThreadMessage:
    """Return a message of a thread as a record, with its content decoded."""
    content = message.content if message.HasField("content") else None
    return read(message, ThreadMessage, content=decode(content))


def read_task(entry: orchestrator_pb2.TaskEntry) -> RunTask:
    """Return a task with its definition as a record."""
    made = read(entry.task, RunTask, definition=read_definition(entry.spec))
    object.__setattr__(made, "_source", entry)
    return made


def read_definition(spec: types_pb2.TaskSpec) -> Task:
    """Return a task of a plan as a record."""
    return read(spec, Task, id=spec.task_id)


def _violation(message: types_pb2.Violation) -> Violation:
    return Violation(message.field, message.description)


def _values(message: ProtoMessage) -> dict[str, Any]:
    """Return the fields that a message sets, by their names in the record."""
    known = readers(type(message))
    values: dict[str, Any] = {}
    for field, value in message.ListFields():
        if (reader := known.get(field.name)) is None:
            continue
        name, convert = reader
        if name:
            values[name] = convert(value)
        else:
            values = (
                convert(value) | values
            )  # A run's current budget, instead of the one that it was started with.
    return values


_Reader = tuple[str, Callable[[Any], Any]]
"""The record's field (empty: the value has several fields), and the conversion of a value."""


@cache
def readers(kind: type[ProtoMessage]) -> Mapping[str, _Reader]:
    """Return how to read a message's fields, by their names."""
    into = RECORDS[kind]
    names = {one.name for one in fields(into)}
    found: dict[str, _Reader] = {}
    for field in kind.DESCRIPTOR.fields:
        name = "id" if field.name == OWN_IDS.get(into) else _RENAMED.get(field.name, field.name)
        if field.name in _FLATTENED:
            found[field.name] = ("", _values)
        elif name in names:
            found[field.name] = (name, _converter(field))
    return found


_RENAMED = {"child": "run", "pipeline_id": "pipeline"}
_FLATTENED = frozenset({"spec", "question", "entry"})
"""Nested messages whose fields become fields of the outer record."""


def _converter(field: Any) -> Callable[[Any], Any]:
    """Return the conversion of a field's values."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return dict
    convert = _item_converter(field)
    is_repeated = field.default_value == []
    if not is_repeated or field.message_type in _KEYED:
        return convert
    return lambda items: tuple(convert(item) for item in items)


def _item_converter(field: Any) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        return getattr(_enums, field.enum_type.name)
    if field.message_type is None:
        return lambda value: value
    return _CONVERTERS.get(field.message_type.full_name) or _reader_of(field.message_type.full_name)


def _reader_of(full_name: str) -> Callable[[Any], Any]:
    into = next(to for one, to in RECORDS.items() if one.DESCRIPTOR.full_name == full_name)
    return lambda message: read(message, into)


def _time(value: Timestamp) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def _span(value: Duration) -> datetime.timedelta:
    return datetime.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)


def _version(wanted: types_pb2.WorkerVersion) -> str:
    """Return the workers' version in the form of `start`."""
    if wanted.match == types_pb2.VERSION_MATCH_ANY:
        return "any"
    least = wanted.match == types_pb2.VERSION_MATCH_AT_LEAST
    return f">={wanted.version}" if least else wanted.version


def _changed(change: ProtoMessage) -> dict[str, Any]:
    """Return the changed fields of a row; an empty value in a change means None, because the field was cleared."""
    values = _values(change)
    return {name: None if value in _CLEARED else value for name, value in values.items()}


_CLEARED = (_EPOCH, FailureRecord(retryable=True))
"""The time and the failure that a server writes for a cleared field."""


def _by_id(changes: Iterable[ProtoMessage]) -> dict[str, dict[str, Any]]:
    """Return the changed fields of rows by the rows' ids."""
    found = [_changed(change) for change in changes]
    return {values.pop("id"): values for values in found}


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "google.protobuf.Duration": _span,
    "google.protobuf.Timestamp": _time,
    "stepwell.v1.ExecutionChange": _by_id,
    "stepwell.v1.PlanDraft": lambda draft: tuple(map(read_definition, draft.tasks)),
    "stepwell.v1.RunChange": _changed,
    "stepwell.v1.Stages": lambda given: tuple(map(_enums.StepKind, given.stages)),
    "stepwell.v1.TaskChange": _by_id,
    "stepwell.v1.TaskSpec": read_definition,
    "stepwell.v1.ThreadMessage": read_thread_message,
    "stepwell.v1.Violation": _violation,
    "stepwell.v1.Waits": lambda given: tuple(read(one, Wait) for one in given.waits),
    "stepwell.v1.WorkerVersion": _version,
}
"""Conversions of messages that have no record; an event's changes are converted together."""
_KEYED = frozenset({types_pb2.ExecutionChange.DESCRIPTOR, types_pb2.TaskChange.DESCRIPTOR})
