"""The canonical end of a run: all that a caller can see but times, ids and numbers of attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from stepwell.core.port import ExecutionQuery, QuestionQuery, Store, TaskQuery
from stepwell.core.records.model import Budget, Execution, Plan, Task
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind, TaskStatus
from stepwell_testkit.conformance.ask import data_of
from tests.simulation.simulator.reading import events_of, every

RunKey = tuple[str, str]
FLEETING = (
    *("EXECUTION_", "LEASE_", "OUTCOME_", "TASK_RETRY_", "STEP_RETRY_"),
    *("PLAN_REJECTED", "RUN_BLOCKED", "STEP_SUSPENDED", "STEP_WOKEN", "LETTERS_", "WAIT_OPENED"),
)
"""Events that a crash may add or take away, and no others: leases, losses, retries, waits meanwhile, and deliveries."""
_FAILED = frozenset({ExecutionStatus.FAILED, ExecutionStatus.TIMED_OUT})


class Canonical(NamedTuple):
    """The end of one run."""

    run: tuple[object, ...]
    tasks: dict[str, tuple[object, ...]]
    plans: tuple[str, ...]
    answer: bytes | None
    questions: tuple[tuple[object, ...], ...]
    """The asked person, the end and the answer of each task's question."""
    events: Counter[EventType]
    """The count of each type that is not `FLEETING`."""


async def canonical(store: Store, key: RunKey) -> Canonical:
    """Read a run's final state; on the way, that no step was accepted twice or tried too often."""
    run = await store.get_run(*key)
    assert run is not None
    rows = await every(store, TaskQuery(tenant_id=key[0], run_id=key[1]))
    executions = await every(store, ExecutionQuery(tenant_id=key[0], run_id=key[1]))
    plans = [await store.read_plan(*key, number + 1) for number in range(run.plan_revision)]
    there = [plan for plan in plans if plan is not None]
    assert len(there) == len(plans), "S3: a plan is gone"
    _accepted_once(rows, executions)
    _within_attempts(there, executions)
    facts = (run.status, run.phase, run.iteration, run.finish_reason, run.counts, run.failure.kind)
    # What is used up without a limit may differ: an attempt that failed has used something, too.
    used = (run.budget, run.usage, run.tally.tasks) if run.budget != Budget() else ()
    tasks: dict[str, tuple[object, ...]] = {}
    for task in rows:
        data = await _bytes(store, (key[0], task.result_run_id or key[1]), task.result_id)
        tasks[task.task_id] = (task.status, task.revision, task.failure.kind, data)
    questions = await every(store, QuestionQuery(tenant_id=key[0], run_id=key[1]))
    asked = [(one.question.task_id, one.question.status, one.question.answer) for one in questions]
    events = await events_of(store, *key)
    assert [event.number for event in events] == list(range(1, run.last_event + 1)), "E1"
    return Canonical(
        (*facts, *used),
        tasks,
        tuple(f"{plan.trigger} {plan.iteration} {plan.fingerprint}" for plan in there),
        await _bytes(store, key, run.result_id),
        tuple(sorted(((*who, answer and answer.data) for *who, answer in asked), key=str)),
        Counter(event.type for event in events if not event.type.startswith(FLEETING)),
    )


def _accepted_once(rows: Sequence[Task], executions: Sequence[Execution]) -> None:
    accepted: dict[str, list[str]] = {}
    for one in executions:
        if one.kind is StepKind.TASK and one.status is ExecutionStatus.COMPLETED:
            accepted.setdefault(one.task_id, []).append(one.execution_id)
    for task in rows:
        own = task.status is TaskStatus.COMPLETED and not task.result_run_id
        names = accepted.get(task.task_id, [])
        assert names == ([task.result_id] if own else []), f"S18: {task.task_id}: {names}"


def _within_attempts(plans: Sequence[Plan], executions: Sequence[Execution]) -> None:
    """S12, S13: no task failed, or was lost, more often than its plan allows."""
    retries = {spec.task_id: spec.retry for plan in plans for spec in plan.tasks}
    ends = Counter((one.task_id, one.status) for one in executions if one.kind is StepKind.TASK)
    for task_id, retry in retries.items():
        failed = sum(ends[task_id, status] for status in _FAILED)
        assert failed <= retry.max_attempts, f"S12: {task_id}: {failed} failed"
        lost = ends[task_id, ExecutionStatus.LOST]
        assert lost <= retry.max_losses + 1, f"S12: {task_id}: {lost} lost"


async def _bytes(store: Store, key: RunKey, name: str) -> bytes | None:
    payloads = await store.read_payloads(*key, [name]) if name else []
    return data_of(payloads[0]) if payloads else None
