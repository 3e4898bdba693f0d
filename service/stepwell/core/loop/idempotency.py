"""Idempotency keys: the key that every step has, and keys that a planner set.

A step's key is for the systems that its function calls. It is the same in all its attempts and
differs from every other step's key, so that no system returns another step's result. Of a tenant's
and pipeline's tasks with the same planner's key only one runs at a time, and once one is COMPLETED
the others reuse its result. Within a run `Draft.pop_runnable` passes over the others. Across runs
the store has one reservation for each key:

1. Before a task is offered, the store is asked who has its key (`turn_of`). If another run has it,
   the task waits.
2. Before its first lease, the run reserves the key; the commit of the lease sets `Task.held_key`.
3. The task holds the key until it is settled, and as long as it is COMPLETED.

A reservation names the run's commit on which it was decided. Another run that finds a reservation
reads the named run: a task there holds the key; or that commit is still its last, so the lease may
come with the next; or the reservation is void, and is replaced (`engine/keys.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto

from stepwell.core.loop.changes import TaskFields
from stepwell.core.loop.context import KeyFound, KeyState
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.state import RunState
from stepwell.core.port import Timer
from stepwell.core.records.model import Execution, Outcome
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind, TaskStatus
from stepwell.core.records.step_journal import journal_of

MORE_TIMER = "deduplicate"
"""Due at once: this commit could not decide on all tasks with keys."""
KEY_TIMER = "key"
"""Due when the store is asked again for the keys that tasks wait for, unless one is reported free before."""
KEY_FREED = "key freed"
"""Named like a timer and never set: a run that had a key, for which tasks wait here, no longer has it."""
LOOK_AGAIN_MS = 30_000
ASK_AGAIN_MS = 2_000
"""The pause after the store could not be asked."""
TOTAL_TIMER = "total:"
"""Prefix of a task's total time-out; the task's id follows."""


def key_of(state: RunState, execution: Execution) -> str:
    """Return the idempotency key of an execution's step: the planner's, or a key that names the step.

    The latter names the run and, for a task, its id and the plan revision that defined it; for
    PLAN, the revision before it; for REFLECT and SYNTHESIZE, the iteration, and which reflection of it. A RECONCILE step has
    its task's key.
    """
    run, task_id = state.run, execution.task_id
    if task_id:
        revision = state.tasks[task_id].revision
        return state.graph.specs[task_id].key_in(run.spec.run_id, revision)
    kind, again = execution.kind, run.signals.reflections
    step = journal_of(kind, "", run.plan_revision, execution.iteration, again)
    return f"{run.spec.run_id}/{step}"


class Turn(Enum):
    """The next move of a task that nothing in its run holds up."""

    RUN = auto()
    """The task may be offered."""
    SETTLED = auto()
    """The task has reused the result of another task with its key."""
    ASK = auto()
    """The store must be asked for the key first, here or in the next commit; the task may then take a place."""
    WAIT = auto()
    """The task may not be offered in this commit."""


def turn_of(draft: Draft, task_id: str) -> Turn:
    """Decide on a task by its key; settle it if another task with the key has COMPLETED.

    A key that the store must be asked for is added to `asked_keys`.
    """
    key = draft.spec(task_id).idempotency_key
    if not key:
        return Turn.RUN
    task = draft.task(task_id)
    if task.held_key:
        return Turn.RUN
    for other in draft.graph.same_key(task_id):
        done = draft.task(other)
        if done.status is TaskStatus.COMPLETED:
            run_id = done.result_run_id or draft.run.spec.run_id
            source = done.deduplicated_from or f"{run_id}/{done.result_id}"
            _settle(draft, task_id, source, result_id=done.result_id, run_id=done.result_run_id)
            return Turn.SETTLED
    if task.key_run_id:
        return Turn.WAIT
    if not may_reserve(draft) and not draft.run.spec.start_delay_ms:
        continue_in_next_commit(draft)
        return Turn.ASK
    found = draft.context.keys.get(key)
    if found is None:
        free = sum(worker.credits for worker in draft.context.grants.workers)
        reserve = sum(draft.asked_keys.values()) < free
        draft.asked_keys[key] = reserve and may_reserve(draft)
        continue_in_next_commit(draft)
        return Turn.ASK
    return _turn_by(draft, task_id, found)


def _turn_by(draft: Draft, task_id: str, found: KeyFound) -> Turn:
    match found.state:
        case KeyState.FREE | KeyState.OURS:
            return Turn.RUN
        case KeyState.DONE:
            _copy_result(draft, task_id, found)
            return Turn.SETTLED
        case KeyState.TAKEN:
            wait(draft, task_id, found.run_id)
        case KeyState.UNKNOWN:
            draft.timers[KEY_TIMER] = Timer(name=KEY_TIMER, delay_ms=ASK_AGAIN_MS)
    return Turn.WAIT


def may_reserve(draft: Draft) -> bool:
    """Return whether this decision's commit may lease a task under a key that it has reserved.

    The run's next commit shows that a reservation is void. A run that doesn't exist yet, or has
    ended, may never make another commit.
    """
    return draft.state.run.version > 0 and not draft.state.run.ended


def reserved(draft: Draft, task_id: str) -> KeyFound | None:
    """Return who has the key of a task that is about to be leased, or None if it may be leased.

    A key that isn't reserved yet is added to `asked_keys`.
    """
    key = draft.spec(task_id).idempotency_key
    if not key or draft.task(task_id).held_key:
        return None
    found = draft.context.keys.get(key, KeyFound(state=KeyState.FREE))
    if found.state is KeyState.FREE and may_reserve(draft):
        draft.asked_keys[key] = True
    return None if found.state is KeyState.OURS else found


def wait(draft: Draft, task_id: str, run_id: str) -> None:
    """Make a PENDING task wait for its key, which this other run has. Its total time-out continues."""
    spec, before = draft.spec(task_id), draft.state.tasks.get(task_id)
    draft.change_task(task_id, key_run_id=run_id)
    draft.timers[KEY_TIMER] = Timer(name=KEY_TIMER, delay_ms=LOOK_AGAIN_MS)
    runs_already = before is not None and (
        before.started_us or before.key_run_id or before.status is TaskStatus.READY
    )
    if spec.total_timeout_ms and not runs_already:
        name = TOTAL_TIMER + task_id
        draft.timers[name] = Timer(name=name, delay_ms=spec.total_timeout_ms)


def waiting(draft: Draft) -> Iterator[str]:
    """Yield the tasks that wait for a key of another run."""
    for task_ids in draft.graph.keys.values():
        yield from (one for one in task_ids if draft.task(one).key_run_id)


def ask_again(draft: Draft) -> None:
    """Have the store asked again for the keys that tasks wait for, within the current event."""
    for task_id in tuple(waiting(draft)):
        draft.change_task(task_id, key_run_id="")


def give_up(draft: Draft) -> None:
    """Release keys and end waits within the event that ends the run.

    A task whose outcome is unknown keeps its key, because it may have taken effect and a resume
    continues it.
    """
    ask_again(draft)
    for task_ids in draft.graph.keys.values():
        for task_id in task_ids:
            task = draft.task(task_id)
            if task.held_key and task.status is TaskStatus.PENDING:
                draft.change_task(task_id, held_key="")


def _copy_result(draft: Draft, task_id: str, found: KeyFound) -> None:
    """Settle a task with another run's result. The bytes are copied, because that run may be deleted."""
    execution_id = _next_id(draft, task_id)
    if found.result is not None:
        draft.put_outcome(Outcome(execution_id=execution_id, result=found.result))
    source = f"{found.run_id}/{found.execution_id}"
    _settle(draft, task_id, source, has_result=found.result is not None)


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
    draft.add_execution(
        execution_id,
        StepKind.TASK,
        task_id=task_id,
        iteration=run.iteration,
        attempt=task.attempts + 1,
        queue=run.spec.queue,
        role=draft.spec(task_id).role,
        priority=run.spec.priority,
        status=ExecutionStatus.COMPLETED,
        has_result=has_result,
        offered_us=now_us,
        ended_us=now_us,
    )
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


def continue_in_next_commit(draft: Draft) -> None:
    """Make another commit follow at once, because this one could not decide on all tasks with keys."""
    draft.timers[MORE_TIMER] = Timer(name=MORE_TIMER, delay_ms=0)


def continues(timers: Iterable[Timer]) -> bool:
    """Return whether another commit follows at once, by the timers of this one."""
    return any(one.name == MORE_TIMER and one.delay_ms >= 0 for one in timers)
