"""Dispatch: offers the steps that can run now, and updates the run's status.

`settle` and `update_status` end every transition. They may be called on any state and change
nothing if there is nothing to do, so a resume needs no separate code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from stepwell.core.loop import budgets, child_tasks, gathering, idempotency, reconcile, signals
from stepwell.core.loop.changes import ExecutionFields, TaskFields
from stepwell.core.loop.closing import (
    BLOCKED_TIMER,
    drop_timer,
    drop_total_timer,
    pause_run,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.idempotency import TOTAL_TIMER, Turn
from stepwell.core.loop.journals import step_name
from stepwell.core.loop.leases import Turns
from stepwell.core.loop.phases import leave_finished_phase
from stepwell.core.loop.table import STEP_OF_PHASE
from stepwell.core.loop.waits import suspended, waits_of, wake_by_budget
from stepwell.core.port import Timer
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, TaskSpec
from stepwell.core.records.routing import pin_of
from stepwell.core.records.states import (
    NO_PERSON,
    BlockedKind,
    EventType,
    ExecutionStatus,
    PauseReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
    WaitKind,
)


def settle(draft: Draft) -> None:
    """Advance the phase as far as possible; offer the steps that can run, and lease as many as possible at once."""
    if draft.run.waits_for_thread:
        return
    if not draft.run.ended:
        if draft.suspended or draft.run.step_waits:
            wake_by_budget(draft)
        gathering.judge(draft)
        leave_finished_phase(draft)
    turns = Turns(draft) if draft.context.grants.workers else None
    if turns is not None:
        turns.lease_offered()
    while not draft.run.ended and draft.run.status is not RunStatus.PAUSED and _offer(draft, turns):
        gathering.judge(draft)
        leave_finished_phase(draft)


# --- offers -----------------------------------------------------------------------------------------

# A step that is offered becomes READY, or is leased at once to the free worker whose turn it is.


def offer_task(
    draft: Draft, task_id: str, *, delay_ms: int = 0, turns: Turns | None = None
) -> None:
    """Offer the next attempt at a task, to be leased after `delay_ms`, or at once if there are `turns`."""
    task, spec = draft.task(task_id), draft.spec(task_id)
    attempt = task.attempts + 1
    fields: TaskFields = {"status": TaskStatus.READY, "attempts": attempt}
    if not budgets.is_counted(task):
        budgets.count_task(draft)
        fields["allowance"] = draft.run.allowance
    if spec.total_timeout_ms and not task.started_us and not _waited_for_key(draft, task_id):
        name = TOTAL_TIMER + task_id
        draft.timers[name] = Timer(name=name, delay_ms=spec.total_timeout_ms + delay_ms)
    execution_id = f"task:{task_id}#{attempt}"
    if spec.child is not None:
        del fields["status"]
        draft.change_task(task_id, **fields)
        child_tasks.start(draft, task_id, spec.child, execution_id, delay_ms=delay_ms)
        return
    if not _add(draft, StepKind.TASK, execution_id, attempt, delay_ms, turns, spec, fields):
        draft.change_task(task_id, **fields)


def _waited_for_key(draft: Draft, task_id: str) -> bool:
    return task_id in draft.state.tasks and bool(draft.state.tasks[task_id].key_run_id)


def offer_step(draft: Draft, *, delay_ms: int = 0, turns: Turns | None = None) -> None:
    """Offer the next attempt at the phase's PLAN, REFLECT or SYNTHESIZE step."""
    run = draft.run
    kind = STEP_OF_PHASE[run.phase]
    attempt = run.step_attempt + 1
    execution_id = f"{step_name(run)}#{attempt}"
    _add(draft, kind, execution_id, attempt, delay_ms, turns)
    draft.change_run(step_attempt=attempt)


def offer_reconcile(
    draft: Draft, task_id: str, *, delay_ms: int = 0, turns: Turns | None = None
) -> None:
    """Offer a RECONCILE step for a task whose outcome is unknown, to be leased after `delay_ms`."""
    number = draft.task(task_id).reconciles + 1
    execution_id = f"reconcile:{task_id}#{number}"
    spec = draft.spec(task_id)
    _add(draft, StepKind.RECONCILE, execution_id, number, delay_ms, turns, spec)
    draft.change_task(task_id, reconciles=number)


def _add(
    draft: Draft,
    kind: StepKind,
    execution_id: str,
    attempt: int,
    delay_ms: int,
    turns: Turns | None,
    task: TaskSpec | None = None,
    task_fields: TaskFields | None = None,
) -> bool:
    """Create an execution; return whether it is leased at once, which also changes its task's `task_fields`."""
    spec = draft.run.spec
    fields: ExecutionFields = {
        "iteration": draft.run.iteration,
        "attempt": attempt,
        "queue": spec.queue,
        "pin": pin_of(spec.worker_version),
        "priority": spec.priority,
        "delay_ms": delay_ms,
        "offered_us": draft.context.now_us,
    }
    if task is not None:
        fields |= {"task_id": task.task_id, "type": task.type, "role": task.role}
    at_once = turns if not delay_ms else None
    if at_once is not None and at_once.lease_new(kind, execution_id, fields, task_fields or {}):
        return True
    draft.add_execution(execution_id, kind, **fields)
    return False


def _offer(draft: Draft, turns: Turns | None) -> bool:
    """Offer the steps that fit; return whether tasks were settled by their keys instead."""
    run = draft.run
    begins = run.version == 0 or draft.state.run.waits_for_thread
    delay_ms = run.spec.start_delay_ms if begins else 0
    is_open = list(draft.open_executions())
    running = _running(is_open)
    if used_up := budgets.used_up(run):
        if _has_more(draft, is_open, running):
            _run_out(draft, used_up)
    elif signals.steers(run):
        return False
    elif run.phase is Phase.EXECUTING:
        if len(running) < len(is_open):
            running = _offer_reconciles(draft, running, turns)
        return _offer_tasks(draft, running, delay_ms, turns)
    elif _wants_step(draft, is_open, running):
        offer_step(draft, delay_ms=delay_ms, turns=turns)
    return False


def _running(executions: Iterable[Execution]) -> list[Execution]:
    """Return the executions that take a place, which all do except those with an unknown outcome."""
    unknown = ExecutionStatus.UNKNOWN_OUTCOME
    return [one for one in executions if one.status is not unknown]


def _wants_step(draft: Draft, is_open: Sequence[Execution], running: Sequence[Execution]) -> bool:
    """Return whether the phase's step is neither open nor suspended, and fits."""
    # After an answer that asks for a plan, tasks may still be leased while the PLAN step runs.
    kind = STEP_OF_PHASE[draft.run.phase]
    has_place = len(running) < draft.run.spec.max_parallel
    waits = bool(draft.run.step_waits)
    return has_place and not waits and all(one.kind is not kind for one in is_open)


def _has_more(draft: Draft, is_open: Sequence[Execution], running: Sequence[Execution]) -> bool:
    """Return whether a step waits for a worker, or could be offered now."""
    if any(execution.status is ExecutionStatus.READY for execution in running):
        return True
    if draft.run.phase is not Phase.EXECUTING:
        return _wants_step(draft, is_open, running)
    if len(running) >= draft.run.spec.max_parallel:
        return False
    return any(reconcile.wanted(draft)) or (draft.pop_runnable() is not None)


def _offer_reconciles(
    draft: Draft, running: Sequence[Execution], turns: Turns | None
) -> Sequence[Execution]:
    """Offer RECONCILE steps while there are places; return the executions that then take a place."""
    places = draft.run.spec.max_parallel - len(running)
    for task_id in list(islice(reconcile.wanted(draft), max(0, places))):
        offer_reconcile(draft, task_id, turns=turns)
    return _running(draft.open_executions())


def _offer_tasks(
    draft: Draft, running: Sequence[Execution], delay_ms: int, turns: Turns | None
) -> bool:
    """Fill the free places with tasks; pause the run if only tasks beyond its task budget remain.

    A task that reuses a result by its key, waits for its key, or is a child run, takes no place. Returns
    whether any task reused a result or started a child.
    """
    places = draft.run.spec.max_parallel - len(running)
    idle, one_too_many, known = not running, False, 0
    while places > 0 and (task_id := draft.pop_runnable()) is not None:
        turn = idempotency.turn_of(draft, task_id)
        if turn is Turn.RUN:
            if not budgets.allows_task(draft.run, draft.task(task_id)):
                one_too_many = True
                continue
            offer_task(draft, task_id, delay_ms=delay_ms, turns=turns)
            idle = False
            if draft.spec(task_id).child is None:
                places -= 1
            elif draft.run.ended:
                return False
            else:
                known += 1
        elif turn is Turn.ASK:
            places -= 1
        elif turn is Turn.WAIT:
            idle = False
        else:
            drop_total_timer(draft, task_id)
            known += 1
        if known == limits.DEDUPLICATED_PER_COMMIT_MAX:
            idempotency.continue_in_next_commit(draft)
            return False
    idle = idle and not draft.suspended
    if (
        one_too_many
        and idle
        and not any(draft.open_executions())
        and not any(draft.open_questions())
    ):
        _run_out(draft, budgets.no_more_tasks(draft.run))
    return known > 0


def _run_out(draft: Draft, used_up: tuple[budgets.UsedUp, ...]) -> None:
    message = budgets.describe(used_up)
    draft.event(EventType.RUN_PAUSED, message=message)
    pause_run(draft, PauseReason.BUDGET_EXHAUSTED, message)


# --- the run's status -------------------------------------------------------------------------------


def update_status(draft: Draft) -> None:
    """Update the run's `status` and `blocked_on` from its open executions, unless it has ended."""
    if draft.run.ended:
        return
    leased = False
    delay_ms: int | None = None
    for execution in draft.open_executions():
        if execution.status is ExecutionStatus.LEASED:
            leased = True
            break  # Whatever else is open, the run continues and is blocked on nothing.
        if execution.status is ExecutionStatus.READY:
            known = draft.is_new(execution) or draft.run.blocked_on is not BlockedKind.WORKER
            delay = execution.delay_ms if known else 0
            delay_ms = delay if delay_ms is None else min(delay, delay_ms)
    run = draft.run
    if leased and run.status is RunStatus.RUNNING and run.blocked_on is BlockedKind.NONE:
        return  # Most transitions end like this, with both fields already correct.
    if run.status is not RunStatus.PAUSED:
        started = RunStatus.RUNNING if run.started_us else RunStatus.QUEUED
        going = leased or delay_ms is not None or idempotency.continues(draft.timers.values())
        # Before its first lease a run can wait only for a key, and still counts as QUEUED.
        status = started if going or not run.started_us else RunStatus.WAITING
        if status is not run.status:
            draft.change_run(status=status)
    _put_blocked(draft, _blocked_on(draft, leased=leased, delay_ms=delay_ms), delay_ms or 0)


def _blocked_on(draft: Draft, *, leased: bool, delay_ms: int | None) -> BlockedKind:
    run = draft.run
    if run.status is RunStatus.PAUSED:
        exhausted = run.pause_reason is PauseReason.BUDGET_EXHAUSTED
        return BlockedKind.BUDGET if exhausted else BlockedKind.PAUSED
    if run.waits_for_thread:
        return BlockedKind.THREAD
    if leased or idempotency.continues(draft.timers.values()):
        return BlockedKind.NONE
    if delay_ms is not None:
        waited_for = draft.timers.get(BLOCKED_TIMER)
        is_over = waited_for is not None and waited_for.delay_ms < 0
        return BlockedKind.WORKER if delay_ms == 0 or is_over else BlockedKind.TIMER
    if any(one.kind not in NO_PERSON for one in draft.open_questions(children=False)):
        return BlockedKind.QUESTION
    if any(True for _ in draft.open_executions()):
        return BlockedKind.UNKNOWN_OUTCOME
    waits = {one.kind for task_id in suspended(draft) for one in waits_of(draft, task_id)}
    for wait, kind in _BLOCKED_BY:
        if wait in waits:
            return kind
    return BlockedKind.KEY


_BLOCKED_BY = (
    (WaitKind.BUDGET, BlockedKind.BUDGET),
    (WaitKind.SLEEP, BlockedKind.TIMER),
    (WaitKind.SIGNAL, BlockedKind.SIGNAL),
    (WaitKind.CHILD, BlockedKind.CHILD),
    (WaitKind.QUESTION, BlockedKind.TIMER),
)
"""The things that a run waits for if its suspended steps have such a wait, the first that fits; a person's question comes before."""


def _put_blocked(draft: Draft, kind: BlockedKind, delay_ms: int) -> None:
    before = draft.run.blocked_on
    run_id = ""
    if kind is BlockedKind.KEY:
        run_id = next((draft.task(one).key_run_id for one in idempotency.waiting(draft)), "")
    if run_id != draft.run.blocked_run_id:
        draft.change_run(blocked_run_id=run_id)
    if kind is before:
        return
    draft.change_run(blocked_on=kind, blocked_since_us=draft.context.now_us)
    if kind is BlockedKind.TIMER and delay_ms:
        draft.timers[BLOCKED_TIMER] = Timer(name=BLOCKED_TIMER, delay_ms=delay_ms)
    elif before is BlockedKind.TIMER:
        drop_timer(draft, BLOCKED_TIMER)
