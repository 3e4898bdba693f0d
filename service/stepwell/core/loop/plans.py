"""Puts plans in force: checks them, carries tasks over, and closes tasks that a new plan drops.

A plan may come while tasks of the previous plan are in flight, for example after an answer that
asks for another plan. Unchanged tasks carry over: they continue, and their results count. Dropped
and changed tasks are closed before the new plan is in force: their workers are notified, and later
deliveries are LEASE_LOST.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

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
from stepwell.core.loop.waits import suspended, withdraw_steps
from stepwell.core.records import canonical, graph, limits
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
    iteration = draft.run.iteration + (trigger is Trigger.CONTINUE)
    tasks = graph.gathered(tasks)
    carried = carried_over(draft, tasks)
    plan = _next_plan(draft, tasks, carried, why, reason, iteration)
    draft.event(EventType.PLAN_ACCEPTED, plan_revision=plan.revision, message=reason)
    enter_phase(draft, trigger, iteration=iteration, stages_fixed=True)
    if no_progress.is_watched(draft.run):
        carries = len(carried) == len(tasks)
        tally = no_progress.planned(draft.run.tally, plan.fingerprint, carries=carries)
        draft.change_run(tally=tally)
    _put_in_force(draft, plan)


def _next_plan(
    draft: Draft,
    tasks: Sequence[TaskSpec],
    carried: tuple[str, ...],
    why: PlanTrigger,
    reason: str,
    iteration: int,
) -> Plan:
    parent = draft.run.plan_revision
    return Plan(
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


def _put_in_force(draft: Draft, plan: Plan) -> None:
    close_dropped(draft, plan.tasks, plan.carried)
    draft.put_plan(plan)
    for task_id in plan.carried:
        if failed_for_the_run(draft, task_id):
            # A resume kept the failure while this plan was being made.
            skip_dependents(draft, task_id)


# --- growth -----------------------------------------------------------------------------------------


def grown(
    draft: Draft, task_id: str, added: Sequence[TaskSpec]
) -> tuple[tuple[TaskSpec, ...], tuple[Violation, ...]]:
    """Return the plan in force with the tasks that a task's outcome adds, and the violations of these.

    A task that the plan has with the same definition, such as one that two tasks found, is not added twice. The task's dependents with
    `after_growth` that have not begun also depend on what it adds.
    """
    specs, in_force = draft.graph.specs, draft.state.plan_tasks
    present = [spec for one, spec in specs.items() if one in in_force]
    fresh: list[TaskSpec] = []
    places: list[int] = []
    found: list[Violation] = []
    for place, spec in enumerate(added):
        if spec.task_id not in in_force:
            fresh.append(spec)
            places.append(place)
        elif not _is_same(specs[spec.task_id], spec):
            text = f"{spec.task_id!r} is a task of the plan already, and defined otherwise."
            found.append(Violation(field=f"more.tasks[{place}].task_id", description=text))
    if found:
        return (), tuple(found[: limits.VIOLATIONS_MAX])
    whole = _with_added(draft, task_id, present, fresh, [spec.task_id for spec in added])
    if violations := plan_violations(draft, whole):
        return whole, tuple([_of_growth(one, len(present), places) for one in violations])
    if (size := len(canonical.bytes_of(whole))) > limits.PLAN_BYTES_MAX:
        text = f"The plan would have {size:,} bytes; {limits.PLAN_BYTES_MAX:,} is the most."
        return whole, (Violation(field="more.tasks", description=text),)
    return whole, ()


def accept_growth(draft: Draft, task_id: str, tasks: tuple[TaskSpec, ...]) -> None:
    """Put the plan with a task's additions in force, unless it is the plan in force; nothing else changes."""
    specs, in_force = draft.graph.specs, draft.state.plan_tasks
    carried = tuple([one.task_id for one in tasks if one == specs.get(one.task_id)])
    carried = tuple([one for one in carried if one in in_force])
    if len(carried) == len(tasks):
        return
    count = len(tasks) - len(in_force)
    reason = f"task {task_id} added {count} {'task' if count == 1 else 'tasks'}"
    plan = _next_plan(draft, tasks, carried, PlanTrigger.TASK, reason, draft.run.iteration)
    draft.event(EventType.PLAN_ACCEPTED, plan_revision=plan.revision, message=reason)
    _put_in_force(draft, plan)


def _is_same(before: TaskSpec, spec: TaskSpec) -> bool:
    if (before.after_growth or before.gathers) and set(spec.depends_on) <= set(before.depends_on):
        spec = replace(spec, depends_on=before.depends_on)
    return before == spec


def _with_added(
    draft: Draft,
    task_id: str,
    present: Sequence[TaskSpec],
    fresh: Sequence[TaskSpec],
    added: Sequence[str],
) -> tuple[TaskSpec, ...]:
    """Return the whole plan, in which tasks that haven't begun depend on what they wait for or gather of it."""

    def waits(spec: TaskSpec) -> bool:
        return draft.task(spec.task_id).status is TaskStatus.PENDING

    below = set(draft.graph.dependents.get(task_id, ()))
    whole = (
        *(
            graph.after(one, added)
            if one.after_growth and one.task_id in below and waits(one)
            else one
            for one in present
        ),
        *fresh,
    )
    begun = {one.task_id for one in present if one.gathers and not waits(one)}
    return tuple(
        [
            before if before.task_id in begun else after
            for before, after in zip(whole, graph.gathered(whole), strict=True)
        ]
    )


def _of_growth(one: Violation, present: int, places: Sequence[int]) -> Violation:
    """Return a violation of the whole plan with the path of the task in the outcome, if it is an added one."""

    def place_of(match: re.Match[str]) -> str:
        at = int(match[1]) - present
        return f"more.tasks[{places[at]}]" if at >= 0 else match[0]

    return replace(one, field=re.sub(r"^plan\.tasks\[(\d+)\]", place_of, one.field))


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
    steps = dict.fromkeys([*asking, *suspended(draft)])
    withdraw_steps(draft, {one: None for one in steps if one not in stays})
    for task_id, spec in draft.graph.specs.items():
        if (
            spec.total_timeout_ms
            and task_id not in stays
            and (draft.task(task_id).attempts or spec.idempotency_key)
            and draft.task(task_id).status not in SETTLED
        ):
            drop_total_timer(draft, task_id)
