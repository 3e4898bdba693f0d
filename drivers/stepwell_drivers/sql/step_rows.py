"""Executions, outcomes, events, questions, messages, logs and workers to rows and back.

The order of a tuple is that of the column names above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stepwell.core.port import Presence, StoredPayload
from stepwell.core.records.checkpoints import Checkpoint, CheckpointState
from stepwell.core.records.events import Event, ExecutionChange, RunChange, TaskChange
from stepwell.core.records.model import (
    Execution,
    InputRequest,
    LogEntry,
    Message,
    Outcome,
    Session,
)
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    ExpiryAction,
    InputKind,
    InputStatus,
    LogKind,
    StepKind,
)
from stepwell_drivers.sql.columns import (
    Values,
    bytes_of,
    failure_of,
    payload_of,
    session_of,
    to_json,
    usage_of,
)

_texts = msgspec.json.Decoder(tuple[str, ...]).decode
_patterns = msgspec.json.Decoder(tuple[TaskPattern, ...]).decode
_state = msgspec.json.Decoder(CheckpointState).decode
_kinds = msgspec.json.Decoder(tuple[StepKind, ...]).decode


# --- executions ----------------------------------------------------------------------------------

EXECUTION = (
    *("tenant_id", "run_id", "execution_id", "task_id", "kind", "iteration", "attempt"),
    *("queue", "type", "role", "pin", "priority", "status", "delay_ms", "worker_id", "begun"),
    *("failure", "usage", "backend", "session_id", "has_result"),
    *("offered_us", "leased_us", "ended_us", "messages_after", "messages", "unknown_us"),
    *("version", "available_us", "held_until_us"),
)
EXECUTION_MOVING = EXECUTION[4:]
EXECUTION_READ = EXECUTION[2:27]


def execution_row(key: tuple[str, str], version: int, execution: Execution, now_us: int) -> Values:
    """Return an execution's row; one that is READY becomes available after its delay, and isn't held."""
    session, status = execution.session, execution.status
    ready = status is ExecutionStatus.READY
    return (
        *(*key, execution.execution_id, execution.task_id, execution.kind.value),
        *(execution.iteration, execution.attempt, execution.queue),
        *(execution.type, execution.role, execution.pin),
        *(execution.priority, status.value, execution.delay_ms),
        *(execution.worker_id, int(execution.begun)),
        *(to_json(execution.failure), to_json(execution.usage)),
        *(session.backend, session.session_id, int(execution.has_result)),
        *(execution.offered_us, execution.leased_us, execution.ended_us),
        *(execution.messages_after, execution.messages, execution.unknown_us),
        *(version, now_us + execution.delay_ms * 1_000 if ready else 0, 0),
    )


def execution_of(row: Sequence[Any]) -> Execution:
    """Return the execution of a row that begins with EXECUTION_READ."""
    execution_id, task_id, kind, iteration, attempt, queue, type_, role, pin = row[0:9]
    priority, status, delay_ms, worker_id, begun, failure, usage = row[9:16]
    backend, session_id, has_result, offered_us, leased_us, ended_us = row[16:22]
    messages_after, messages, unknown_us = row[22:25]
    return Execution(
        execution_id=execution_id,
        kind=StepKind(kind),
        task_id=task_id,
        iteration=iteration,
        attempt=attempt,
        queue=queue,
        type=type_,
        role=role,
        pin=pin,
        priority=priority,
        status=ExecutionStatus(status),
        delay_ms=delay_ms,
        worker_id=worker_id,
        begun=bool(begun),
        failure=failure_of(failure),
        usage=usage_of(usage),
        session=session_of(backend, session_id),
        has_result=bool(has_result),
        messages_after=messages_after,
        messages=messages,
        unknown_us=unknown_us,
        offered_us=offered_us,
        leased_us=leased_us,
        ended_us=ended_us,
    )


OUTCOME = (
    *("tenant_id", "run_id", "execution_id", "backend", "session_id"),
    *("prompt", "response", "receipt", "result_media_type", "result"),
)
OUTCOME_READ = ("execution_id", "prompt", "response", "receipt", "result_media_type", "result")


def outcome_row(key: tuple[str, str], outcome: Outcome, session: Session) -> Values:
    """Return an outcome's row, with the conversation in which it came about."""
    return (
        *(*key, outcome.execution_id, session.backend, session.session_id),
        *(outcome.prompt, outcome.response, outcome.receipt, *bytes_of(outcome.result)),
    )


def stored_of(row: Sequence[Any]) -> StoredPayload:
    """Return what is stored under a key: a row of OUTCOME_READ, or one without texts."""
    key, *texts, media_type, data = row
    prompt, response, receipt = texts or ("", "", "")
    payload = payload_of(media_type, data)
    return StoredPayload(
        key=key, payload=payload, prompt=prompt, response=response, receipt=receipt
    )


# --- events --------------------------------------------------------------------------------------


class _Changes(Struct, frozen=True, omit_defaults=True):
    """An event's changes of rows."""

    run: RunChange | UnsetType = UNSET
    tasks: tuple[TaskChange, ...] = ()
    executions: tuple[ExecutionChange, ...] = ()
    inputs: tuple[InputRequest, ...] = ()


_changes = msgspec.json.Decoder(_Changes).decode

EVENT = (
    *("tenant_id", "run_id", "number", "version", "type", "time_us", "task_id"),
    *("execution_id", "input_id", "message", "actor", "on_behalf_of", "plan_revision", "payload"),
)
EVENT_READ = EVENT[2:]


def event_row(key: tuple[str, str], event: Event) -> Values:
    """Return an event's row."""
    changes = _Changes(event.run, event.tasks, event.executions, event.inputs)
    return (
        *(*key, event.number, event.version, event.type.value, event.time_us, event.task_id),
        *(event.execution_id, event.input_id, event.message, event.actor, event.on_behalf_of),
        *(event.plan_revision, to_json(changes)),
    )


def event_of(row: Sequence[Any]) -> Event:
    """Return the event of a row of EVENT_READ."""
    number, version, kind, time_us, task_id, execution_id, input_id, message = row[0:8]
    actor, on_behalf_of, plan_revision, text = row[8:12]
    changes = _changes(text)
    return Event(
        number=number,
        version=version,
        type=EventType(kind),
        time_us=time_us,
        task_id=task_id,
        execution_id=execution_id,
        input_id=input_id,
        message=message,
        actor=actor,
        on_behalf_of=on_behalf_of,
        run=changes.run,
        tasks=changes.tasks,
        executions=changes.executions,
        inputs=changes.inputs,
        plan_revision=plan_revision,
    )


# --- the rest --------------------------------------------------------------------------------------

INPUT = (
    *("tenant_id", "run_id", "input_id", "task_id", "execution_id", "kind", "prompt"),
    *("schema", "choices", "status", "expires_ms", "on_expiry", "answer_media_type"),
    *("answer", "answered_by", "created_us", "ended_us", "version"),
)
INPUT_READ = INPUT[2:17]


def input_row(key: tuple[str, str], version: int, request: InputRequest) -> Values:
    """Return an input request's row."""
    return (
        *(*key, request.input_id, request.task_id, request.execution_id, request.kind.value),
        *(request.prompt, request.schema, to_json(request.choices), request.status.value),
        *(request.expires_ms, request.on_expiry.value, *bytes_of(request.answer)),
        *(request.answered_by, request.created_us, request.ended_us, version),
    )


def input_of(row: Sequence[Any]) -> InputRequest:
    """Return the input request of a row of INPUT_READ."""
    input_id, task_id, execution_id, kind, prompt, schema, choices, status = row[0:8]
    expires_ms, on_expiry, media_type, data, answered_by, created_us, ended_us = row[8:15]
    return InputRequest(
        input_id=input_id,
        task_id=task_id,
        execution_id=execution_id,
        kind=InputKind(kind),
        prompt=prompt,
        schema=schema,
        choices=_texts(choices),
        status=InputStatus(status),
        expires_ms=expires_ms,
        on_expiry=ExpiryAction(on_expiry),
        answer=payload_of(media_type, data),
        answered_by=answered_by,
        created_us=created_us,
        ended_us=ended_us,
    )


MESSAGE = (
    *("tenant_id", "run_id", "role", "content", "task_id", "execution_id"),
    *("backend", "session_id", "number", "version"),
)
MESSAGE_READ = ("seq", *MESSAGE[2:9])


def message_row(key: tuple[str, str], version: int, message: Message) -> Values:
    """Return a message's row."""
    session = message.session
    return (
        *(*key, message.role, message.content, message.task_id, message.execution_id),
        *(session.backend, session.session_id, message.number, version),
    )


def message_of(row: Sequence[Any]) -> Message:
    """Return the message of a row of MESSAGE_READ."""
    _, role, content, task_id, execution_id, backend, session_id, number = row
    return Message(
        role=role,
        content=content,
        task_id=task_id,
        execution_id=execution_id,
        number=number,
        session=session_of(backend, session_id),
    )


CHECKPOINT = ("tenant_id", "run_id", "version", "cycle", "created_us", "state", "base")
CHECKPOINT_READ = CHECKPOINT[2:6]


def checkpoint_row(key: tuple[str, str], checkpoint: Checkpoint) -> Values:
    """Return a checkpoint's row."""
    return (
        *(*key, checkpoint.version, checkpoint.iteration, checkpoint.created_us),
        *(to_json(checkpoint.state), checkpoint.base or None),
    )


def checkpoint_of(row: Sequence[Any]) -> Checkpoint:
    """Return the checkpoint of a row of CHECKPOINT_READ, with or without the base behind it."""
    version, iteration, created_us, state, *base = row
    return Checkpoint(
        version=version,
        iteration=iteration,
        created_us=created_us,
        state=_state(state),
        base=base[0] if base else b"",
    )


LOG = (
    *("tenant_id", "run_id", "execution_id", "text", "level", "kind", "written_us"),
    "appended_us",
)
LOG_READ = ("seq", *LOG[2:7])


def log_row(key: tuple[str, str], entry: LogEntry, now_us: int) -> Values:
    """Return a log entry's row, with the moment of its appending."""
    return (
        *(*key, entry.execution_id, entry.text, entry.level, entry.kind.value),
        *(entry.written_us, now_us),
    )


def log_of(row: Sequence[Any]) -> LogEntry:
    """Return the log entry of a row of LOG_READ."""
    _, execution_id, text, level, kind, written_us = row
    return LogEntry(
        execution_id=execution_id,
        text=text,
        level=level,
        kind=LogKind(kind),
        written_us=written_us,
    )


WORKER = (
    *("tenant_id", "worker_id", "instance_id", "replica_id", "queues", "tasks", "kinds"),
    *("credits", "version", "expires_us"),
)
WORKER_READ = WORKER[:9]


def worker_row(presence: Presence, expires_us: int) -> Values:
    """Return a worker's row."""
    return (
        *(presence.tenant_id, presence.worker_id, presence.instance_id, presence.replica_id),
        *(to_json(presence.queues), to_json(presence.tasks), to_json(presence.kinds)),
        *(presence.credits, presence.version, expires_us),
    )


def worker_of(row: Sequence[Any]) -> Presence:
    """Return the presence of a row of WORKER_READ."""
    tenant_id, worker_id, instance_id, replica_id, queues, tasks, kinds, free, version = row
    return Presence(
        tenant_id=tenant_id,
        worker_id=worker_id,
        instance_id=instance_id,
        replica_id=replica_id,
        queues=_texts(queues),
        tasks=_patterns(tasks),
        kinds=_kinds(kinds),
        credits=free,
        version=version,
    )
