"""Expiries by the store's clock: leases that end, and timers, with a rule for each name."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop import budgets
from stepwell.core.loop.attempts import carry_over, release
from stepwell.core.loop.closing import (
    BLOCKED_TIMER,
    close,
    make_unknown,
    pause_run,
    revoke,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_attempt, fail_task, lose_attempt
from stepwell.core.loop.idempotency import (
    KEY_FREED,
    KEY_TIMER,
    MORE_TIMER,
    TOTAL_TIMER,
    ask_again,
    waiting,
)
from stepwell.core.loop.loss_allowance import AWAITED, losses_of, name_of, shows_poison
from stepwell.core.loop.occurrences import LeaseExpired, TimerDue
from stepwell.core.loop.questions import question_expired
from stepwell.core.loop.transition import UNCHANGED, Reply, ReplyStatus
from stepwell.core.loop.waits import QUESTION_TIMER, WAIT_TIMER, drop_timer, sleep_over
from stepwell.core.records.model import Failure, Session
from stepwell.core.records.states import (
    SETTLED,
    BlockedKind,
    EventType,
    ExecutionStatus,
    PauseReason,
    RunStatus,
    StepKind,
)


def lease_expired(draft: Draft, one: LeaseExpired) -> Reply:
    """End a lease that expired: retry the step, or mark its outcome as unknown if it was begun."""
    held = draft.held(one.execution_id)
    if (
        held is None
        or held.execution.status is not ExecutionStatus.LEASED
        or held.token != one.token
    ):
        return UNCHANGED
    execution = held.execution
    instance = name_of(held.worker_id, held.instance_id)
    is_loss = not (one.timed_out or one.undelivered or execution.begun)
    if is_loss and not one.waited and shows_poison(losses_of(draft, execution), instance, one):
        return Reply(status=ReplyStatus.UNCHANGED, reason=AWAITED)
    status = ExecutionStatus.TIMED_OUT if one.timed_out else ExecutionStatus.LOST
    why = (
        "the attempt took longer than its time-out"
        if one.timed_out
        else f"worker {execution.worker_id!r} was not heard of for the length of the lease"
    )
    why = one.reason or why
    # A worker that has begun may continue without a lease: its late delivery settles the outcome. A
    # worker that never got the assignment needs no notice of its end.
    if one.timed_out or not (execution.begun or one.undelivered):
        revoke(draft, execution, why)
    if execution.begun:
        draft.event(
            EventType.OUTCOME_UNKNOWN,
            task_id=execution.task_id,
            execution_id=execution.execution_id,
            message=why,
        )
        make_unknown(draft, execution)
        lost = Failure(kind=status, message=why)
        carry_over(draft, execution, session=one.session, progress=one.progress, failure=lost)
        return Reply()
    if one.undelivered:
        release(draft, execution, one, why)
        return Reply()
    failure = Failure(kind=status, message=why)
    if is_loss:
        return lose_attempt(draft, execution, instance, failure, one)
    fail_attempt(draft, execution, status, failure, one)
    return Reply()


def timer_due(draft: Draft, one: TimerDue) -> Reply:
    """Apply a timer that came due. A timer that outlived its purpose changes nothing."""
    if draft.run.ended:
        return UNCHANGED
    if one.name == BLOCKED_TIMER and draft.run.blocked_on is BlockedKind.TIMER:
        draft.event(EventType.RUN_BLOCKED)
        drop_timer(draft, BLOCKED_TIMER)
    elif one.name == MORE_TIMER:
        draft.event(EventType.RUN_BLOCKED)
        drop_timer(draft, MORE_TIMER)
    elif one.name == KEY_TIMER or (one.name == KEY_FREED and any(waiting(draft))):
        draft.event(EventType.RUN_BLOCKED)
        drop_timer(draft, KEY_TIMER)
        ask_again(draft)
    elif one.name.startswith(TOTAL_TIMER):
        _total_over(draft, one.name.removeprefix(TOTAL_TIMER))
    elif one.name.startswith(WAIT_TIMER):
        sleep_over(draft, one.name)
    elif one.name.startswith(QUESTION_TIMER):
        question_expired(draft, one.name.removeprefix(QUESTION_TIMER))
    elif one.name.startswith(budgets.WALL_TIMER):
        _wall_over(draft, int(one.name.removeprefix(budgets.WALL_TIMER)))
    return Reply()


def _wall_over(draft: Draft, limit_ms: int) -> None:
    """Pause a run whose wall time is over, unless the limit was raised meanwhile."""
    run = draft.run
    if limit_ms != run.budget.wall_ms or run.tally.wall_over_ms >= limit_ms:
        return
    tally = replace(run.tally, wall_over_ms=limit_ms)
    message = budgets.describe(budgets.used_up(replace(run, tally=tally)))
    draft.event(EventType.RUN_PAUSED, message=message)
    draft.change_run(tally=tally)
    drop_timer(draft, f"{budgets.WALL_TIMER}{limit_ms}")
    if run.status is not RunStatus.PAUSED:
        pause_run(draft, PauseReason.BUDGET_EXHAUSTED, message)


def _total_over(draft: Draft, task_id: str) -> None:
    """Fail a task whose total time-out passed, whatever it is doing.

    A replica that is behind may not know the task yet, so the run is read before the timer is
    ignored.
    """
    if task_id not in draft.graph.specs or draft.task(task_id).status in SETTLED:
        return
    ms = draft.spec(task_id).total_timeout_ms
    failure = Failure(
        kind="TOTAL_TIMEOUT",
        message=f"not completed within its total time-out of {ms / 1000:g} s",
        retryable=False,
    )
    for execution in tuple(draft.open_executions()):
        if execution.task_id == task_id and execution.kind is StepKind.TASK:
            draft.event(
                EventType.EXECUTION_TIMED_OUT,
                task_id=task_id,
                execution_id=execution.execution_id,
                message="the task's total time-out",
            )
            if execution.worker_id:
                carry_over(draft, execution, session=Session(), progress=None, failure=failure)
            close(draft, execution, ExecutionStatus.TIMED_OUT, reason="the task's time is over")
    fail_task(draft, task_id, failure)
