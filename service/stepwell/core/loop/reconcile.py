"""RECONCILE steps: an agent checks whether an AT_MOST_ONCE task, whose worker was lost, took effect.

Such a step is no attempt at the task. It is offered as soon as there is a place, while the
execution with the unknown outcome stays open, and it is retried like the run's other steps. If it
ends without a finding, the outcome is left to a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import Execution
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind

LEFT_TO_A_PERSON = -1
"""Value of `Task.reconciles_spent` once no further RECONCILE step is offered."""


def wanted(draft: Draft) -> Iterator[str]:
    """Yield the tasks that need a RECONCILE step now: their outcome is unknown, and they have no open one."""
    executions = tuple(draft.open_executions())
    reconciling = {one.task_id for one in executions if one.kind is StepKind.RECONCILE}
    for one in executions:
        if (
            one.status is ExecutionStatus.UNKNOWN_OUTCOME
            and not one.unknown_call
            and one.task_id not in reconciling
            and draft.spec(one.task_id).reconcile
            and draft.task(one.task_id).reconciles_spent != LEFT_TO_A_PERSON
        ):
            yield one.task_id


def open_step_of(draft: Draft, task_id: str) -> Execution | None:
    """Return the task's open RECONCILE step, or None."""
    return _open_one(draft, task_id, lambda one: one.kind is StepKind.RECONCILE)


def unknown_of(draft: Draft, task_id: str) -> Execution | None:
    """Return the task's execution with an unknown outcome, or None."""
    return _open_one(draft, task_id, lambda one: one.status is ExecutionStatus.UNKNOWN_OUTCOME)


def _open_one(draft: Draft, task_id: str, fits: Callable[[Execution], bool]) -> Execution | None:
    matching = (one for one in draft.open_executions() if one.task_id == task_id and fits(one))
    return next(matching, None)


def spend(draft: Draft, task_id: str) -> int:
    """Count a failed RECONCILE step; return the number of such steps."""
    spent = draft.task(task_id).reconciles_spent + 1
    draft.change_task(task_id, reconciles_spent=spent)
    return spent


def leave_to_a_person(draft: Draft, task_id: str, message: str) -> None:
    """Offer no further RECONCILE step for the task, so a person has to settle the outcome."""
    unknown = unknown_of(draft, task_id)
    assert unknown is not None, "a RECONCILE step ends with the unknown outcome that it is for"
    draft.event(
        EventType.OUTCOME_UNKNOWN,
        task_id=task_id,
        execution_id=unknown.execution_id,
        message=message,
    )
    draft.change_task(task_id, reconciles_spent=LEFT_TO_A_PERSON)
