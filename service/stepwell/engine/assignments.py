"""Assignments: the step that a worker leases, with the results that the step depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from stepwell.core.loop import budgets, idempotency
from stepwell.core.loop.state import RunState
from stepwell.core.port import INPUT_KEY, Assignment, DependencyResult, Lease
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Failure, Message, Payload, TaskSpec
from stepwell.core.records.states import SETTLED, ExecutionStatus, StepKind, TaskStatus
from stepwell.engine import conversations
from stepwell.engine.answered import asked_by
from stepwell.engine.payloads import Place

ASSIGNMENT_BYTES_MAX = 3_500 * 1024
"""Limit of an assignment's large fields together: most gRPC clients refuse messages above 4 MiB."""


def outline(state: RunState, lease: Lease, *, now_us: int) -> Assignment:
    """Return the assignment without its payloads, from a state in which the lease is granted.

    `now_us` is this replica's estimate of the store's time, for the rest of the wall time.
    """
    execution = state.open[lease.execution_id].execution
    task = state.graph.specs[execution.task_id] if execution.task_id else None
    row = state.tasks.get(execution.task_id)
    before = row.previous if row is not None else state.run.previous
    return Assignment(
        run=state.run,
        execution=execution,
        token=lease.token,
        task=task,
        results=tuple(_outline_of(state, task_id) for task_id in _dependencies(state, task)),
        lease_ms=lease.lease_ms,
        limit_ms=lease.limit_ms,
        previous_progress=before.progress,
        previous_session=before.session,
        previous_failure=before.failure if before.failure != Failure() else None,
        conversation=row.messages if row is not None else 0,
        answered=asked_by(row) if task is not None else None,
        idempotency_key=idempotency.key_of(state, execution),
        remaining_budget=budgets.remaining(state.run, now_us),
        unknown_execution_id=_unknown_of(state, execution),
    )


def _unknown_of(state: RunState, execution: Execution) -> str:
    """Return the execution whose unknown outcome a RECONCILE step is for."""
    if execution.kind is not StepKind.RECONCILE:
        return ""
    return next(
        one.execution.execution_id
        for one in state.open.values()
        if one.execution.task_id == execution.task_id
        and one.execution.status is ExecutionStatus.UNKNOWN_OUTCOME
    )


def places_of(assignment: Assignment) -> list[Place]:
    """Return the places of the payloads that an assignment lacks."""
    run_id = assignment.run.spec.run_id
    results = [_place_of(run_id, one) for one in assignment.results if one.by_reference]
    return [*results, (run_id, INPUT_KEY)]


def _place_of(run_id: str, one: DependencyResult) -> Place:
    return one.run_id or run_id, one.execution_id


def fill(
    assignment: Assignment, payloads: Mapping[Place, Payload], messages: Sequence[Message] = ()
) -> Assignment:
    """Return the assignment with its payloads; results that find no room stay references.

    Later results are the nearer dependencies, so they find room first; then the newest messages do.
    """
    run_id = assignment.run.spec.run_id
    room = limits.INLINE_RESULTS_BYTES_MAX
    results: list[DependencyResult] = []
    for one in reversed(assignment.results):
        payload = payloads.get(_place_of(run_id, one)) if one.by_reference else None
        if payload is not None and len(payload.data) <= room:
            room -= len(payload.data)
            results.append(replace(one, payload=payload, by_reference=False))
        else:
            results.append(one if payload is not None else replace(one, by_reference=False))
    results.reverse()
    whole = replace(assignment, results=tuple(results), run_input=payloads.get((run_id, INPUT_KEY)))
    if not messages:
        return whole
    room = min(limits.INLINE_MESSAGES_BYTES_MAX, ASSIGNMENT_BYTES_MAX - _size_of(whole))
    return replace(whole, previous_messages=conversations.fitting(messages, room))


def _size_of(assignment: Assignment) -> int:
    """Estimate the bytes of an assignment without its messages."""
    task = assignment.task
    inline = [assignment.run_input, assignment.previous_progress, assignment.answer]
    inline += [result.payload for result in assignment.results]
    inline += [task.input] if task is not None else []
    size = sum(len(payload.data) for payload in inline if payload is not None)
    texts = [assignment.run.spec.goal, task.prompt if task is not None else ""]
    if assignment.answered is not None:
        texts += [assignment.answered.prompt, assignment.answered.schema]
    for failure in (assignment.previous_failure, *(one.failure for one in assignment.results)):
        texts += [failure.message, failure.details] if failure is not None else []
    return size + sum(len(text.encode()) for text in texts)


def _dependencies(state: RunState, task: TaskSpec | None) -> Iterable[str]:
    """Return the tasks whose results a step gets: a task its dependencies', other steps all settled ones'."""
    if task is not None:
        return task.depends_on
    return (
        task_id
        for task_id in state.graph.specs
        if state.tasks[task_id].status in SETTLED
        and state.tasks[task_id].status is not TaskStatus.CANCELLED
    )


def _outline_of(state: RunState, task_id: str) -> DependencyResult:
    task = state.tasks[task_id]
    return DependencyResult(
        task_id=task_id,
        execution_id=task.result_id,
        by_reference=bool(task.result_id),
        failure=task.failure if task.failure != Failure() else None,
        skipped=task.status is TaskStatus.SKIPPED,
        run_id=task.result_run_id,
    )
