"""Idempotency keys: the one that every step has, and those that a planner set.

A step's key is for the systems that its function calls. It is the same in all its attempts and differs from
that of every other step, so that none of them is answered with another step's result.

A task that completed under a key that a planner set is not run again. Within a run this is exact: only one task of a key is in flight at a time (`Draft.pop_runnable` passes over
the others), and once it is COMPLETED the others take its result. Across the runs of a tenant and
pipeline it is best effort: before such a task is offered, the engine searches the store for its key and
passes the result in `Context.known`.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.core.loop.changes import ExecutionFields, TaskFields
from stepwell.core.loop.context import KnownResult
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.state import RunState
from stepwell.core.port import KeyedResult, Timer
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Outcome
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind, TaskStatus

MORE_TIMER = "deduplicate"
"""Due at once: more tasks take a known result than one commit should hold."""


def key_of(state: RunState, execution: Execution) -> str:
    """Return the idempotency key of an execution's step: the planner's, or one that names the step.

    It names the run and, of a task, the id and the plan revision that defined it; of PLAN, the revision that
    it follows; of REFLECT and SYNTHESIZE, the iteration. A RECONCILE step has the key of its task.
    """
    run, task_id = state.run, execution.task_id
    if task_id:
        revision = state.tasks[task_id].revision
        return state.graph.specs[task_id].key_in(run.spec.run_id, revision)
    number = run.plan_revision if execution.kind is StepKind.PLAN else execution.iteration
    return f"{run.spec.run_id}/{execution.kind.lower()}@{number}"


def apply_known(draft: Draft, task_id: str) -> bool:
    """Settle a task with the known result of its key; return whether there is one.

    A key that was not searched for yet is added to `unknown_keys`.
    """
    key = draft.spec(task_id).idempotency_key
    if not key:
        return False
    for other in draft.graph.same_key(task_id):
        done = draft.task(other)
        if done.status is TaskStatus.COMPLETED:
            run_id = done.result_run_id or draft.run.spec.run_id
            source = done.deduplicated_from or f"{run_id}/{done.result_id}"
            _settle(draft, task_id, source, result_id=done.result_id, run_id=done.result_run_id)
            return True
    if key not in draft.context.known:
        if len(draft.unknown_keys) < limits.DEDUPLICATED_PER_COMMIT_MAX:
            draft.unknown_keys[key] = None
        return False
    known = draft.context.known[key]
    if known is None:
        return False
    _copy_result(draft, task_id, known)
    return True


def _copy_result(draft: Draft, task_id: str, known: KnownResult) -> None:
    """Settle a task with another run's result. Its bytes are copied: that run may be deleted."""
    execution_id = _next_id(draft, task_id)
    if known.result is not None:
        draft.put_outcome(Outcome(execution_id=execution_id, result=known.result))
    source = f"{known.run_id}/{known.execution_id}"
    _settle(draft, task_id, source, has_result=known.result is not None)
    publish_result(draft, task_id, execution_id)


def _settle(
    draft: Draft,
    task_id: str,
    source: str,
    *,
    result_id: str = "",
    run_id: str = "",
    has_result: bool = False,
) -> None:
    execution_id = _next_id(draft, task_id)
    draft.event(
        EventType.TASK_DEDUPLICATED, task_id=task_id, execution_id=execution_id, message=source
    )
    run, task, now_us = draft.run, draft.task(task_id), draft.context.now_us
    execution = Execution(
        execution_id=execution_id,
        kind=StepKind.TASK,
        task_id=task_id,
        iteration=run.iteration,
        attempt=task.attempts + 1,
        queue=run.spec.queue,
        role=draft.spec(task_id).role,
        priority=run.spec.priority,
        status=ExecutionStatus.COMPLETED,
        offered_us=now_us,
    )
    draft.add_execution(execution)
    ended: ExecutionFields = {"ended_us": now_us}
    if has_result:
        ended["has_result"] = True
    draft.change_execution(execution, **ended)
    fields: TaskFields = {
        "status": TaskStatus.COMPLETED,
        "attempts": task.attempts + 1,
        "result_id": result_id or execution_id,
        "deduplicated_from": source,
        "ended_us": now_us,
    }
    if run_id:
        fields["result_run_id"] = run_id
    draft.change_task(task_id, **fields)


def _next_id(draft: Draft, task_id: str) -> str:
    return f"task:{task_id}#{draft.task(task_id).attempts + 1}"


def publish_result(draft: Draft, task_id: str, execution_id: str) -> None:
    """Let other runs find the result of a task with a key that this execution completed."""
    key = draft.spec(task_id).idempotency_key
    if key:
        pipeline_id = draft.run.spec.pipeline_id
        draft.keyed.append(KeyedResult(pipeline_id=pipeline_id, key=key, execution_id=execution_id))


def continue_in_next_commit(draft: Draft) -> None:
    """Have the next commit follow by itself: this one has settled enough tasks."""
    draft.timers[MORE_TIMER] = Timer(name=MORE_TIMER, delay_ms=0)


def continues(timers: Iterable[Timer]) -> bool:
    """Return whether the next commit follows by itself, by the timers of this one."""
    return any(one.name == MORE_TIMER and one.delay_ms >= 0 for one in timers)
