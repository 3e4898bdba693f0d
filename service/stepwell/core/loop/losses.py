"""Losses: attempts whose worker was not heard of again. They have an allowance apart from failures.

A lost attempt says little about its step: machines are taken away, processes are killed. So a step may be
lost more often than it may fail.
"""

from __future__ import annotations

from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import Execution, Losses
from stepwell.core.records.states import StepKind


def losses_of(draft: Draft, execution: Execution) -> Losses:
    """Return the losses of the execution's step in the run's present allowance."""
    if execution.kind is StepKind.TASK:
        losses = draft.task(execution.task_id).losses
    elif execution.kind is StepKind.RECONCILE:
        losses = draft.task(execution.task_id).reconcile_losses
    else:
        losses = draft.run.step_losses
    return losses if losses.allowance == draft.run.allowance else Losses()


def count_loss(draft: Draft, execution: Execution) -> Losses:
    """Count a lost attempt, within the current event; return the losses of its step."""
    before = losses_of(draft, execution)
    losses = Losses(count=before.count + 1, allowance=draft.run.allowance)
    if execution.kind is StepKind.TASK:
        draft.change_task(execution.task_id, losses=losses)
    elif execution.kind is StepKind.RECONCILE:
        draft.change_task(execution.task_id, reconcile_losses=losses)
    else:
        draft.change_run(step_losses=losses)
    return losses
