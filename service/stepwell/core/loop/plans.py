"""What a new plan makes of the tasks of the one before it: carried over, started again, or dropped.

A plan may come while tasks of the old one are in flight, as where a person's answer asks for another
one. What carries over goes on, and its result counts. What is dropped or defined otherwise is closed
here, before the new plan is put in force: its worker is told, and what it says later is LEASE_LOST.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.loop.dispatch import TOTAL_TIMER, close, drop_timer, withdraw_inputs
from stepwell.core.loop.draft import Draft
from stepwell.core.records.model import TaskSpec
from stepwell.core.records.states import SETTLED, ExecutionStatus, TaskStatus


def carried_over(draft: Draft, tasks: Sequence[TaskSpec]) -> tuple[str, ...]:
    """Return which tasks of a new plan the run has already, defined alike and not dropped before."""
    known = draft.graph.specs
    return tuple(
        spec.task_id
        for spec in tasks
        if known.get(spec.task_id) == spec
        and draft.task(spec.task_id).status is not TaskStatus.CANCELLED
    )


def let_go(draft: Draft, tasks: Sequence[TaskSpec], carried: Sequence[str]) -> None:
    """Close all that is open of the tasks that a new plan drops or defines anew.

    The current event tells of it.
    """
    stays = set(carried)
    words = {spec.task_id: "a new plan defines this task anew" for spec in tasks}
    for execution in tuple(draft.open_executions()):
        task_id = execution.task_id
        if task_id and task_id not in stays:
            reason = words.get(task_id, "a new plan has no such task any more")
            close(draft, execution, ExecutionStatus.CANCELLED, reason=reason)
    for request in tuple(draft.open_inputs()):
        if request.task_id not in stays:
            withdraw_inputs(draft, request.task_id)
    for task_id, spec in draft.graph.specs.items():
        if (
            spec.total_timeout_ms
            and task_id not in stays
            and draft.task(task_id).attempts
            and draft.task(task_id).status not in SETTLED
        ):
            drop_timer(draft, TOTAL_TIMER + task_id)
