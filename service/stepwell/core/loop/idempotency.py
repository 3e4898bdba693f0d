"""Idempotency keys that a planner gave: what was done under one is not done again.

Within a run that is exact: of the tasks of a key one at a time is in flight (`Draft.take_runnable` passes
the others over), and once it is COMPLETED the others take its result. Across the runs of a tenant and
pipeline it is best effort: before such a task is offered, whoever commits looks for its key in the store
and says in `Context.known` what there is.
"""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.signals import KnownResult
from stepwell.core.port import KeyedResult, Timer
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Outcome
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind, TaskStatus

MORE_TIMER = "deduplicate"
"""Due at once: more tasks take a known result than one commit should hold."""


def take_known(draft: Draft, task_id: str) -> bool:
    """Settle a task that was about to be offered with what its key is known to have come to, if it is.

    What nobody has looked for yet is noted in `unknown_keys`.
    """
    key = draft.spec(task_id).idempotency_key
    if not key:
        return False
    for other in draft.graph.alike(task_id):
        done = draft.task(other)
        if done.status is TaskStatus.COMPLETED:
            run_id = done.result_run_id or draft.run.spec.run_id
            whose = done.deduplicated_from or f"{run_id}/{done.result_id}"
            _settle(draft, task_id, whose, result_id=done.result_id, run_id=done.result_run_id)
            return True
    if key not in draft.context.known:
        if len(draft.unknown_keys) < limits.DEDUPLICATED_PER_COMMIT_MAX:
            draft.unknown_keys[key] = None
        return False
    known = draft.context.known[key]
    if known is None:
        return False
    _take_over(draft, task_id, known)
    return True


def _take_over(draft: Draft, task_id: str, known: KnownResult) -> None:
    """Take another run's result. Its bytes are copied: that run may be deleted any time."""
    execution_id = _next_id(draft, task_id)
    if known.result is not None:
        draft.outcomes.append(Outcome(execution_id=execution_id, result=known.result))
    whose = f"{known.run_id}/{known.execution_id}"
    _settle(draft, task_id, whose, has_result=known.result is not None)
    note_completed(draft, task_id, execution_id)


def _settle(
    draft: Draft,
    task_id: str,
    whose: str,
    *,
    result_id: str = "",
    run_id: str = "",
    has_result: bool = False,
) -> None:
    execution_id = _next_id(draft, task_id)
    draft.event(
        EventType.TASK_DEDUPLICATED, task_id=task_id, execution_id=execution_id, message=whose
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
    left = {"has_result": True} if has_result else {}
    draft.change_execution(execution, ended_us=now_us, **left)
    elsewhere = {"result_run_id": run_id} if run_id else {}
    draft.change_task(
        task_id,
        status=TaskStatus.COMPLETED,
        attempts=task.attempts + 1,
        result_id=result_id or execution_id,
        deduplicated_from=whose,
        ended_us=now_us,
        **elsewhere,
    )


def _next_id(draft: Draft, task_id: str) -> str:
    return f"task:{task_id}#{draft.task(task_id).attempts + 1}"


def note_completed(draft: Draft, task_id: str, execution_id: str) -> None:
    """Have it found by other runs that a task with a key was completed by this execution."""
    key = draft.spec(task_id).idempotency_key
    if key:
        pipeline_id = draft.run.spec.pipeline_id
        draft.keyed.append(KeyedResult(pipeline_id=pipeline_id, key=key, execution_id=execution_id))


def ask_for_more(draft: Draft) -> None:
    """Go on with the next commit: this one has settled enough."""
    draft.timers[MORE_TIMER] = Timer(name=MORE_TIMER, delay_ms=0)


def is_more_asked(timers: Iterable[Timer]) -> bool:
    """Tell whether the next commit follows by itself, by the timers of this one."""
    return any(one.name == MORE_TIMER and one.delay_ms >= 0 for one in timers)
