"""Records as JSON bodies, and back.

Only fields that are also columns are named here. A record that changes is stored without what other
columns hold: a run without its specification, an event without its number and version. The parts
are joined as text and decoded together. A newer version may have written fields that this one
doesn't know. A record that is loaded to be written again keeps them in `unknown`. They are found by
encoding the record again: the text differs only if there are any.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from stepwell.core.port import Presence, StoredPayload
from stepwell.core.records.checkpoints import Checkpoint, CheckpointState
from stepwell.core.records.events import Event
from stepwell.core.records.model import (
    Execution,
    LogEntry,
    Message,
    Payload,
    Plan,
    Question,
    RequestRecord,
    Run,
    Task,
    TaskSpec,
)
from stepwell.core.records.record import StoredRecord
from stepwell_drivers.sql.columns import payload_of, to_json
from stepwell_drivers.unknown import fields_beyond, with_unknown

S = TypeVar("S", bound=StoredRecord)

_run = msgspec.json.Decoder(Run).decode
_event = msgspec.json.Decoder(Event).decode
_json = msgspec.json.Decoder().decode
_pieces = msgspec.json.Decoder(list[msgspec.Raw]).decode
_state = msgspec.json.Decoder(CheckpointState).decode
task_of = msgspec.json.Decoder(Task).decode
plan_of = msgspec.json.Decoder(Plan).decode
execution_of = msgspec.json.Decoder(Execution).decode
question_of = msgspec.json.Decoder(Question).decode
message_of = msgspec.json.Decoder(Message).decode
request_of = msgspec.json.Decoder(RequestRecord).decode
log_of = msgspec.json.Decoder(LogEntry).decode
worker_of = msgspec.json.Decoder(Presence).decode

_is_uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII).fullmatch
_LONG_NUMBER = re.compile(rb"[0-9]{4097}")
"""A number that may have more digits than Postgres takes."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
# JSON may hold NUL and JSONB may not: an escaped NUL, after an even number of backslashes.
_has_nul = re.compile(rb"(?<!\\)(\\\\)*\\u0000").search


# --- fields of newer versions ----------------------------------------------------------------------


def body_of(record: StoredRecord) -> str:
    """Return the body of a record, with its fields from newer versions."""
    text = to_json(record)
    return _with_unknown(text, record.unknown) if record.unknown else text


def records_of(kind: type[S], texts: Sequence[str]) -> list[S]:
    """Return records for writing them again, with the fields of newer versions."""
    joined = f"[{','.join(texts)}]"
    records = msgspec.json.decode(joined, type=list[kind])
    if to_json(records) == joined:
        return records
    return [
        _keep_unknown(one, text, to_json(one)) for one, text in zip(records, texts, strict=True)
    ]


def _with_unknown(text: str, unknown: str) -> str:
    return to_json(with_unknown(_json(unknown), _json(text)))


def _keep_unknown(record: S, text: str, own: str) -> S:
    """Return a record with the fields of its stored text that its own encoding lacks."""
    if text == own:
        return record
    unknown = fields_beyond(record, _json(text), _json(own))
    return replace(record, unknown=to_json(unknown)) if unknown else record


# --- runs ----------------------------------------------------------------------------------------


def run_state(run: Run) -> str:
    """Return the changing part of a run. msgspec omits fields that are UNSET."""
    return body_of(replace(run, spec=UNSET))


def run_of(spec: str, state: str) -> Run:
    """Return the run of its specification and state."""
    return _run(f'{{"spec":{spec}{_rest(state)}')


def loaded_run(spec: str, state: str) -> Run:
    """Return the run of its specification and state for writing it again, with the fields of newer versions."""
    run = run_of(spec, state)
    own = run_state(run)
    return run if own == state else _keep_unknown(run, state, own)


def _rest(body: str) -> str:
    """Return a body without its opening brace, to append it to other fields."""
    return "}" if body == "{}" else f",{body[1:]}"


def uuid_of(run_id: str) -> str | None:
    """Return a run's id as Postgres writes UUIDs, or None if it is no UUID."""
    lower = run_id.lower()
    return lower if _is_uuid(lower) else None


def uuid_drawn(*names: str) -> str:
    """Return a UUID (version 8) for a run, derived from names that no other run has at any time."""
    digits = blake2b(to_json(names).encode(), digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def input_params(given: Payload | None) -> str | None:
    """Return a run's input for people to read, if it is JSON that both databases accept; else None."""
    if given is None or given.media_type.partition(";")[0].strip() != "application/json":
        return None
    try:
        if _LONG_NUMBER.search(given.data) and _LONG_NUMBER.search(_TEXT.sub(b"", given.data)):
            return None
        msgspec.json.decode(given.data)
        return None if _has_nul(given.data) else given.data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


# --- tasks -----------------------------------------------------------------------------------------


def shown_spec(spec: TaskSpec) -> str:
    """Return a task's definition for people to read, without its input, which the plan has."""
    return to_json(spec if spec.input is None else replace(spec, input=None))


def new_task(task_id: str, revision: int) -> Task:
    """Return a task as its plan defined it."""
    return Task(task_id=task_id, revision=revision)


# --- events --------------------------------------------------------------------------------------


def events_json(events: Sequence[Event]) -> str:
    """Return a commit's events as a list, each without its number and version."""
    return to_json([replace(event, number=UNSET, version=UNSET) for event in events])


def events_of(version: int, last_event: int, events: str) -> list[Event]:
    """Return a commit's events."""
    pieces = _pieces(events)
    first = last_event - len(pieces) + 1
    return [
        _event(f'{{"number":{number},"version":{version}{_rest(bytes(piece).decode())}')
        for number, piece in enumerate(pieces, first)
    ]


# --- the rest --------------------------------------------------------------------------------------


def stored_of(row: Sequence[Any]) -> StoredPayload:
    """Return what is stored under a key, of a row of key, media type, bytes, and an outcome's texts."""
    key, media_type, data, *texts = row
    prompt, response, receipt = (text or "" for text in texts or ("", "", ""))
    return StoredPayload(
        key=key,
        payload=payload_of(media_type, data),
        prompt=prompt,
        response=response,
        receipt=receipt,
    )


def checkpoint_of(row: Sequence[Any]) -> Checkpoint:
    """Return the checkpoint of a row of version, cycle, moment and state, and optionally the base."""
    version, iteration, created_us, state, *base = row
    return Checkpoint(
        version=version,
        iteration=iteration,
        created_us=created_us,
        state=_state(state),
        base=base[0] if base else b"",
    )
