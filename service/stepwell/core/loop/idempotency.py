"""Idempotency keys: the one that every step has, and those that a planner set.

A step's key is for the systems that its function calls. It is the same in all its attempts and differs from
that of every other step, so that none of them is answered with another step's result.

Of the tasks of a tenant and pipeline with the same planner's key only one is under way at a time, and once
one is COMPLETED the others take its result. Within a run `Draft.pop_runnable` passes over the others.
Across runs the store has one reservation for each key:

1. Before a task is offered, the store is asked who has its key (`turn_of`). Another run: the task waits.
2. Before its first lease, the run reserves the key; the commit of the lease sets `Task.held_key`.
3. The task holds the key until it is settled, and as long as it is COMPLETED.

A reservation names the run's commit on which it was decided. So whoever finds one reads that run: a task
holds the key; or that commit is still the last one, and the lease may come with the next; or the
reservation came to nothing, and is replaced (`engine/keys.py`).
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
"""Due when the store is asked anew for the keys that tasks wait for, if nobody says before that one is free."""
KEY_FREED = "key freed"
"""Named like a timer and never set: a run that has had a key, for which tasks wait here, has it no more."""
LOOK_AGAIN_MS = 30_000
ASK_AGAIN_MS = 2_000
"""After the store could not be asked."""
TOTAL_TIMER = "total:"
"""Prefix of a task's total time-out; the task's id follows."""


def key_of(state: RunState, execution: Execution) -> str:
    """Return the idempotency key of an execution's step: the planner's, or one that names the step.

    It names the run and, of a task, the id and the plan revision that defined it; of PLAN, the revision that
    it follows; of REFLECT and SYNTHESIZE, the iteration. A RECONCILE step has the key of its task.
    """
    run, task_id = state.run, execution.task_id
    if task_id:
        revision = state.tasks[task_id].revision
        return state.graph.specs[task_id].key_in(run.spec.run_id, revision)
    step = journal_of(execution.kind, "", run.plan_revision, execution.iteration)
    return f"{run.spec.run_id}/{step}"


class Turn(Enum):
    """The way of a task that nothing in its run holds up."""

    RUN = auto()
    """It may be offered."""
    SETTLED = auto()
    """It has taken the result of another task of its key."""
    ASK = auto()
    """The store must be asked for its key first, here or in the next commit; it may take a place then."""
    WAIT = auto()
    """It may not be offered in this commit."""


def turn_of(draft: Draft, task_id: str) -> Turn:
    """Decide on a task by its key; settle it where another of its key has COMPLETED.

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

    A reservation that came to nothing is known by the run's next commit. A run that isn't there yet, or has
    ended, may never have one.
    """
    return draft.state.run.version > 0 and not draft.state.run.ended


def reserved(draft: Draft, task_id: str) -> KeyFound | None:
    """Return who has the key under which a task is to be leased; None: the task may be leased.

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
    """Let a PENDING task wait for its key, which this other run has. Its total time-out runs meanwhile."""
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
    """Yield the tasks that wait for a key which another run has."""
    for task_ids in draft.graph.keys.values():
        yield from (one for one in task_ids if draft.task(one).key_run_id)


def ask_again(draft: Draft) -> None:
    """Have the store asked anew for the keys that tasks wait for, within the current event."""
    for task_id in tuple(waiting(draft)):
        draft.change_task(task_id, key_run_id="")


def give_up(draft: Draft) -> None:
    """Give up keys and waits within the event that ends the run.

    A task whose outcome is unknown keeps its key: it may have taken effect, and a resume takes it up again.
    """
    ask_again(draft)
    for task_ids in draft.graph.keys.values():
        for task_id in task_ids:
            task = draft.task(task_id)
            if task.held_key and task.status is TaskStatus.PENDING:
                draft.change_task(task_id, held_key="")


def _copy_result(draft: Draft, task_id: str, found: KeyFound) -> None:
    """Settle a task with another run's result. Its bytes are copied: that run may be deleted."""
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
    """Have the next commit follow by itself: this one could not decide on all tasks with keys."""
    draft.timers[MORE_TIMER] = Timer(name=MORE_TIMER, delay_ms=0)


def continues(timers: Iterable[Timer]) -> bool:
    """Return whether the next commit follows by itself, by the timers of this one."""
    return any(one.name == MORE_TIMER and one.delay_ms >= 0 for one in timers)
