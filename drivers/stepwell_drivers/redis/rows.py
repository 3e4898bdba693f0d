"""Records to bytes and back: MessagePack maps by field name, so that versions can read each other's
fields.

Ids and places precede the bytes where scripts need them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from stepwell.core.port import INPUT_KEY, OpenExecution, Presence, StoredPayload
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.events import Event
from stepwell.core.records.journal import Entry, StoredEntry, Totals
from stepwell.core.records.model import (
    Execution,
    LogEntry,
    Message,
    Outcome,
    Payload,
    Plan,
    Question,
    RequestRecord,
    Run,
    RunSpec,
    Session,
    Task,
    Usage,
)
from stepwell.core.records.record import StoredRecord
from stepwell_drivers.redis.keys import worker_of
from stepwell_drivers.unknown import fields_beyond, with_unknown

SEQ_CHARS = 16
"""Digits of numbers that are ordered as text."""
ASKED_CHARS = 2 * SEQ_CHARS
"""Characters of a question's place: its number, and the stamp of the commit that created it."""

USAGE_HALF = 2**32
"""Scripts add numbers of usage as two halves: high, in units of this, and low."""

_HOLDER_AT = 2 * SEQ_CHARS + 1
"""The characters before a lease's holder: deadline, limit, and a sign."""

_AS_TEXT = "latin-1"
"""The encoding that represents any bytes as text."""

S = TypeVar("S", bound=StoredRecord)

encoded = msgspec.msgpack.Encoder().encode
_NO_SPEC = RunSpec(tenant_id="", run_id="")
_NO_SESSION = Session()
_NOTHING = Totals()

checkpoint_of = msgspec.msgpack.Decoder(Checkpoint).decode
ids_of = msgspec.msgpack.Decoder(list[str]).decode
log_of = msgspec.msgpack.Decoder(LogEntry).decode
message_of = msgspec.msgpack.Decoder(Message).decode
payload_of = msgspec.msgpack.Decoder(Payload).decode
plan_of = msgspec.msgpack.Decoder(Plan).decode
presence_of = msgspec.msgpack.Decoder(Presence).decode
request_of = msgspec.msgpack.Decoder(RequestRecord).decode
task_of = msgspec.msgpack.Decoder(Task).decode
_events = msgspec.msgpack.Decoder(tuple[Event, ...]).decode
_entry = msgspec.msgpack.Decoder(Entry).decode
_execution = msgspec.msgpack.Decoder(Execution).decode
_question = msgspec.msgpack.Decoder(Question).decode
_map = msgspec.msgpack.Decoder(dict[str, Any]).decode
_outcome = msgspec.msgpack.Decoder(Outcome).decode
_run = msgspec.msgpack.Decoder(Run).decode
_session = msgspec.msgpack.Decoder(Session).decode
_spec = msgspec.msgpack.Decoder(RunSpec).decode


NOT_KEPT = (UnicodeEncodeError, OverflowError, TypeError)
"""The errors that `encoded` raises for a value that can't be stored."""


def not_kept(error: Exception) -> InvalidArgument:
    """Return the error for a value that can't be stored: half a surrogate pair, or an integer beyond 64 bits."""
    return InvalidArgument(f"a value can't be kept as it is: {type(error).__name__}")


def packed(value: Any) -> bytes:
    """Return a value as bytes.

    Raises:
        InvalidArgument: it can't be stored.
    """
    try:
        return encoded(value)
    except NOT_KEPT as error:
        raise not_kept(error) from None


def body_of(record: StoredRecord) -> bytes:
    """Return the bytes of a record, with its fields from newer versions."""
    if not record.unknown:
        return encoded(record)
    unknown = _map(record.unknown.encode(_AS_TEXT))
    return encoded(with_unknown(unknown, _map(encoded(record))))


def loaded(record: S, body: bytes) -> S:
    """Return a record for writing it again: with the fields of newer versions."""
    own = encoded(record)
    if own == body:
        return record
    unknown = fields_beyond(record, _map(body), _map(own))
    return replace(record, unknown=encoded(unknown).decode(_AS_TEXT)) if unknown else record


def run_row(run: Run) -> bytes:
    """Return the changing part of a run; its specification is stored once."""
    return body_of(replace(run, spec=_NO_SPEC))


def run_of(row: bytes, spec: bytes) -> Run:
    """Return the run of its two rows."""
    return replace(_run(row), spec=_spec(spec))


def loaded_run(row: bytes, spec: bytes) -> Run:
    """Return the run of its two rows for writing it again."""
    return replace(loaded(_run(row), row), spec=_spec(spec))


def loaded_task(row: bytes) -> Task:
    """Return the task of a row for writing it again."""
    return loaded(task_of(row), row)


def execution_of(row: bytes) -> Execution:
    """Return the execution of a row, which holds state and number, token, lease or place, and the record."""
    _, _, _, body = row.split(b"\0", 3)
    return _execution(body)


def number_of(row: bytes) -> int:
    """Return the number of a row's execution: the order of creation within the run."""
    return int(row[1 : row.index(b"\0")])


def loaded_execution(
    row: bytes, progress: bytes | None, session: bytes | None, sums: bytes | None
) -> OpenExecution:
    """Return an execution for writing it again, with its lease if it has one."""
    _, token, lease, body = row.split(b"\0", 3)
    execution = loaded(_execution(body), body)
    if not token:
        return OpenExecution(execution=execution)
    worker_id, instance_id = worker_of(lease[_HOLDER_AT:])
    return OpenExecution(
        execution=execution,
        token=token.decode(),
        worker_id=worker_id,
        instance_id=instance_id,
        progress=payload_of(progress) if progress is not None else None,
        session=_session(session) if session is not None else _NO_SESSION,
        recorded=totals_of(sums) if sums is not None else _NOTHING,
    )


def totals_of(sums: bytes) -> Totals:
    """Return the sums of what a lease recorded."""
    entries, size, messages, *halves = map(int, sums.split(b" "))
    if not halves:
        return Totals(entries=entries, bytes=size, messages=messages)
    spent = [high * USAGE_HALF + low for high, low in zip(halves[::2], halves[1::2], strict=True)]
    usage = Usage(input_tokens=spent[0], output_tokens=spent[1], cost_micros=spent[2])
    return Totals(entries=entries, bytes=size, usage=usage, messages=messages)


def entry_of(row: bytes, value: bytes | None) -> StoredEntry:
    """Return the journal entry of a row, which has its stamps; its value's bytes are separate."""
    stamped, journal, body = row.split(b"\0", 2)
    generation, version, written, until, size, _, _, execution_id = stamped.split(b" ", 7)
    entry = _entry(body)
    if value is not None and entry.value is not None:
        entry = replace(entry, value=replace(entry.value, data=value))
    return StoredEntry(
        entry=entry,
        journal=journal.decode(),
        generation=int(generation),
        execution_id=execution_id.decode(),
        version=int(version),
        written_us=int(written),
        until_us=int(until),
        size=int(size),
    )


def events_of(record: bytes) -> tuple[Event, ...]:
    """Return the events of a commit's record."""
    _, _, _, id_size, size, rest = record.split(b" ", 5)
    return _events(memoryview(rest)[int(id_size) + int(size) :])


def question_of(row: bytes) -> Question:
    """Return the question of a row, where its order precedes it."""
    return _question(memoryview(row)[ASKED_CHARS:])


def loaded_question(row: bytes) -> Question:
    """Return the question of a row for writing it again."""
    return loaded(question_of(row), row[ASKED_CHARS:])


def outcome_rows(outcome: Outcome) -> tuple[Outcome, Outcome | None]:
    """Return an outcome without its texts, and the texts alone (None: it has none)."""
    if not outcome.prompt and not outcome.response:
        return outcome, None
    return replace(outcome, prompt="", response=""), replace(outcome, result=None, receipt="")


def stored_of(key: str, row: bytes, texts: bytes | None) -> StoredPayload:
    """Return what is stored under a key: the run's input, or an outcome and its texts."""
    if key == INPUT_KEY:
        return StoredPayload(key=key, payload=payload_of(row))
    outcome = _outcome(row)
    said = outcome if texts is None else _outcome(texts)
    return StoredPayload(
        key=key,
        payload=outcome.result,
        prompt=said.prompt,
        response=said.response,
        receipt=outcome.receipt,
    )
