"""Writes the frozen records of the protocol's messages for the Python client; `scripts/generate.py` calls it.

A record has the fields of its message, by name, with the protocol's comments as their docstrings. `_RECORDS`
says which messages become records, and where a record differs from its message.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorSet,
)

_HEAD = '''"""The records of the `stepwell.v1` protocol's messages, generated from proto/: never edited.

Absent values are None or empty. Enums are enums, points in time are datetimes in UTC, spans are timedeltas. A record's own
id is `id`; references to others are `task_id` and so on.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message as ProtoMessage

from stepwell_client.enums import (
{enums}
)
from stepwell_client.errors import Violation
from stepwell_client.records.payloads import Payload
from stepwell_client.records.plans import Budget, ChildRun, Retry, Task
from stepwell_client.records.record import Record, ResultValue, RunProperties
from stepwell_client.v1 import orchestrator_pb2, types_pb2'''
_WIDTH = 116


class _Record(NamedTuple):
    """A record: its messages, and what differs from them."""

    messages: str
    """The message that it is read from, and others whose fields it has, too, outer ones first."""
    first: str = ""
    """Fields that come first, in this order."""
    hidden: str = ""
    """Fields that its `repr` leaves out."""
    without: str = ""
    """Fields of the messages that it doesn't have."""
    more: Mapping[str, tuple[str, str, str]] = {}
    """Fields that no message has, or that have another type: type, default and docstring (empty: the protocol's)."""
    base: str = "Record"
    """Its base classes."""
    words: str = ""
    """Its docstring, if it isn't the comment of its message."""


_CHANGED = "Mapping[str, Any]"
_RECORDS: Mapping[str, _Record] = {
    "FailureRecord": _Record("Failure", hidden="details"),
    "Usage": _Record("Usage"),
    "Counts": _Record("Counts"),
    "AttemptCounts": _Record("AttemptCounts"),
    "Session": _Record("Session"),
    "ChildOf": _Record("ChildOf"),
    "Wait": _Record("Wait"),
    "WaitingStep": _Record("WaitingStep"),
    "TaskPattern": _Record("TaskPattern", more={"kind": ("StepKind", "StepKind.TASK", "")}),
    "Question": _Record(
        "RunQuestion Question", first="id run_id", hidden="execution_id created_time arguments"
    ),
    "Event": _Record(
        "Event",
        hidden="version tasks executions questions",
        more={
            "run": (
                _CHANGED,
                "dict[str, Any]()",
                "The changed fields of the run, by their names in `Run`. None: the field was cleared.",
            ),
            "tasks": (
                f"Mapping[str, {_CHANGED}]",
                f"dict[str, {_CHANGED}]()",
                "The changed fields of tasks, by task id, then by their names in `RunTask`.",
            ),
            "executions": (
                f"Mapping[str, {_CHANGED}]",
                f"dict[str, {_CHANGED}]()",
                "The changed fields of executions, by execution id, then by their names in `Execution`.",
            ),
        },
    ),
    "Message": _Record("Message", hidden="execution_id session"),
    "LogEntry": _Record("LogEntry", first="text kind level"),
    "JournalEntry": _Record(
        "StoredEntry JournalEntry",
        first="key mark number name",
        hidden="arguments messages journal generation execution_id version written_time",
    ),
    "KeptSignal": _Record("KeptSignal", hidden="size"),
    "Thread": _Record(
        "Thread",
        more={
            "state": (
                "Any",
                "None",
                "Its state, as JSON has it. None in a list, and if it was never set.",
            )
        },
    ),
    "ThreadMessage": _Record(
        "ThreadMessage", more={"content": ("Any", "None", "The content, as JSON has it.")}
    ),
    "StoreInfo": _Record("StoreInfo", hidden="schema_version store_id"),
    "ServerInfo": _Record(
        "GetServerInfoResponse",
        first="version protocol_revision features",
        hidden="limits replica_id server_time",
    ),
    "HeldStep": _Record("HeldStep"),
    "ConnectedWorker": _Record(
        "ConnectedWorker", hidden="instance_id replica_id kinds tasks held input_schema"
    ),
    "Queue": _Record("Queue"),
    "Run": _Record(
        "Run RunSpec",
        first="id status goal tenant_id pipeline queue labels",
        hidden="tenant_id queue executor_id blocked_since_time attempts last_event stages step_attempt tasks_used"
        " iterations_before result_id started_time max_iterations max_parallel no_progress_limit step_retry"
        " step_timeout start_delay family_id actor on_behalf_of",
        more={
            "worker_version": (
                "str",
                '""',
                "The version that its workers must have: `1.4`, `>=1.4` or `any`. Empty: any.",
            )
        },
        base="RunProperties, Record",
    ),
    "RunTask": _Record(
        "Task",
        first="id status definition",
        hidden="definition result_id result_run_id progress journal_entries messages started_time ended_time",
        more={
            "definition": (
                "Task",
                'Task("")',
                "The task as the plan defines it. In a list, its prompt and input may be left out: see `full_specs`.",
            )
        },
    ),
    "Execution": _Record(
        "Execution",
        first="id kind task_id iteration attempt status",
        hidden="queue begun has_result offered_time leased_time ended_time unknown_time messages_after messages"
        " journal_entries",
    ),
    "PlanRevision": _Record("Plan", hidden="parent_revision tasks carried fingerprint"),
    "Checkpoint": _Record("Checkpoint", hidden="event run", more={"run": ("Run", "Run()", "")}),
    "Result": _Record(
        "Result", hidden="execution_id run_id", without="by_reference", base="ResultValue, Record"
    ),
    "ForkViolation": _Record("ForkViolation"),
    "ForkCheck": _Record(
        "ForkRunResponse",
        hidden="kept_task_ids rerun_task_ids pending_task_ids",
        without="created",
        words="The effect that a fork would have.",
    ),
    "RunUpdate": _Record("RunUpdate", first="run_id", without="progress_token"),
    "Purged": _Record("PurgeRunsResponse"),
}
"""The records, each after those that it has."""
_OTHERS = {
    "Budget": "Budget",
    "ChildRun": "ChildRun",
    "ExecutionChange": "Execution",
    "Payload": "Payload",
    "RetryPolicy": "Retry",
    "RunChange": "Run",
    "TaskChange": "RunTask",
    "TaskSpec": "Task",
}
"""Messages whose records are written by people, and changes, which become some fields of a record."""
_OWN_IDS = ("Execution", "Question", "Run", "RunSpec", "Task", "Thread")
"""Messages whose id is the record's own."""
_RENAMED = {"child": "run", "pipeline_id": "pipeline"}
_WHOLE = frozenset({"AttemptCounts", "Budget", "Counts", "StoreInfo", "Usage"})
"""Records that are empty rather than None where a message is absent."""
_SCALARS = {
    FieldDescriptorProto.TYPE_STRING: ("str", '""'),
    FieldDescriptorProto.TYPE_BOOL: ("bool", "False"),
    FieldDescriptorProto.TYPE_INT32: ("int", "0"),
    FieldDescriptorProto.TYPE_INT64: ("int", "0"),
}
_WELL_KNOWN = {"Timestamp": "datetime.datetime", "Duration": "datetime.timedelta"}


class _Described(NamedTuple):
    """A message, its module, and its comments by the numbers of its fields; -1: its own."""

    message: DescriptorProto
    module: str
    comments: Mapping[int, str]


class _Field(NamedTuple):
    """A field of a record, as source code."""

    name: str
    type: str
    default: str
    words: str


def records(described: FileDescriptorSet) -> str:
    """Return the module of the records of stepwell.v1."""
    messages = _messages(described)
    own = {message: name for name, one in _RECORDS.items() for message in one.messages.split()}
    record_of = own | _OTHERS
    lines: list[str] = []
    for name, one in _RECORDS.items():
        lines += _class(name, one, messages, record_of)
    lines += [
        *("", "", "RECORDS: Mapping[type[ProtoMessage], type] = {"),
        *(f"    {messages[one].module}.{one}: {record_of[one]}," for one in sorted(record_of)),
        "}",
        '"""The record of each message; a change of a row becomes some fields of its record."""',
    ]
    text = "\n".join(lines) + "\n"
    enums = sorted(
        {kind.name for file in described.file for kind in file.enum_type if f"{kind.name}." in text}
    )
    return _HEAD.replace("{enums}", "\n".join(f"    {one}," for one in enums)) + "\n" + text


def _messages(described: FileDescriptorSet) -> dict[str, _Described]:
    found: dict[str, _Described] = {}
    for file in described.file:
        if file.package != "stepwell.v1":
            continue
        module = file.name.rsplit("/", 1)[1].removesuffix(".proto") + "_pb2"
        comments = {tuple(at.path): at.leading_comments for at in file.source_code_info.location}
        for place, message in enumerate(file.message_type):
            by_field = {at: comments.get((4, place, 2, at), "") for at in range(len(message.field))}
            own = comments.get((4, place), "")
            found[message.name] = _Described(message, module, {**by_field, -1: own})
    return found


def _class(
    name: str, one: _Record, messages: Mapping[str, _Described], record_of: Mapping[str, str]
) -> Iterator[str]:
    main = messages[one.messages.split()[-1 if name in {"Question", "JournalEntry"} else 0]]
    yield from (
        "",
        "",
        "@dataclass(frozen=True, slots=True, kw_only=True, repr=False)",
        f"class {name}({one.base}):",
    )
    yield from _docstring(one.words or main.comments[-1])
    yield ""
    fields = _fields(one, messages, record_of)
    first = one.first.split()
    names = [*first, *(field for field in fields if field not in first)]
    hidden = set(one.hidden.split())
    assert hidden <= set(names), (name, hidden - set(names))
    for field in map(fields.__getitem__, names):
        options = "" if field.name not in hidden else "repr=False"
        if field.default.endswith(")") and field.default != "()":
            made = field.default.removesuffix("()")
            factory = made if made != field.default else f"lambda: {field.default}"
            options = ", ".join([f"default_factory={factory}", *filter(None, [options])])
        elif options:
            options = f"default={field.default}, {options}"
        yield f"    {field.name}: {field.type} = {f'field({options})' if options else field.default}"
        yield from _docstring(field.words)


def _fields(
    one: _Record, messages: Mapping[str, _Described], record_of: Mapping[str, str]
) -> dict[str, _Field]:
    parts = one.messages.split()
    left = {*one.without.split()}
    fields: dict[str, _Field] = {}
    for part in parts:
        message, _, comments = messages[part]
        for at, field in enumerate(message.field):
            kind = field.type_name.rsplit(".", 1)[-1]
            if field.name in left or kind in parts:
                continue
            own_id = part in _OWN_IDS and field.name.endswith("_id") and at == _id_at(message)
            name = "id" if own_id else _RENAMED.get(field.name, field.name)
            if name in fields:
                continue
            type_, default, words = one.more.get(name, ("", "", ""))
            if not type_:
                type_, default = _typed(field, kind, message, record_of)
            words = words or comments[at]
            nothing = "None" if type_.endswith("| None") else "Empty"
            words = words.replace("Absent:", f"{nothing}:").replace("Absent ", f"{nothing} ")
            fields[name] = _Field(name, type_, default, words)
    for name, (type_, default, words) in one.more.items():
        fields.setdefault(name, _Field(name, type_, default, words))
    return fields


def _id_at(message: DescriptorProto) -> int:
    """Return the place of a message's own id: `run_id` of RunSpec."""
    own = message.name.removesuffix("Spec").lower() + "_id"
    return next((at for at, field in enumerate(message.field) if field.name == own), -1)


def _typed(
    field: FieldDescriptorProto, kind: str, message: DescriptorProto, record_of: Mapping[str, str]
) -> tuple[str, str]:
    """Return the type and the default of a message's field."""
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    for nested in message.nested_type:
        if nested.name == kind and nested.options.map_entry:
            value = _SCALARS[nested.field[1].type][0]
            return f"Mapping[str, {value}]", f"dict[str, {value}]()"
    if field.type == FieldDescriptorProto.TYPE_ENUM:
        type_, default = kind, f"{kind}.UNSPECIFIED"
    elif kind == "WorkerVersion":
        type_, default = "str", '""'
    elif field.type == FieldDescriptorProto.TYPE_MESSAGE:
        type_ = _WELL_KNOWN.get(kind) or record_of.get(kind, kind)
        type_, default = (type_, f"{type_}()") if type_ in _WHOLE else (f"{type_} | None", "None")
    else:
        type_, default = _SCALARS[field.type]
        if field.proto3_optional:
            type_, default = f"{type_} | None", "None"
    if repeated:
        return f"tuple[{type_.removesuffix(' | None')}, ...]", "()"
    return type_, default


def _docstring(comment: str) -> Iterator[str]:
    lines = textwrap.wrap(" ".join(comment.split()), _WIDTH)
    if len(lines) == 1:
        yield f'    """{lines[0]}"""'
    else:
        yield from (f'    """{lines[0]}', *(f"    {line}" for line in lines[1:]), '    """')
