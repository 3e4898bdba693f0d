"""What follows by itself once the inputs are taken: phases move on, steps are offered.

`settle` is the end of every transition. It may be called on any state and does nothing where there is
nothing to do; that is why a resume needs no code of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from stepwell.core.loop import budgets, idempotency, reconcile
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.signals import Revoked
from stepwell.core.loop.table import STEP_OF_PHASE, Trigger, next_phase
from stepwell.core.port import Timer
from stepwell.core.records import limits
from stepwell.core.records.model import Execution, Failure, Previous
from stepwell.core.records.states import (
    OPEN,
    SETTLED,
    BlockedKind,
    EventType,
    ExecutionStatus,
    FinishReason,
    InputStatus,
    PauseReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)

BLOCKED_TIMER = "blocked"
"""Runs out when the first of the delayed steps may go, so that the run stops saying TIMER."""
TOTAL_TIMER = "total:"
"""Followed by a task's id: its total time-out."""
INPUT_TIMER = "input:"
"""Followed by an input request's id: its expiry."""


def settle(draft: Draft) -> None:
    """Move the phase on while it can move, offer what can be offered, and say what is waited for."""
    if not draft.run.ended:
        _move_on(draft)
    while not draft.run.ended and draft.run.status is not RunStatus.PAUSED and _offer(draft):
        _move_on(draft)
    if not draft.run.ended:
        say_status(draft)


def enter(draft: Draft, trigger: Trigger, **fields: object) -> None:
    """Take the phase move that `trigger` makes, with a fresh allowance for the next stage's step."""
    phase = next_phase(draft.run.phase, trigger)
    if draft.run.previous != Previous():
        fields["previous"] = Previous()
    draft.change_run(phase=phase, step_attempt=0, step_spent=0, **fields)


def finish_iteration(draft: Draft, trigger: Trigger, reason: FinishReason) -> None:
    """Leave the last iteration: on to SYNTHESIZE, or to the end where there is no such stage."""
    draft.event(EventType.ITERATION_COMPLETED)
    enter(draft, trigger, finish_reason=reason)
    if StepKind.SYNTHESIZE not in draft.run.stages:
        succeed(draft)


def succeed(draft: Draft, result_id: str = "") -> None:
    """End the run well."""
    draft.event(EventType.RUN_SUCCEEDED, execution_id=result_id)
    enter(draft, Trigger.SYNTHESIZED)
    end(draft, RunStatus.SUCCEEDED, result_id=result_id)


def fail_run(draft: Draft, failure: Failure) -> None:
    """End the run badly. What is in flight is revoked; a resume runs it again."""
    draft.event(EventType.RUN_FAILED, message=failure.message)
    close_open(draft, ExecutionStatus.CANCELLED, TaskStatus.PENDING, "the run failed")
    end(draft, RunStatus.FAILED, failure=failure)


def end(draft: Draft, status: RunStatus, **fields: object) -> None:
    """Bring the run to an end: no timer of it is left, and it waits for nothing."""
    fields |= {"status": status, "ended_us": draft.context.now_us, "pause_reason": PauseReason.NONE}
    if draft.run.blocked_on is not BlockedKind.NONE:
        fields |= {"blocked_on": BlockedKind.NONE, "blocked_since_us": draft.context.now_us}
        drop_timer(draft, BLOCKED_TIMER)
    if draft.graph.keys:
        drop_timer(draft, idempotency.MORE_TIMER)
    draft.change_run(**fields)
    budgets.disarm_wall(draft)
    for task_id, spec in draft.graph.specs.items():
        task = draft.task(task_id)
        if spec.total_timeout_ms and task.attempts:
            drop_timer(draft, TOTAL_TIMER + task_id)
            if task.status not in SETTLED and task.started_us:
                draft.change_task(task_id, started_us=0)


def close_open(draft: Draft, status: ExecutionStatus, task_status: TaskStatus, reason: str) -> None:
    """Close every open execution and input request; their tasks go to `task_status`."""
    settled = {"ended_us": draft.context.now_us} if task_status in SETTLED else {}
    for execution in tuple(draft.open_executions()):
        if execution.begun and task_status is TaskStatus.PENDING:
            # It may have taken effect, so it must not be run again when the run goes on.
            make_unknown(draft, execution)
            revoke(draft, execution, reason)
            continue
        close(draft, execution, status, reason=reason)
        if execution.kind is StepKind.TASK:
            draft.change_task(execution.task_id, status=task_status, **settled)
    for request in tuple(draft.open_inputs()):
        withdraw_inputs(draft, request.task_id)
        if draft.task(request.task_id).status is TaskStatus.BLOCKED:
            draft.change_task(request.task_id, status=task_status, input_id="", **settled)


def withdraw_inputs(draft: Draft, task_id: str) -> bool:
    """Cancel what a task still asks; tell whether it asked anything."""
    request = draft.open_input(draft.task(task_id).input_id)
    if request is None:
        return False
    ended = replace(request, status=InputStatus.CANCELLED, ended_us=draft.context.now_us)
    draft.put_input(ended)
    drop_timer(draft, INPUT_TIMER + request.input_id)
    return True


def hold_back(draft: Draft, why: PauseReason, reason: str) -> None:
    """Pause: withdraw what is ready, leave what is leased. The current event tells of it."""
    withdraw(draft)
    draft.change_run(status=RunStatus.PAUSED, pause_reason=why, reason=reason)


def withdraw(draft: Draft) -> None:
    """Take back what no worker has yet; it spends no attempt."""
    for execution in tuple(draft.open_executions()):
        if execution.status is ExecutionStatus.READY:
            close(draft, execution, ExecutionStatus.RELEASED)
            if execution.kind is StepKind.TASK:
                draft.change_task(execution.task_id, status=TaskStatus.PENDING)


def close(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    *,
    reason: str = "",
    **fields: object,
) -> None:
    """End an execution; a worker that still holds it is told, with `reason`.

    With one whose outcome was unknown the step that looks into it ends, too; so that one may be closed
    already where several are closed together.
    """
    now = draft.executions.get(execution.execution_id, execution)
    if now.status not in OPEN:
        return
    if reason and execution.status is not ExecutionStatus.READY:
        revoke(draft, execution, reason)
    draft.change_execution(execution, status=status, ended_us=draft.context.now_us, **fields)
    if execution.status is ExecutionStatus.UNKNOWN_OUTCOME:
        step = reconcile.open_step_of(draft, execution.task_id)
        if step is not None:
            words = f"it is settled what became of {execution.execution_id}"
            close(draft, step, ExecutionStatus.CANCELLED, reason=words)


def make_unknown(draft: Draft, execution: Execution) -> None:
    """Note that nobody knows what became of an AT_MOST_ONCE step that was begun."""
    if execution.status is ExecutionStatus.UNKNOWN_OUTCOME:
        return
    draft.change_execution(
        execution, status=ExecutionStatus.UNKNOWN_OUTCOME, unknown_us=draft.context.now_us
    )
    draft.change_task(execution.task_id, status=TaskStatus.BLOCKED, reconciles_spent=0)


def revoke(draft: Draft, execution: Execution, reason: str) -> None:
    """Have the worker told that its lease is gone."""
    draft.revoked.append(
        Revoked(execution_id=execution.execution_id, worker_id=execution.worker_id, reason=reason)
    )


def drop_timer(draft: Draft, name: str) -> None:
    """Take a timer away."""
    draft.timers[name] = Timer(name=name, delay_ms=-1)


def offer_task(draft: Draft, task_id: str, *, delay_ms: int = 0) -> None:
    """Make the next attempt at a task ready, after `delay_ms`."""
    task, spec = draft.task(task_id), draft.spec(task_id)
    attempt = task.attempts + 1
    execution_id = f"task:{task_id}#{attempt}"
    _add(draft, StepKind.TASK, execution_id, attempt, delay_ms, task_id=task_id, role=spec.role)
    counted = budgets.count_task(draft, task)
    draft.change_task(task_id, status=TaskStatus.READY, attempts=attempt, **counted)
    if spec.total_timeout_ms and not task.started_us:
        name = TOTAL_TIMER + task_id
        draft.timers[name] = Timer(name=name, delay_ms=spec.total_timeout_ms + delay_ms)


def offer_step(draft: Draft, *, delay_ms: int = 0) -> None:
    """Make the next attempt at the current PLAN, REFLECT or SYNTHESIZE step ready."""
    run = draft.run
    kind = STEP_OF_PHASE[run.phase]
    attempt = run.step_attempt + 1
    execution_id = f"{kind.lower()}:{run.iteration}#{attempt}"
    _add(draft, kind, execution_id, attempt, delay_ms)
    draft.change_run(step_attempt=attempt)


def offer_reconcile(draft: Draft, task_id: str, *, delay_ms: int = 0) -> None:
    """Have somebody look into the unknown outcome of a task, after `delay_ms`."""
    number = draft.task(task_id).reconciles + 1
    execution_id = f"reconcile:{task_id}#{number}"
    role = draft.spec(task_id).role
    _add(draft, StepKind.RECONCILE, execution_id, number, delay_ms, task_id=task_id, role=role)
    draft.change_task(task_id, reconciles=number)


def _add(
    draft: Draft,
    kind: StepKind,
    execution_id: str,
    attempt: int,
    delay_ms: int,
    *,
    task_id: str = "",
    role: str = "",
) -> None:
    spec = draft.run.spec
    draft.add_execution(
        Execution(
            execution_id=execution_id,
            kind=kind,
            task_id=task_id,
            iteration=draft.run.iteration,
            attempt=attempt,
            queue=spec.queue,
            role=role,
            priority=spec.priority,
            delay_ms=delay_ms,
            offered_us=draft.context.now_us,
        )
    )


def _move_on(draft: Draft) -> None:
    run = draft.run
    if run.phase is Phase.EXECUTING and run.counts.unsettled == 0:
        if StepKind.REFLECT in run.stages:
            enter(draft, Trigger.TASKS_SETTLED)
        else:
            trigger = Trigger.TASKS_SETTLED_NO_REFLECTION
            finish_iteration(draft, trigger, FinishReason.FINISHED)


def _offer(draft: Draft) -> bool:
    """Offer what there is a place for; tell whether tasks were settled instead, by their keys."""
    run = draft.run
    delay_ms = run.spec.start_delay_ms if run.version == 0 else 0
    taking = [e for e in draft.open_executions() if e.status is not ExecutionStatus.UNKNOWN_OUTCOME]
    if used_up := budgets.used_up(run):
        if _has_more(draft, taking):
            _run_out(draft, used_up)
    elif run.phase is Phase.EXECUTING:
        return _offer_tasks(draft, _offer_reconciles(draft, taking), delay_ms)
    elif _wants_step(draft, taking):
        offer_step(draft, delay_ms=delay_ms)
    return False


def _wants_step(draft: Draft, taking: Sequence[Execution]) -> bool:
    """Tell whether the step of the phase is not there, and there is a place for it."""
    # After an answer that asked for a plan, tasks may be leased still: it is made beside them.
    kind = STEP_OF_PHASE[draft.run.phase]
    has_place = len(taking) < draft.run.spec.max_parallel
    return has_place and all(one.kind is not kind for one in taking)


def _has_more(draft: Draft, taking: Sequence[Execution]) -> bool:
    """Tell whether anything waits for a worker, or would now."""
    if any(execution.status is ExecutionStatus.READY for execution in taking):
        return True
    if draft.run.phase is not Phase.EXECUTING:
        return _wants_step(draft, taking)
    if len(taking) >= draft.run.spec.max_parallel:
        return False
    return any(reconcile.wanted(draft, draft.open_executions())) or (
        draft.take_runnable() is not None
    )


def _offer_reconciles(draft: Draft, taking: Sequence[Execution]) -> Sequence[Execution]:
    """Have unknown outcomes looked into, as far as there are places; return what takes one then."""
    places = draft.run.spec.max_parallel - len(taking)
    wanted = list(islice(reconcile.wanted(draft, draft.open_executions()), max(0, places)))
    for task_id in wanted:
        offer_reconcile(draft, task_id)
    if not wanted:
        return taking
    return [e for e in draft.open_executions() if e.status is not ExecutionStatus.UNKNOWN_OUTCOME]


def _offer_tasks(draft: Draft, taking: Sequence[Execution], delay_ms: int) -> bool:
    """Fill the free places; the run is out of tasks once one more is all that is left to be done.

    A task whose key is known to have come to something takes no place. Tells whether there were any.
    """
    places = draft.run.spec.max_parallel - len(taking)
    idle, one_too_many, taken = not taking, False, 0
    while places > 0 and (task_id := draft.take_runnable()) is not None:
        if idempotency.take_known(draft, task_id):
            if draft.spec(task_id).total_timeout_ms:
                drop_timer(draft, TOTAL_TIMER + task_id)
            taken += 1
            if taken == limits.DEDUPLICATED_PER_COMMIT_MAX:
                idempotency.ask_for_more(draft)
                return False
        elif budgets.allows_task(draft.run, draft.task(task_id)):
            offer_task(draft, task_id, delay_ms=delay_ms)
            places, idle = places - 1, False
        else:
            one_too_many = True
    if one_too_many and idle and not any(draft.open_executions()) and not any(draft.open_inputs()):
        _run_out(draft, budgets.no_more_tasks(draft.run))
    return taken > 0


def _run_out(draft: Draft, used_up: tuple[budgets.UsedUp, ...]) -> None:
    words = budgets.words_of(used_up)
    draft.event(EventType.RUN_PAUSED, message=words)
    hold_back(draft, PauseReason.BUDGET_EXHAUSTED, words)


def say_status(draft: Draft) -> None:
    """Bring `status` and `blocked_on` in line with what is open."""
    leased = ready = False
    delay_ms: int | None = None
    for execution in draft.open_executions():
        leased = leased or execution.status is ExecutionStatus.LEASED
        if execution.status is ExecutionStatus.READY:
            ready = True
            known = draft.is_new(execution) or draft.run.blocked_on is not BlockedKind.WORKER
            delay = execution.delay_ms if known else 0
            delay_ms = delay if delay_ms is None else min(delay, delay_ms)
    run = draft.run
    if run.status is not RunStatus.PAUSED:
        started = RunStatus.RUNNING if run.started_us else RunStatus.QUEUED
        going = leased or ready or idempotency.is_more_asked(draft.timers.values())
        status = started if going else RunStatus.WAITING
        if status is not run.status:
            draft.change_run(status=status)
    _say_blocked(draft, _blocked_on(draft, leased=leased, delay_ms=delay_ms), delay_ms or 0)


def _blocked_on(draft: Draft, *, leased: bool, delay_ms: int | None) -> BlockedKind:
    run = draft.run
    if run.status is RunStatus.PAUSED:
        exhausted = run.pause_reason is PauseReason.BUDGET_EXHAUSTED
        return BlockedKind.BUDGET if exhausted else BlockedKind.PAUSED
    if leased or idempotency.is_more_asked(draft.timers.values()):
        return BlockedKind.NONE
    if delay_ms is not None:
        waited_for = draft.timers.get(BLOCKED_TIMER)
        is_over = waited_for is not None and waited_for.delay_ms < 0
        return BlockedKind.WORKER if delay_ms == 0 or is_over else BlockedKind.TIMER
    if any(True for _ in draft.open_inputs()):
        return BlockedKind.INPUT
    return BlockedKind.UNKNOWN_OUTCOME


def _say_blocked(draft: Draft, kind: BlockedKind, delay_ms: int) -> None:
    before = draft.run.blocked_on
    if kind is before:
        return
    draft.change_run(blocked_on=kind, blocked_since_us=draft.context.now_us)
    if kind is BlockedKind.TIMER:
        draft.timers[BLOCKED_TIMER] = Timer(name=BLOCKED_TIMER, delay_ms=delay_ms)
    elif before is BlockedKind.TIMER:
        drop_timer(draft, BLOCKED_TIMER)
