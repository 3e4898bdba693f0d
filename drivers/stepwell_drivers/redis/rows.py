"""Records to bytes and back: MessagePack maps by field name, so that a later version's fields can be
read by an earlier one and the reverse. Ids and places stand before the bytes where scripts need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from stepwell.core.port import OpenExecution, Presence, StoredPayload
from stepwell.core.records.checkpoints import Checkpoint
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.events import Event
from stepwell.core.records.model import (
    Execution,
    InputRequest,
    LogEntry,
    Message,
    Outcome,
    Payload,
    Plan,
    RequestRecord,
    Run,
    RunSpec,
    Session,
    Task,
)

PLACE_CHARS = 23
"""Characters of a task's place: the plan's revision, and its position there."""
SEQ_CHARS = 16
"""Characters of the number of an execution or input request: the order of creation within the run."""
ASKED_CHARS = 2 * SEQ_CHARS
"""Characters of an input request's place: that number, and the stamp of the commit that made it."""

_LEASE_AT = SEQ_CHARS + 7
"""Behind the letter of the state and six digits."""

Holder = Callable[[str], tuple[str, str]]
"""Worker and instance of a lease's entry in the index."""

encoded = msgspec.msgpack.Encoder().encode
_NO_SPEC = RunSpec(tenant_id="", run_id="")
_NO_SESSION = Session()

checkpoint_of = msgspec.msgpack.Decoder(Checkpoint).decode
event_of = msgspec.msgpack.Decoder(Event).decode
log_of = msgspec.msgpack.Decoder(LogEntry).decode
message_of = msgspec.msgpack.Decoder(Message).decode
payload_of = msgspec.msgpack.Decoder(Payload).decode
plan_of = msgspec.msgpack.Decoder(Plan).decode
presence_of = msgspec.msgpack.Decoder(Presence).decode
request_of = msgspec.msgpack.Decoder(RequestRecord).decode
_execution = msgspec.msgpack.Decoder(Execution).decode
_input = msgspec.msgpack.Decoder(InputRequest).decode
_lease = msgspec.msgpack.Decoder(tuple[str, str, str]).decode
_outcome = msgspec.msgpack.Decoder(Outcome).decode
_run = msgspec.msgpack.Decoder(Run).decode
_session = msgspec.msgpack.Decoder(Session).decode
_spec = msgspec.msgpack.Decoder(RunSpec).decode
_task = msgspec.msgpack.Decoder(Task).decode


NOT_KEPT = (UnicodeEncodeError, OverflowError, TypeError)
"""The errors that `encoded` raises for a value that can't be stored."""


def not_kept(error: Exception) -> InvalidArgument:
    """Return what is said of it: half a surrogate pair, or an integer beyond 64 bits."""
    return InvalidArgument(f"a value can't be kept as it is: {type(error).__name__}")


def packed(value: Any) -> bytes:
    """Return a value as bytes.

    Raises:
        InvalidArgument: it can't be kept.
    """
    try:
        return encoded(value)
    except NOT_KEPT as error:
        raise not_kept(error) from None


def run_row(run: Run) -> bytes:
    """Return what moves of a run; what it was started with is kept once."""
    return encoded(replace(run, spec=_NO_SPEC))


def run_of(row: bytes, spec: bytes) -> Run:
    """Return a run of its two rows."""
    return replace(_run(row), spec=_spec(spec))


def task_of(row: bytes) -> Task:
    """Return the task behind its place."""
    return _task(memoryview(row)[PLACE_CHARS:])


def execution_of(row: bytes) -> Execution:
    """Return the execution of a row: order of birth, state, the lease with its length, itself."""
    return _execution(memoryview(row)[_LEASE_AT + _lease_size(row) :])


def open_execution_of(
    row: bytes, progress: bytes | None, session: bytes | None, holder_of: Holder
) -> OpenExecution:
    """Return an execution with its lease, if it has one."""
    execution = execution_of(row)
    size = _lease_size(row)
    if not size:
        return OpenExecution(execution=execution)
    token, _, holder = _lease(memoryview(row)[_LEASE_AT : _LEASE_AT + size])
    worker_id, instance_id = holder_of(holder)
    return OpenExecution(
        execution=execution,
        token=token,
        worker_id=worker_id,
        instance_id=instance_id,
        progress=payload_of(progress) if progress is not None else None,
        session=_session(session) if session is not None else _NO_SESSION,
    )


def _lease_size(row: bytes) -> int:
    return int(row[SEQ_CHARS + 1 : _LEASE_AT])


def input_of(row: bytes) -> InputRequest:
    """Return the input request behind its order."""
    return _input(memoryview(row)[ASKED_CHARS:])


def outcome_rows(outcome: Outcome) -> tuple[bytes, bytes | None]:
    """Return an outcome without its bytes, and its bytes (None: it has none)."""
    if outcome.result is None:
        return encoded(outcome), None
    return encoded(replace(outcome, result=None)), encoded(outcome.result)


def stored_of(key: str, result: bytes | None, outcome: bytes | None) -> StoredPayload:
    """Return what is stored under a key, of the row of its bytes and that of its texts."""
    payload = None if result is None else payload_of(result)
    if outcome is None:
        return StoredPayload(key=key, payload=payload)
    texts = _outcome(outcome)
    return StoredPayload(
        key=key,
        payload=payload,
        prompt=texts.prompt,
        response=texts.response,
        receipt=texts.receipt,
    )
