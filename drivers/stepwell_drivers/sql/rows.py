"""Records to rows and back. The order of each tuple is the order of the column names above it.

Rows are plain tuples: they go to the driver as they are, hundreds to a statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from stepwell.core.model import (
    Budget,
    Counts,
    Event,
    Execution,
    ExecutionChange,
    Failure,
    InputRequest,
    LogEntry,
    Message,
    Outcome,
    Payload,
    Plan,
    RetryPolicy,
    Run,
    RunChange,
    RunSpec,
    Session,
    Task,
    TaskChange,
    TaskSpec,
    Usage,
)
from stepwell.core.ports import Presence
from stepwell.core.states import (
    BlockedKind,
    EventType,
    ExecutionStatus,
    ExpiryAction,
    FinishReason,
    InputKind,
    InputStatus,
    PauseReason,
    Phase,
    PlanTrigger,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell_drivers.sql.schema import UNPLACED

Values = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode
_counts = msgspec.json.Decoder(Counts).decode
_usage = msgspec.json.Decoder(Usage).decode
_budget = msgspec.json.Decoder(Budget).decode
_failure = msgspec.json.Decoder(Failure).decode
_retry = msgspec.json.Decoder(RetryPolicy).decode
_labels = msgspec.json.Decoder(dict[str, str]).decode
_stages = msgspec.json.Decoder(tuple[StepKind, ...]).decode
_texts = msgspec.json.Decoder(tuple[str, ...]).decode
_specs = msgspec.msgpack.Decoder(tuple[TaskSpec, ...]).decode

_NO_FAILURE = Failure()
_NO_USAGE = Usage()
_NO_SESSION = Session()
INPUT_PARAMS_BYTES_MAX = 4 * 1024
"""A run's input up to this size, if it is JSON, is shown beside the run as well."""


def to_json(value: object) -> str:
    """Return a value as JSON text."""
    return _encode(value).decode()


def bytes_of(payload: Payload | None) -> tuple[str | None, bytes | None]:
    """Return media type and bytes; both None: there is no payload."""
    return (None, None) if payload is None else (payload.media_type, payload.data)


def payload_of(media_type: str | None, data: bytes | None) -> Payload | None:
    """Return the payload that `bytes_of` took apart."""
    if media_type is None or data is None:
        return None
    return Payload(data=data, media_type=media_type)


def session_of(backend: str, session_id: str) -> Session:
    """Return a session; most are empty."""
    if not backend and not session_id:
        return _NO_SESSION
    return Session(backend=backend, session_id=session_id)


def _read_failure(text: str) -> Failure:
    return _NO_FAILURE if text == "{}" else _failure(text)


def _read_usage(text: str) -> Usage:
    return _NO_USAGE if text == "{}" else _usage(text)


# --- runs ----------------------------------------------------------------------------------------

RUN_MOVING = (
    *("version", "last_event", "status", "phase", "iteration", "plan_revision"),
    *("stages", "stages_fixed", "allowance", "step_attempt", "step_spent"),
    *("counts", "usage", "budget", "blocked_on", "blocked_since_us"),
    *("pause_reason", "finish_reason", "reason", "failure", "result_id"),
    *("created_us", "started_us", "ended_us"),
)
RUN_FIXED = (
    *("pipeline_id", "queue", "goal", "labels", "executor_id"),
    *("max_iterations", "max_parallel", "priority", "initial_budget", "step_retry"),
    *("step_timeout_ms", "start_delay_ms", "request_fingerprint"),
    *("parent_run_id", "parent_version"),
)


def run_moving(run: Run) -> Values:
    """Return what moves with a run's version."""
    return (
        *(run.version, run.last_event, run.status.value, run.phase.value),
        *(run.iteration, run.plan_revision, to_json(run.stages), int(run.stages_fixed)),
        *(run.allowance, run.step_attempt, run.step_spent),
        *(to_json(run.counts), to_json(run.usage), to_json(run.budget)),
        *(run.blocked_on.value, run.blocked_since_us),
        *(run.pause_reason.value, run.finish_reason.value, run.reason),
        *(to_json(run.failure), run.result_id),
        *(run.created_us, run.started_us, run.ended_us),
    )


def run_fixed(spec: RunSpec) -> Values:
    """Return what a run was started with."""
    return (
        *(spec.pipeline_id, spec.queue, spec.goal, to_json(spec.labels), spec.executor_id),
        *(spec.max_iterations, spec.max_parallel, spec.priority),
        *(to_json(spec.budget), to_json(spec.step_retry)),
        *(spec.step_timeout_ms, spec.start_delay_ms, spec.request_fingerprint),
        *(spec.parent_run_id, spec.parent_version),
    )


RUN_READ = ("tenant_id", "run_id", *RUN_FIXED, *RUN_MOVING)


def run_of(row: Sequence[Any]) -> Run:
    """Return the run of a row of RUN_READ."""
    at = 2 + len(RUN_FIXED)
    version, last_event, status, phase, iteration, plan_revision = row[at : at + 6]
    stages, stages_fixed, allowance, step_attempt, step_spent = row[at + 6 : at + 11]
    counts, usage, budget, blocked_on, blocked_since_us = row[at + 11 : at + 16]
    pause_reason, finish_reason, reason, failure, result_id = row[at + 16 : at + 21]
    created_us, started_us, ended_us = row[at + 21 : at + 24]
    return Run(
        spec=_spec_of(row),
        version=version,
        last_event=last_event,
        status=RunStatus(status),
        phase=Phase(phase),
        iteration=iteration,
        plan_revision=plan_revision,
        stages=_stages(stages),
        stages_fixed=bool(stages_fixed),
        allowance=allowance,
        step_attempt=step_attempt,
        step_spent=step_spent,
        counts=_counts(counts),
        usage=_read_usage(usage),
        budget=_budget(budget),
        blocked_on=BlockedKind(blocked_on),
        blocked_since_us=blocked_since_us,
        pause_reason=PauseReason(pause_reason),
        finish_reason=FinishReason(finish_reason),
        reason=reason,
        failure=_read_failure(failure),
        result_id=result_id,
        created_us=created_us,
        started_us=started_us,
        ended_us=ended_us,
    )


def _spec_of(row: Sequence[Any]) -> RunSpec:
    tenant_id, run_id, pipeline_id, queue, goal, labels, executor_id = row[0:7]
    max_iterations, max_parallel, priority, budget, step_retry = row[7:12]
    step_timeout_ms, start_delay_ms, fingerprint, parent_run_id, parent_version = row[12:17]
    return RunSpec(
        tenant_id=tenant_id,
        run_id=run_id,
        pipeline_id=pipeline_id,
        queue=queue,
        goal=goal,
        labels=_labels(labels),
        executor_id=executor_id,
        max_iterations=max_iterations,
        max_parallel=max_parallel,
        priority=priority,
        budget=_budget(budget),
        step_retry=_retry(step_retry),
        step_timeout_ms=step_timeout_ms,
        start_delay_ms=start_delay_ms,
        request_fingerprint=fingerprint,
        parent_run_id=parent_run_id,
        parent_version=parent_version,
    )


def input_params(given: Payload | None) -> str | None:
    """Return a run's input for people to read, if it is small JSON; else None."""
    if given is None or len(given.data) > INPUT_PARAMS_BYTES_MAX:
        return None
    if given.media_type.partition(";")[0].strip() != "application/json":
        return None
    try:
        msgspec.json.decode(given.data)
        return given.data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


# --- plans and tasks -------------------------------------------------------------------------------

PLAN = (
    *("tenant_id", "run_id", "revision", "version", "parent_revision", "trigger", "reason"),
    *("fingerprint", "iteration", "created_us", "task_count", "specs"),
)


def plan_row(key: tuple[str, str], version: int, plan: Plan) -> Values:
    """Return a plan's row; its tasks as one piece, because they are read as one."""
    return (
        *(*key, plan.revision, version, plan.parent_revision, plan.trigger.value, plan.reason),
        *(plan.fingerprint, plan.iteration, plan.created_us, len(plan.tasks)),
        msgspec.msgpack.encode(plan.tasks),
    )


def plan_of(row: Sequence[Any]) -> Plan:
    """Return the plan of a row of PLAN."""
    revision, _, parent_revision, trigger, reason, fingerprint = row[2:8]
    iteration, created_us, _, specs = row[8:12]
    return Plan(
        revision=revision,
        parent_revision=parent_revision,
        trigger=PlanTrigger(trigger),
        reason=reason,
        fingerprint=fingerprint,
        iteration=iteration,
        tasks=_specs(specs),
        created_us=created_us,
    )


TASK_KEY = ("tenant_id", "run_id", "task_id", "revision")
TASK_MOVING = (
    *("version", "status", "attempts", "spent", "allowance", "result_id"),
    *("failure", "input_id", "started_us", "ended_us"),
)
TASK_FIXED = (
    *("position", "type", "title", "role", "idempotency_key", "effect", "on_failure"),
    *("depends_on", "retry", "prompt"),
)
TASK_READ = (*TASK_KEY[2:], *TASK_MOVING[1:])


def task_moving(version: int, task: Task) -> Values:
    """Return what moves of a task."""
    return (
        *(version, task.status.value, task.attempts, task.spent, task.allowance),
        *(task.result_id, to_json(task.failure), task.input_id),
        *(task.started_us, task.ended_us),
    )


def task_fixed(run_id: str, position: int, spec: TaskSpec) -> Values:
    """Return what a plan says of a task, for people to read."""
    return (
        *(position, spec.type, spec.title, spec.role),
        spec.idempotency_key or f"{run_id}/{spec.task_id}",
        *(spec.effect.value, spec.on_failure.value),
        *(to_json(spec.depends_on), to_json(spec.retry), spec.prompt),
    )


TASK_UNPLANNED: Values = (UNPLACED, "", "", "", "", "", "", "[]", "{}", "")


def task_of(row: Sequence[Any]) -> Task:
    """Return the task of a row of TASK_READ."""
    task_id, revision, status, attempts, spent, allowance = row[0:6]
    result_id, failure, input_id, started_us, ended_us = row[6:11]
    return Task(
        task_id=task_id,
        revision=revision,
        status=TaskStatus(status),
        attempts=attempts,
        spent=spent,
        allowance=allowance,
        result_id=result_id,
        failure=_read_failure(failure),
        input_id=input_id,
        started_us=started_us,
        ended_us=ended_us,
    )


# --- executions ----------------------------------------------------------------------------------

EXECUTION = (
    *("tenant_id", "run_id", "execution_id", "task_id", "kind", "iteration", "attempt"),
    *("queue", "role", "priority", "status", "delay_ms", "worker_id", "begun"),
    *("failure", "usage", "backend", "session_id", "has_result"),
    *("offered_us", "leased_us", "ended_us", "version", "available_us"),
)
EXECUTION_MOVING = EXECUTION[4:]
EXECUTION_READ = EXECUTION[2:22]


def execution_row(
    key: tuple[str, str], version: int, execution: Execution, now_us: int
) -> Values:
    """Return an execution's row; one that is READY becomes available after its delay."""
    session, status = execution.session, execution.status
    ready = status is ExecutionStatus.READY
    return (
        *(*key, execution.execution_id, execution.task_id, execution.kind.value),
        *(execution.iteration, execution.attempt, execution.queue, execution.role),
        *(execution.priority, status.value, execution.delay_ms),
        *(execution.worker_id, int(execution.begun)),
        *(to_json(execution.failure), to_json(execution.usage)),
        *(session.backend, session.session_id, int(execution.has_result)),
        *(execution.offered_us, execution.leased_us, execution.ended_us, version),
        now_us + execution.delay_ms * 1_000 if ready else 0,
    )


def execution_of(row: Sequence[Any]) -> Execution:
    """Return the execution of a row that begins with EXECUTION_READ."""
    execution_id, task_id, kind, iteration, attempt, queue, role = row[0:7]
    priority, status, delay_ms, worker_id, begun, failure, usage = row[7:14]
    backend, session_id, has_result, offered_us, leased_us, ended_us = row[14:20]
    return Execution(
        execution_id=execution_id,
        kind=StepKind(kind),
        task_id=task_id,
        iteration=iteration,
        attempt=attempt,
        queue=queue,
        role=role,
        priority=priority,
        status=ExecutionStatus(status),
        delay_ms=delay_ms,
        worker_id=worker_id,
        begun=bool(begun),
        failure=_read_failure(failure),
        usage=_read_usage(usage),
        session=session_of(backend, session_id),
        has_result=bool(has_result),
        offered_us=offered_us,
        leased_us=leased_us,
        ended_us=ended_us,
    )


OUTCOME = (
    *("tenant_id", "run_id", "execution_id", "backend", "session_id"),
    *("prompt", "response", "result_media_type", "result"),
)
OUTCOME_READ = ("execution_id", "prompt", "response", "result_media_type", "result")


def outcome_row(key: tuple[str, str], outcome: Outcome, session: Session) -> Values:
    """Return an outcome's row, with the conversation in which it came about."""
    return (
        *(*key, outcome.execution_id, session.backend, session.session_id),
        *(outcome.prompt, outcome.response, *bytes_of(outcome.result)),
    )


def outcome_of(row: Sequence[Any]) -> Outcome:
    """Return the outcome of a row of OUTCOME_READ."""
    execution_id, prompt, response, media_type, data = row
    result = payload_of(media_type, data)
    return Outcome(execution_id=execution_id, result=result, prompt=prompt, response=response)


# --- events --------------------------------------------------------------------------------------


class _Changes(Struct, frozen=True, omit_defaults=True):
    """What an event says of the rows that it changed."""

    run: RunChange | UnsetType = UNSET
    tasks: tuple[TaskChange, ...] = ()
    executions: tuple[ExecutionChange, ...] = ()
    inputs: tuple[InputRequest, ...] = ()


_changes = msgspec.json.Decoder(_Changes).decode

EVENT = (
    *("tenant_id", "run_id", "number", "version", "type", "time_us", "task_id"),
    *("execution_id", "input_id", "message", "plan_revision", "changes"),
)
EVENT_READ = EVENT[2:]


def event_row(key: tuple[str, str], event: Event) -> Values:
    """Return an event's row."""
    changes = _Changes(event.run, event.tasks, event.executions, event.inputs)
    return (
        *(*key, event.number, event.version, event.type.value, event.time_us, event.task_id),
        *(event.execution_id, event.input_id, event.message, event.plan_revision),
        to_json(changes),
    )


def event_of(row: Sequence[Any]) -> Event:
    """Return the event of a row of EVENT_READ."""
    number, version, kind, time_us, task_id, execution_id, input_id, message = row[0:8]
    plan_revision, text = row[8:10]
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
    *("backend", "session_id", "version"),
)
MESSAGE_READ = ("seq", *MESSAGE[2:8])


def message_row(key: tuple[str, str], version: int, message: Message) -> Values:
    """Return a message's row."""
    session = message.session
    return (
        *(*key, message.role, message.content, message.task_id, message.execution_id),
        *(session.backend, session.session_id, version),
    )


def message_of(row: Sequence[Any]) -> Message:
    """Return the message of a row of MESSAGE_READ."""
    _, role, content, task_id, execution_id, backend, session_id = row
    return Message(
        role=role,
        content=content,
        task_id=task_id,
        execution_id=execution_id,
        session=session_of(backend, session_id),
    )


LOG = ("tenant_id", "run_id", "execution_id", "text", "level", "written_us")
LOG_READ = ("seq", *LOG[2:])


def log_of(row: Sequence[Any]) -> LogEntry:
    """Return the log entry of a row of LOG_READ."""
    _, execution_id, text, level, written_us = row
    return LogEntry(execution_id=execution_id, text=text, level=level, written_us=written_us)


WORKER = (
    *("tenant_id", "worker_id", "instance_id", "replica_id", "queues", "roles", "kinds"),
    *("credits", "expires_us"),
)
WORKER_READ = WORKER[:8]


def worker_row(presence: Presence, expires_us: int) -> Values:
    """Return a worker's row."""
    return (
        *(presence.tenant_id, presence.worker_id, presence.instance_id, presence.replica_id),
        *(to_json(presence.queues), to_json(presence.roles), to_json(presence.kinds)),
        *(presence.credits, expires_us),
    )


def worker_of(row: Sequence[Any]) -> Presence:
    """Return the presence of a row of WORKER_READ."""
    tenant_id, worker_id, instance_id, replica_id, queues, roles, kinds, free = row
    return Presence(
        tenant_id=tenant_id,
        worker_id=worker_id,
        instance_id=instance_id,
        replica_id=replica_id,
        queues=_texts(queues),
        roles=_texts(roles),
        kinds=_stages(kinds),
        credits=free,
    )
