"""Puts plans in force: checks them, carries tasks over, and closes tasks that a new plan drops.

A plan may come while tasks of the previous plan are in flight, for example after an answer that
asks for another plan. Unchanged tasks carry over: they continue, and their results count. Dropped
and changed tasks are closed before the new plan is in force: their workers are notified, and later
deliveries are LEASE_LOST.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.core.loop import no_progress
from stepwell.core.loop.closing import (
    close,
    drop_total_timer,
    failed_for_the_run,
    skip_dependents,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.phases import enter_phase
from stepwell.core.loop.table import Trigger
from stepwell.core.loop.waits import suspended, withdraw_questions
from stepwell.core.records import graph
from stepwell.core.records.model import Plan, TaskSpec, Violation
from stepwell.core.records.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    PlanTrigger,
    TaskStatus,
)

_HAS_ENDED = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED})
"""Statuses of tasks of earlier plans that a plan may build on without naming them."""


def plan_violations(draft: Draft, tasks: Sequence[TaskSpec]) -> tuple[Violation, ...]:
    """Return the violations of a plan for this run as it is; none if the plan is valid."""

    def is_settled(task_id: str) -> bool:
        task = draft.tasks.get(task_id) or draft.state.tasks.get(task_id)
        return task is not None and task.status in _HAS_ENDED

    return graph.violations_of(tasks, is_settled)


def accept_plan(
    draft: Draft, tasks: Sequence[TaskSpec], why: PlanTrigger, reason: str, trigger: Trigger
) -> None:
    """Put a valid plan in force as the next revision and begin to execute it."""
    parent = draft.run.plan_revision
    iteration = draft.run.iteration + (trigger is Trigger.CONTINUE)
    carried = carried_over(draft, tasks)
    plan = Plan(
        revision=parent + 1,
        parent_revision=parent,
        trigger=why,
        reason=reason,
        fingerprint=graph.fingerprint(tasks),
        iteration=iteration,
        tasks=tuple(tasks),
        carried=carried,
        created_us=draft.context.now_us,
    )
    draft.event(EventType.PLAN_ACCEPTED, plan_revision=plan.revision, message=reason)
    enter_phase(draft, trigger, iteration=iteration, stages_fixed=True)
    if no_progress.is_watched(draft.run):
        draft.change_run(tally=no_progress.planned(draft.run.tally, plan.fingerprint))
    close_dropped(draft, tasks, carried)
    draft.put_plan(plan)
    for task_id in carried:
        if failed_for_the_run(draft, task_id):
            # A resume kept the failure while this plan was being made.
            skip_dependents(draft, task_id)


def carried_over(draft: Draft, tasks: Sequence[TaskSpec]) -> tuple[str, ...]:
    """Return the plan's tasks that the run already has, with an equal definition and not dropped."""
    known = draft.graph.specs
    if not known:
        return ()
    return tuple(
        spec.task_id
        for spec in tasks
        if known.get(spec.task_id) == spec
        and draft.task(spec.task_id).status is not TaskStatus.CANCELLED
    )


def close_dropped(draft: Draft, tasks: Sequence[TaskSpec], carried: Sequence[str]) -> None:
    """Close everything open of tasks that a new plan drops or redefines, within the current event."""
    stays = set(carried)
    dropped = [one for one in draft.open_executions() if one.task_id and one.task_id not in stays]
    named = {spec.task_id for spec in tasks} if dropped else frozenset[str]()
    for execution in dropped:
        anew = execution.task_id in named
        reason = f"a new plan {'defines this task anew' if anew else 'has no such task any more'}"
        close(draft, execution, ExecutionStatus.CANCELLED, reason=reason)
    asking = [question.task_id for question in draft.open_questions()]
    for task_id in dict.fromkeys([*asking, *suspended(draft)]):
        if task_id not in stays:
            withdraw_questions(draft, task_id)
    for task_id, spec in draft.graph.specs.items():
        if (
            spec.total_timeout_ms
            and task_id not in stays
            and (draft.task(task_id).attempts or spec.idempotency_key)
            and draft.task(task_id).status not in SETTLED
        ):
            drop_total_timer(draft, task_id)
