"""What a worker is handed with a lease: the step, and the results that it builds on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from stepwell.core import limits
from stepwell.core.model import Failure, Payload, TaskSpec
from stepwell.core.ports import INPUT_KEY, Assignment, DependencyResult, Lease
from stepwell.core.state import RunState
from stepwell.core.states import SETTLED, StepKind, TaskStatus


def outline(state: RunState, lease: Lease) -> Assignment:
    """Return the assignment without its bytes, from a state in which the lease is taken."""
    execution = state.open[lease.execution_id].execution
    spec = state.run.spec
    task = state.graph.specs[execution.task_id] if execution.kind is StepKind.TASK else None
    key = f"{spec.run_id}/{execution.task_id or execution.kind.lower()}"
    return Assignment(
        run=state.run,
        execution=execution,
        token=lease.token,
        task=task,
        results=tuple(_outline_of(state, task_id) for task_id in _built_on(state, task)),
        lease_ms=lease.lease_ms,
        limit_ms=lease.limit_ms,
        idempotency_key=(task.idempotency_key if task else "") or key,
    )


def keys_of(assignment: Assignment) -> list[str]:
    """Return the keys of the bytes that it lacks."""
    return [*(one.execution_id for one in assignment.results if one.by_reference), INPUT_KEY]


def fill(assignment: Assignment, found: Mapping[str, Payload]) -> Assignment:
    """Return the assignment with its bytes; results that find no room stay references.

    Later results are the nearer ones, so they find room first.
    """
    room = limits.INLINE_RESULTS_BYTES_MAX
    results: list[DependencyResult] = []
    for one in reversed(assignment.results):
        payload = found.get(one.execution_id) if one.by_reference else None
        if payload is not None and len(payload.data) <= room:
            room -= len(payload.data)
            results.append(replace(one, payload=payload, by_reference=False))
        else:
            results.append(one if payload is not None else replace(one, by_reference=False))
    results.reverse()
    return replace(assignment, results=tuple(results), run_input=found.get(INPUT_KEY))


def _built_on(state: RunState, task: TaskSpec | None) -> Iterable[str]:
    """A task builds on its dependencies; every other step on all that was settled so far."""
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
    )
