"""The limits of fields, read from the options that the protocol's files give them.

A field of a request that needs a limit and has none stops `make generate`. The Store's callers are
executors, which hold the `store` scope: of its requests the frame is checked, and of the rows in it, which are
records that the loop made, only what every store relies on: that names are names, and no text holds NUL.
"""

from __future__ import annotations

from typing import Any, cast

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from scripts.conversions import limits
from scripts.conversions.limits import Limit

from stepwell.core.records.limits import NAME_CHARS_MAX
from stepwell_client.v1 import limits_pb2

_PAYLOAD = "stepwell.v1.Payload"


def limit_of(field: FieldDescriptor) -> Limit | None:
    """Return the limit that the protocol gives a field, or None."""
    options = cast("Any", field.GetOptions())
    if not options.HasExtension(limits_pb2.limit):
        return None
    given: limits_pb2.Limit = options.Extensions[limits_pb2.limit]
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        entry = kind.fields_by_name
        key, each = _single(entry["key"], given.key), _single(entry["value"], given.each)
        limit = limits.mapping(given.items, key, each)
    elif field.is_repeated:
        limit = _list(field, given)
    else:
        limit = _single(field, given)
    if given.required and not limit.required:
        wording = f"1 to {limit.wording}" if field.is_repeated else limit.wording
        limit = limit._replace(required=True, wording=wording)
    return limit._replace(reason=given.reason)


def is_required(oneof: OneofDescriptor) -> bool:
    """Return whether one of its fields must be given."""
    options = cast("Any", oneof.GetOptions())
    return options.Extensions[limits_pb2.one_is_required]


def _list(field: FieldDescriptor, given: limits_pb2.Limit) -> Limit:
    if given.bytes:
        return limits.messages(given.items, given.bytes)
    each = _single(field, given.each) if given.HasField("each") else None
    return limits.many(given.items, each)


def _single(field: FieldDescriptor, given: limits_pb2.Limit) -> Limit:
    """Return the limit of one value of a field's type."""
    if given.name_chars:
        return limits.name(given.name_chars, required=given.required, or_star=given.or_star)
    if given.chars:
        return limits.chars(given.chars, required=given.required, written=given.escaped)
    if given.bytes:
        return _size(field, given)
    if given.one_of:
        return _one_of(cast("EnumDescriptor", field.enum_type), given)
    if not given.HasField("min"):
        return limits.given()
    if field.message_type is not None:
        return limits.span(given.min, given.max)
    return limits.number(given.min, given.max if given.HasField("max") else None)


def _size(field: FieldDescriptor, given: limits_pb2.Limit) -> Limit:
    if field.type == FieldDescriptor.TYPE_STRING:
        return limits.text(given.bytes, written=given.escaped)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return limits.blob(given.bytes)
    kind = cast("Descriptor", field.message_type)
    make = limits.data if kind.full_name == _PAYLOAD else limits.message
    return make(given.bytes)


def _one_of(kind: EnumDescriptor, given: limits_pb2.Limit) -> Limit:
    names = [kind.values_by_number[number].name for number in given.one_of]
    prefix = kind.values[0].name.removesuffix("UNSPECIFIED")
    wording = " or ".join(name.removeprefix(prefix) for name in names)
    return limits.one_of(wording, *given.one_of)


NOT_ENTERED: frozenset[str] = frozenset(
    f"stepwell.v1.{field}"
    for field in (
        # One bad item fails its own execution: the servicer checks each by itself.
        "WorkRequest.outcomes",
        "WorkRequest.begins",
        "ReportOutcomesRequest.outcomes",
        "WorkRequest.journal_writes",
        "WriteJournalRequest.writes",
        "JournalWrite.entries",
        # Tasks are checked while they are read (`wire.plans`).
        "PlanDraft.tasks",
    )
)
"""Fields whose messages are not walked into, by full name."""

RECORDS: frozenset[str] = frozenset(
    f"stepwell.store.v1.{field}"
    for field in (
        "CommitRequest.commits",
        "RenewRequest.renewals",
        "WriteJournalRequest.writes",
        "PutPresenceRequest.presences",
        "AppendLogsRequest.entries",
        "SwapKeysRequest.swaps",
        "ClaimRequest.claim",
    )
)
"""Fields whose messages are records, by full name: `record_limit` stands for the table there."""

_RECORD_TEXT = limits.unbounded()
_NAME = limits.name(NAME_CHARS_MAX)
_NAMES = {
    **dict.fromkeys(
        ("tenant_id", "run_id", "parent_run_id", "family_id", "result_run_id", "queue", "queues"),
        _NAME,
    ),
    **dict.fromkeys(("pipeline_id", "executor_id", "worker_id", "instance_id"), _NAME),
    "role": limits.name(NAME_CHARS_MAX, or_star=True),
}


def record_limit(full_name: str) -> Limit:
    """Return what a store relies on of a text in a record."""
    if full_name == "stepwell.v1.Message.role":  # Who speaks, and no worker's role.
        return _RECORD_TEXT
    return _NAMES.get(full_name.rpartition(".")[2], _RECORD_TEXT)
