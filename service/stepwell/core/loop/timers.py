"""Timers of a run: each name has its rule for the moment at which it comes due."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop import budgets
from stepwell.core.loop.closing import (
    BLOCKED_TIMER,
    INPUT_TIMER,
    TOTAL_TIMER,
    drop_timer,
    pause_run,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import total_timeout
from stepwell.core.loop.idempotency import MORE_TIMER
from stepwell.core.loop.questions import input_expired
from stepwell.core.loop.replies import UNCHANGED
from stepwell.core.loop.signals import Reply, TimerDue
from stepwell.core.records.states import BlockedKind, EventType, PauseReason, RunStatus


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
    elif one.name.startswith(TOTAL_TIMER):
        total_timeout(draft, one.name.removeprefix(TOTAL_TIMER))
    elif one.name.startswith(INPUT_TIMER):
        input_expired(draft, one.name.removeprefix(INPUT_TIMER))
    elif one.name.startswith(budgets.WALL_TIMER):
        _wall_over(draft, int(one.name.removeprefix(budgets.WALL_TIMER)))
    return Reply()


def _wall_over(draft: Draft, limit_ms: int) -> None:
    """Pause a run whose wall time is over, unless that limit was raised meanwhile."""
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
