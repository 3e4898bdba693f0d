"""Runs, plans and tasks to rows and back. The order of a tuple is that of the column names above it.

Rows are plain tuples: they go to the driver as they are, hundreds to a statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from stepwell.core.records.model import (
    AttemptCounts,
    Budget,
    Counts,
    Payload,
    Plan,
    RetryPolicy,
    Run,
    RunSpec,
    Tally,
    Task,
    TaskSpec,
)
from stepwell.core.records.routing import WorkerVersion
from stepwell.core.records.states import (
    BlockedKind,
    FinishReason,
    PauseReason,
    Phase,
    PlanTrigger,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell_drivers.sql.columns import (
    Values,
    failure_of,
    losses_json,
    losses_of,
    previous_of,
    to_json,
    usage_of,
)
from stepwell_drivers.sql.schema import UNPLACED

_counts = msgspec.json.Decoder(Counts).decode
_attempts = msgspec.json.Decoder(AttemptCounts).decode
_tally = msgspec.json.Decoder(Tally).decode
_budget = msgspec.json.Decoder(Budget).decode
_worker_version = msgspec.json.Decoder(WorkerVersion).decode
_retry = msgspec.json.Decoder(RetryPolicy).decode
_labels = msgspec.json.Decoder(dict[str, str]).decode
_stages = msgspec.json.Decoder(tuple[StepKind, ...]).decode
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_specs = msgspec.msgpack.Decoder(tuple[TaskSpec, ...]).decode

INPUT_PARAMS_BYTES_MAX = 4 * 1024
"""A run's input up to this size, if it is JSON, is shown beside the run as well."""

_is_uuid = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII).fullmatch
# JSON may have it, and JSONB may not: an escaped NUL, after an even number of backslashes.
_has_nul = re.compile(rb"(?<!\\)(\\\\)*\\u0000").search


# --- runs ----------------------------------------------------------------------------------------

RUN_MOVING = (
    *("version", "last_event", "status", "phase", "iteration", "plan_revision"),
    *("stages", "stages_fixed", "allowance", "step_attempt", "step_spent"),
    *("counts", "usage", "budget", "blocked_on", "blocked_since_us"),
    *("pause_reason", "finish_reason", "reason", "failure", "result_id"),
    *("created_us", "started_us", "ended_us"),
    *("attempts", "tally", "stopping", "previous", "step_losses"),
    *("actor", "on_behalf_of", "blocked_run_id"),
)
RUN_FIXED = (
    *("pipeline_id", "queue", "goal", "labels", "executor_id"),
    *("max_iterations", "max_parallel", "priority", "initial_budget", "step_retry"),
    *("step_timeout_ms", "start_delay_ms", "request_fingerprint"),
    *("parent_run_id", "parent_version", "family_id", "no_progress_limit", "worker_version"),
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
        *(to_json(run.attempts), to_json(run.tally), int(run.stopping), to_json(run.previous)),
        *(losses_json(run.step_losses), run.actor, run.on_behalf_of, run.blocked_run_id),
    )


def run_fixed(spec: RunSpec) -> Values:
    """Return what a run was started with."""
    return (
        *(spec.pipeline_id, spec.queue, spec.goal, to_json(spec.labels), spec.executor_id),
        *(spec.max_iterations, spec.max_parallel, spec.priority),
        *(to_json(spec.budget), to_json(spec.step_retry)),
        *(spec.step_timeout_ms, spec.start_delay_ms, spec.request_fingerprint),
        *(spec.parent_run_id, spec.parent_version, spec.family_id, spec.no_progress_limit),
        to_json(spec.worker_version),
    )


def uuid_of(run_id: str) -> str | None:
    """Return the UUID that a run's id is, as Postgres writes it; None: it is no UUID."""
    lower = run_id.lower()
    return lower if _is_uuid(lower) else None


RUN_READ = ("tenant_id", "run_id", *RUN_FIXED, *RUN_MOVING)


def run_of(row: Sequence[Any]) -> Run:
    """Return the run of a row of RUN_READ."""
    at = 2 + len(RUN_FIXED)
    version, last_event, status, phase, iteration, plan_revision = row[at : at + 6]
    stages, stages_fixed, allowance, step_attempt, step_spent = row[at + 6 : at + 11]
    counts, usage, budget, blocked_on, blocked_since_us = row[at + 11 : at + 16]
    pause_reason, finish_reason, reason, failure, result_id = row[at + 16 : at + 21]
    created_us, started_us, ended_us = row[at + 21 : at + 24]
    attempts, tally, stopping, previous, step_losses = row[at + 24 : at + 29]
    actor, on_behalf_of, blocked_run_id = row[at + 29 : at + 32]
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
        step_losses=losses_of(step_losses),
        counts=_counts(counts),
        attempts=_attempts(attempts),
        usage=usage_of(usage),
        budget=_budget(budget),
        tally=_tally(tally),
        stopping=bool(stopping),
        previous=previous_of(previous),
        actor=actor,
        on_behalf_of=on_behalf_of,
        blocked_on=BlockedKind(blocked_on),
        blocked_since_us=blocked_since_us,
        blocked_run_id=blocked_run_id,
        pause_reason=PauseReason(pause_reason),
        finish_reason=FinishReason(finish_reason),
        reason=reason,
        failure=failure_of(failure),
        result_id=result_id,
        created_us=created_us,
        started_us=started_us,
        ended_us=ended_us,
    )


def _spec_of(row: Sequence[Any]) -> RunSpec:
    tenant_id, run_id, pipeline_id, queue, goal, labels, executor_id = row[0:7]
    max_iterations, max_parallel, priority, budget, step_retry = row[7:12]
    step_timeout_ms, start_delay_ms, fingerprint, parent_run_id, parent_version = row[12:17]
    family_id, no_progress_limit, worker_version = row[17:20]
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
        family_id=family_id,
        no_progress_limit=no_progress_limit,
        worker_version=_worker_version(worker_version),
    )


def input_params(given: Payload | None) -> str | None:
    """Return a run's input for people to read, if it is small JSON that both databases take; else None."""
    if given is None or len(given.data) > INPUT_PARAMS_BYTES_MAX:
        return None
    if given.media_type.partition(";")[0].strip() != "application/json":
        return None
    try:
        msgspec.json.decode(given.data)
        return None if _has_nul(given.data) else given.data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


# --- plans and tasks -------------------------------------------------------------------------------

PLAN = (
    *("tenant_id", "run_id", "revision", "version", "parent_revision", "trigger", "reason"),
    *("fingerprint", "iteration", "created_us", "task_count", "specs", "carried"),
)


def plan_row(key: tuple[str, str], version: int, plan: Plan) -> Values:
    """Return a plan's row; its tasks as one piece, because they are read as one."""
    return (
        *(*key, plan.revision, version, plan.parent_revision, plan.trigger.value, plan.reason),
        *(plan.fingerprint, plan.iteration, plan.created_us, len(plan.tasks)),
        *(msgspec.msgpack.encode(plan.tasks), to_json(plan.carried)),
    )


def plan_of(row: Sequence[Any]) -> Plan:
    """Return the plan of a row of PLAN."""
    revision, _, parent_revision, trigger, reason, fingerprint = row[2:8]
    iteration, created_us, _, specs, carried = row[8:13]
    return Plan(
        revision=revision,
        parent_revision=parent_revision,
        trigger=PlanTrigger(trigger),
        reason=reason,
        fingerprint=fingerprint,
        iteration=iteration,
        tasks=_specs(specs),
        carried=_names(carried),
        created_us=created_us,
    )


TASK_KEY = ("tenant_id", "run_id", "task_id", "revision")
TASK_MOVING = (
    *("version", "status", "attempts", "spent", "allowance", "result_id"),
    *("failure", "input_id", "started_us", "ended_us"),
    *("result_run_id", "deduplicated_from", "messages", "previous"),
    *("reconciles", "reconciles_spent", "losses", "reconcile_losses"),
    *("held_key", "key_run_id"),
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
        *(task.result_run_id, task.deduplicated_from, task.messages, to_json(task.previous)),
        *(task.reconciles, task.reconciles_spent),
        *(losses_json(task.losses), losses_json(task.reconcile_losses)),
        *(task.held_key, task.key_run_id),
    )


def task_fixed(run_id: str, revision: int, position: int, spec: TaskSpec) -> Values:
    """Return what a plan says of a task, for people to read."""
    return (
        *(position, spec.type, spec.title, spec.role, spec.key_in(run_id, revision)),
        *(spec.effect.value, spec.on_failure.value),
        *(to_json(spec.depends_on), to_json(spec.retry), spec.prompt),
    )


TASK_UNPLANNED: Values = (UNPLACED, "", "", "", "", "", "", "[]", "{}", "")


def task_of(row: Sequence[Any]) -> Task:
    """Return the task of a row of TASK_READ."""
    task_id, revision, status, attempts, spent, allowance = row[0:6]
    result_id, failure, input_id, started_us, ended_us = row[6:11]
    result_run_id, deduplicated_from, messages, previous = row[11:15]
    reconciles, reconciles_spent, losses, reconcile_losses = row[15:19]
    held_key, key_run_id = row[19:21]
    return Task(
        task_id=task_id,
        revision=revision,
        status=TaskStatus(status),
        attempts=attempts,
        spent=spent,
        allowance=allowance,
        losses=losses_of(losses),
        result_id=result_id,
        result_run_id=result_run_id,
        deduplicated_from=deduplicated_from,
        held_key=held_key,
        key_run_id=key_run_id,
        failure=failure_of(failure),
        input_id=input_id,
        messages=messages,
        previous=previous_of(previous),
        reconciles=reconciles,
        reconciles_spent=reconciles_spent,
        reconcile_losses=losses_of(reconcile_losses),
        started_us=started_us,
        ended_us=ended_us,
    )
