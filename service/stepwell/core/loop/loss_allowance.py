"""Losses: attempts whose worker disappeared.

Their allowance is separate from that of failures. A lost attempt says little about its step,
because machines are taken away and processes are killed. A step may therefore be lost more often
than it may fail. But a step may also be what kills its workers, with everything that they hold. Two
workers that were lost with it and did not come back make it *suspect*: from then on it runs only on
a worker that holds nothing else. A third such loss shows that it is *poison*, and it is not
retried. A worker may come back after its lease is lost. Each later loss, and each lease of a
suspect step, therefore brings the worker instances that are connected by then, and these no longer
count. A lease whose loss would show poison is extended until its worker was waited for. A step with
many calls may outlive many workers. An attempt that recorded calls got further than those before
it, so the workers lost with these no longer count.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import LeaseExpired
from stepwell.core.records.model import SUSPECT_LOSSES, Execution, Failure, Losses, Run, Task
from stepwell.core.records.states import StepKind

_NONE = Losses()

POISON = "POISON"
AWAITED = "AWAITED"
"""The reason why an expired lease is extended: its loss would show poison, and its worker may come back."""


def name_of(worker_id: str, instance_id: str) -> str:
    """Return the name of a worker instance, whose own id need not be unique among workers."""
    return f"{worker_id} {instance_id}" if instance_id else ""


def losses_of(draft: Draft, execution: Execution) -> Losses:
    """Return the losses that count against the execution's step in the run's present allowance."""
    losses = losses_at(draft, execution.kind, execution.task_id)
    held = draft.state.open.get(execution.execution_id)
    went_further = held is not None and held.recorded.entries > 0
    return replace(losses, gone=()) if went_further and losses.gone else losses


def losses_at(draft: Draft, kind: StepKind, task_id: str) -> Losses:
    """Return the losses of a step in the run's present allowance; `task_id` is its task's, if it has one."""
    return losses_in(draft.run, draft.task(task_id) if task_id else None, kind)


def losses_in(run: Run, task: Task | None, kind: StepKind) -> Losses:
    """Return the losses of a step from its rows; `task` is its task's, if it has one."""
    if task is None:
        losses = run.step_losses
    else:
        losses = task.losses if kind is StepKind.TASK else task.reconcile_losses
    return current(run, losses)


def current(run: Run, losses: Losses) -> Losses:
    """Return these losses, if they count in the run's present allowance; else none."""
    return losses if losses.allowance == run.allowance else _NONE


def without(losses: Losses, connected: Collection[str]) -> Losses:
    """Return the losses without these worker instances, which are connected again."""
    gone = tuple(one for one in losses.gone if one not in connected)
    return replace(losses, gone=gone) if gone != losses.gone else losses


def set_losses(draft: Draft, execution: Execution, losses: Losses) -> None:
    """Set the losses of the execution's step, within the current event."""
    if execution.kind is StepKind.TASK:
        draft.change_task(execution.task_id, losses=losses)
    elif execution.kind is StepKind.RECONCILE:
        draft.change_task(execution.task_id, reconcile_losses=losses)
    else:
        draft.change_run(step_losses=losses)


def shows_poison(losses: Losses, instance: str, expired: LeaseExpired) -> bool:
    """Return whether this worker instance's loss, after these, shows that their step is poison."""
    is_gone = bool(instance) and instance not in expired.connected
    others = without(losses, {*expired.connected, instance}).gone
    blamed = is_gone and not expired.blameless
    return blamed and losses.suspect and len(others) >= SUSPECT_LOSSES


def count_loss(
    draft: Draft, execution: Execution, instance: str, expired: LeaseExpired
) -> tuple[Losses, Failure | None]:
    """Count a lost attempt of this worker instance (`name_of`), within the current event.

    Returns the losses of its step, and the failure that ends the step if it is poison.
    """
    before = losses_of(draft, execution)
    if expired.blameless:
        return before, None
    # An instance that got the step again came back in between, so it counts once.
    gone = without(before, {*expired.connected, instance}).gone
    if instance and instance not in expired.connected:
        gone = (*gone, instance)
    losses = Losses(count=before.count + 1, allowance=draft.run.allowance, gone=gone)
    set_losses(draft, execution, losses)
    if not shows_poison(before, instance, expired):
        return losses, None
    message = (
        f"{len(gone)} workers were lost with this step, the last of them while it held nothing else"
    )
    return losses, Failure(kind=POISON, message=message, retryable=False)
