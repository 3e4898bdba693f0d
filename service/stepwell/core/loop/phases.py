"""Moves a run from phase to phase, by the table, up to its successful end."""

from __future__ import annotations

from typing import Unpack

from msgspec.structs import replace

from stepwell.core.loop import signals
from stepwell.core.loop.changes import RunFields
from stepwell.core.loop.closing import (
    cancel_unsettled,
    close_open,
    drop_total_timer,
    end_run,
    fail_run,
    failed_for_the_run,
    withdraw_ready,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.table import Trigger, next_phase
from stepwell.core.loop.waits import withdraw_questions
from stepwell.core.records.model import Failure, Losses, Previous
from stepwell.core.records.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    FinishReason,
    Phase,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.core.records.step_journal import Journal

_NO_JOURNAL = Journal()


def enter_phase(draft: Draft, trigger: Trigger, **fields: Unpack[RunFields]) -> None:
    """Make the phase move of `trigger`; the next phase's step starts with fresh attempts."""
    if draft.run.previous != Previous():
        fields["previous"] = Previous()
    if draft.run.step_journal != _NO_JOURNAL:
        fields["step_journal"] = _NO_JOURNAL
    withdraw_questions(draft, "")
    if draft.run.step_losses.count:
        fields["step_losses"] = Losses()
    fields["phase"] = next_phase(draft.run.phase, trigger)
    before, kept = draft.run, draft.run.signals
    ended = kept.reflections if fields.get("iteration", before.iteration) == before.iteration else 0
    if trigger in (Trigger.STEERED, Trigger.GO_ON):
        ended += before.phase is Phase.REFLECTING
    early = trigger is Trigger.STEERED and draft.run.counts.unsettled > 0
    if (kept.early, kept.reflections) != (early, ended):
        fields["signals"] = replace(kept, early=early, reflections=ended)
    fields["step_attempt"] = 0
    fields["step_spent"] = 0
    draft.change_run(**fields)


def leave_finished_phase(draft: Draft) -> None:
    """Leave EXECUTING once all tasks are settled; a failure that a resume kept then fails the run.

    A signal that makes the run reflect ends EXECUTING sooner: once no worker has a step.
    """
    run = draft.run
    if signals.steers(run):
        withdraw_ready(draft)
        if all(one.status is not ExecutionStatus.LEASED for one in draft.open_executions()):
            enter_phase(draft, Trigger.STEERED)
    elif run.phase is Phase.EXECUTING and run.counts.unsettled == 0:
        if (kept := _kept_failure(draft)) is not None:
            fail_run(draft, kept)
        elif StepKind.REFLECT in run.stages:
            enter_phase(draft, Trigger.TASKS_SETTLED)
        else:
            trigger = Trigger.TASKS_SETTLED_NO_REFLECTION
            finish_iteration(draft, trigger, FinishReason.FINISHED)


def _kept_failure(draft: Draft) -> Failure | None:
    """Return the failure of a planned task that fails the run, or None."""
    if not draft.run.counts.failed:
        return None
    for task_id in draft.graph.specs:
        if failed_for_the_run(draft, task_id) and draft.is_planned(task_id):
            return draft.task(task_id).failure
    return None


def finish_iteration(draft: Draft, trigger: Trigger, reason: FinishReason) -> None:
    """Leave the last iteration: enter SYNTHESIZING, or end a run without that stage."""
    draft.event(EventType.ITERATION_COMPLETED)
    enter_phase(draft, trigger, finish_reason=reason)
    if StepKind.SYNTHESIZE not in draft.run.stages:
        succeed(draft)


def drop_rest(draft: Draft) -> None:
    """Close what a reflection that finishes the run before its tasks are settled leaves, within the current event."""
    if not draft.run.counts.unsettled:
        return
    for task_id in draft.graph.specs:
        if draft.task(task_id).status not in SETTLED:
            drop_total_timer(draft, task_id)
    reason = "the run is finished without it"
    close_open(draft, ExecutionStatus.CANCELLED, TaskStatus.CANCELLED, reason)
    cancel_unsettled(draft)


def succeed(draft: Draft, result_id: str = "") -> None:
    """End the run as SUCCEEDED, with the result of this SYNTHESIZE execution if there is one."""
    draft.event(EventType.RUN_SUCCEEDED, execution_id=result_id)
    enter_phase(draft, Trigger.SYNTHESIZED)
    end_run(draft, RunStatus.SUCCEEDED, {"result_id": result_id})
