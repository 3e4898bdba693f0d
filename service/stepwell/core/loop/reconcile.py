"""RECONCILE steps: finding out what became of an AT_MOST_ONCE task whose worker was lost after it began.

Such a step is no attempt at the task. It is offered beside the execution whose outcome is unknown, as soon
as there is a place, and tried again as the run's other steps are. Once it has come to an end without an
answer the outcome is left to a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import Execution, RetryPolicy
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind

LEFT_TO_A_PERSON = -1


def wanted(draft: Draft, execution: Iterable[Execution]) -> Iterator[str]:
    """Return the tasks of these open executions whose unknown outcome a step should look into now."""
    ones = tuple(execution)
    looked_into = {one.task_id for one in ones if one.kind is StepKind.RECONCILE}
    for one in ones:
        if (
            one.status is ExecutionStatus.UNKNOWN_OUTCOME
            and one.task_id not in looked_into
            and draft.spec(one.task_id).reconcile
            and draft.task(one.task_id).reconciles_spent != LEFT_TO_A_PERSON
        ):
            yield one.task_id


def open_step_of(draft: Draft, task_id: str) -> Execution | None:
    """Return the RECONCILE step of a task that is open."""
    return _open_one(draft, task_id, lambda one: one.kind is StepKind.RECONCILE)


def unknown_of(draft: Draft, task_id: str) -> Execution | None:
    """Return the execution of a task whose outcome is unknown."""
    return _open_one(draft, task_id, lambda one: one.status is ExecutionStatus.UNKNOWN_OUTCOME)


def _open_one(draft: Draft, task_id: str, fits: Callable[[Execution], bool]) -> Execution | None:
    found = (one for one in draft.open_executions() if one.task_id == task_id and fits(one))
    return next(found, None)


def spend(draft: Draft, task_id: str) -> tuple[RetryPolicy, int]:
    """Count a step that failed or was lost; return the policy and how many it makes."""
    spent = draft.task(task_id).reconciles_spent + 1
    draft.change_task(task_id, reconciles_spent=spent)
    return draft.run.spec.step_retry, spent


def leave_to_a_person(draft: Draft, task_id: str, words: str) -> None:
    """Look into it no more."""
    unknown = unknown_of(draft, task_id)
    assert unknown is not None, "a RECONCILE step ends with the outcome that it looks into"
    draft.event(
        EventType.OUTCOME_UNKNOWN,
        task_id=task_id,
        execution_id=unknown.execution_id,
        message=words,
    )
    draft.change_task(task_id, reconciles_spent=LEFT_TO_A_PERSON)
