"""What people ask of a run: start, cancel, pause, resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stepwell.core.loop import budgets, no_progress
from stepwell.core.loop.dispatch import (
    TOTAL_TIMER,
    close_open,
    drop_timer,
    end,
    enter,
    hold_back,
    settle,
)
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.plans import carried_over, let_go
from stepwell.core.loop.signals import Cancel, Pause, Reply, ReplyStatus, Resume, Start
from stepwell.core.loop.table import Trigger
from stepwell.core.records import graph
from stepwell.core.records.graph import Graph
from stepwell.core.records.model import Failure, Plan, Run, RunSpec, TaskSpec, Violation
from stepwell.core.records.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    OnFailure,
    PauseReason,
    Phase,
    PlanTrigger,
    RunStatus,
    TaskStatus,
)

UNCHANGED = Reply(status=ReplyStatus.UNCHANGED)


def refused(reason: str, message: str) -> Reply:
    """Return the reply to a command that the run is in no state for."""
    return Reply(status=ReplyStatus.REFUSED, reason=reason, message=message)


def born_before(draft: Draft, spec: RunSpec) -> Reply:
    """Return the reply to a start or a fork whose run is there: the same request, or another one."""
    same = draft.run.spec.request_fingerprint == spec.request_fingerprint
    if same and spec.request_fingerprint:
        return UNCHANGED
    return refused(
        "REQUEST_ID_REUSED",
        "this request_id started another run before; use a new one for a new run",
    )


def start(draft: Draft, command: Start) -> Reply:
    """Bring the run to life. A plan of the caller's is checked like any other."""
    if draft.run.version:
        return born_before(draft, command.spec)
    if command.plan is not None:
        violations = graph.violations_of(command.plan, ())
        if violations:
            return Reply(
                status=ReplyStatus.REFUSED,
                reason="PLAN_INVALID",
                message="the plan is not valid",
                violations=violations,
            )
    draft.run = Run(spec=command.spec)
    draft.input = command.input
    draft.event(EventType.RUN_STARTED)
    draft.change_run(created_us=draft.context.now_us, budget=command.spec.budget)
    if command.plan is not None:
        draft.change_run(stages=command.stages, stages_fixed=True)
        accept_plan(draft, command.plan, PlanTrigger.CALLER, "", Trigger.PLAN_ACCEPTED)
    return Reply()


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
    enter(draft, trigger, iteration=iteration, stages_fixed=True)
    if no_progress.is_watched(draft.run):
        draft.change_run(tally=no_progress.planned(draft.run.tally, plan.fingerprint))
    let_go(draft, tasks, carried)
    draft.put_plan(plan)


def plan_violations(draft: Draft, tasks: Sequence[TaskSpec]) -> tuple[Violation, ...]:
    """Return what is wrong with a plan for this run as it stands."""
    settled = {
        task_id
        for task_id in draft.graph.specs
        if draft.task(task_id).status in (TaskStatus.COMPLETED, TaskStatus.FAILED)
    }
    return graph.violations_of(tasks, settled)


def cancel(draft: Draft, command: Cancel) -> Reply:
    """End the run for good: every open execution is closed, every unsettled task CANCELLED."""
    if draft.run.status is RunStatus.CANCELLED:
        return UNCHANGED
    if draft.run.ended:
        return refused(
            "RUN_ENDED", f"the run is over, {draft.run.status}; there is nothing to cancel"
        )
    draft.event(EventType.RUN_CANCELLED, message=command.reason)
    close_open(draft, ExecutionStatus.CANCELLED, TaskStatus.CANCELLED, "the run was cancelled")
    now_us = draft.context.now_us
    for task_id in draft.graph.specs:
        if draft.task(task_id).status not in SETTLED:
            draft.change_task(task_id, status=TaskStatus.CANCELLED, ended_us=now_us)
    end(draft, RunStatus.CANCELLED, reason=command.reason)
    return Reply()


def drop_total_timer(draft: Draft, task_id: str) -> None:
    """Take the task's total time-out away, where it has one."""
    if draft.spec(task_id).total_timeout_ms:
        drop_timer(draft, TOTAL_TIMER + task_id)


def skip_dependents(draft: Draft, task_id: str) -> None:
    """Settle as SKIPPED what depends on a task, at any distance, and was not begun."""
    for dependent in draft.graph.downstream(task_id):
        if draft.task(dependent).status is TaskStatus.PENDING:
            draft.change_task(dependent, status=TaskStatus.SKIPPED, ended_us=draft.context.now_us)
            if draft.task(dependent).attempts:
                # Offered once, before a plan defined anew what it depends on.
                drop_total_timer(draft, dependent)


def pause(draft: Draft, command: Pause) -> Reply:
    """Dispatch nothing more. What is ready is withdrawn; what is leased may end."""
    if draft.run.status is RunStatus.PAUSED:
        return UNCHANGED
    if draft.run.ended:
        return refused(
            "RUN_ENDED", f"the run is over, {draft.run.status}; there is nothing to pause"
        )
    draft.event(EventType.RUN_PAUSED, message=command.reason)
    hold_back(draft, PauseReason.REQUESTED, command.reason)
    return Reply()


def resume(draft: Draft, command: Resume) -> Reply:
    """Go on where the last checkpoint stands. It never plans again by itself."""
    run = draft.run
    if run.status is RunStatus.CANCELLED:
        return refused(
            "RUN_CANCELLED", "a cancelled run is final; fork it to go on from where it was"
        )
    if run.status not in (RunStatus.PAUSED, RunStatus.FAILED):
        return UNCHANGED
    if run.pause_reason is PauseReason.BUDGET_EXHAUSTED and (words := stays_paused(draft, command)):
        return refused("BUDGET_EXHAUSTED", f"the budget is used up: {words}")
    go_on(draft, command)
    return Reply()


def stays_paused(draft: Draft, command: Resume) -> str:
    """Return why a resume would pause the run again at once; empty: it would not."""
    trial = Draft(draft.state, draft.context)
    trial.run = draft.run
    go_on(trial, command)
    settle(trial)
    return trial.run.reason if trial.run.status is RunStatus.PAUSED else ""


def go_on(draft: Draft, command: Resume) -> None:
    """Let a PAUSED or FAILED run go on."""
    run = draft.run
    failed = run.status is RunStatus.FAILED
    draft.event(EventType.RUN_RESUMED, message=command.reason)
    retried = _failed_tasks(draft) if command.retry_failed else []
    fields: dict[str, object] = {}
    if failed or retried:
        fields["allowance"] = run.allowance + 1
    if failed:
        fields |= {"failure": Failure(), "ended_us": 0, "step_spent": 0}
    if run.pause_reason is PauseReason.NO_PROGRESS:
        fields["tally"] = replace(run.tally, alike=0)
    draft.change_run(
        status=RunStatus.RUNNING if run.started_us else RunStatus.QUEUED,
        pause_reason=PauseReason.NONE,
        # A planner is shown why it is asked, also after a pause.
        reason=command.reason or (run.reason if run.phase is Phase.PLANNING else ""),
        **fields,
    )
    for task_id in retried:
        draft.change_task(
            task_id, status=TaskStatus.PENDING, failure=Failure(), started_us=0, ended_us=0
        )
    if failed:
        budgets.arm_wall(draft)


def _failed_tasks(draft: Draft) -> list[str]:
    """Return what a resume runs again: failures that stopped something, and what they stopped.

    A failure that was passed over before, so that something was built on it, stays.
    """
    if draft.run.phase is Phase.PLANNING:
        # One failed the run while another plan was made: whether it is in that plan is not known yet.
        return [task_id for task_id in draft.graph.specs if _failed_the_run(draft, task_id)]
    if draft.run.phase is not Phase.EXECUTING:
        return []
    again = run_again(draft.graph, lambda one: draft.task(one).status, draft.is_planned)
    return [task_id for task_id in draft.graph.specs if task_id in again]


def _failed_the_run(draft: Draft, task_id: str) -> bool:
    failed = draft.task(task_id).status is TaskStatus.FAILED
    return failed and draft.spec(task_id).on_failure is OnFailure.FAIL_RUN


def run_again(
    tasks: Graph, status_of: Callable[[str], TaskStatus], is_planned: Callable[[str], bool]
) -> frozenset[str]:
    """Return the failures that stopped something, and what was skipped because of them.

    What something was built on stays, as does what the plan in force doesn't name: whoever made that plan
    knew of it. What a person skipped was stopped by no failure.
    """

    def is_end(task_id: str) -> bool:
        return all(
            status_of(dependent) in (TaskStatus.PENDING, TaskStatus.SKIPPED)
            for dependent in tasks.dependents.get(task_id, ())
        )

    failed = [
        task_id
        for task_id, spec in tasks.specs.items()
        if status_of(task_id) is TaskStatus.FAILED
        and spec.on_failure is not OnFailure.CONTINUE
        and is_planned(task_id)
        and is_end(task_id)
    ]
    found = set(failed)
    below = [k for k in failed if tasks.specs[k].on_failure is OnFailure.SKIP_DEPENDENTS]
    seen = set(below)
    for task_id in below:
        for dependent in tasks.dependents.get(task_id, ()):
            if dependent in seen:
                continue
            seen.add(dependent)
            below.append(dependent)
            if status_of(dependent) is TaskStatus.SKIPPED and is_end(dependent):
                found.add(dependent)
    return frozenset(found)
