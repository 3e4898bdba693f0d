"""Commands to a run: start, fork, cancel, pause, resume, stop, raise its budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from stepwell.core.loop import budgets
from stepwell.core.loop.changes import RunFields, TaskFields
from stepwell.core.loop.closing import cancel_unsettled, close_open, end_run, pause_run
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import Cancel, Fork, Pause, RaiseBudget, Resume, Start, Stop
from stepwell.core.loop.plans import accept_plan
from stepwell.core.loop.resuming import pauses_again, resume_run
from stepwell.core.loop.signals import inherit_signals
from stepwell.core.loop.table import Trigger
from stepwell.core.loop.transition import UNCHANGED, Reply, ReplyStatus, refused, run_ended
from stepwell.core.records import graph
from stepwell.core.records.model import Plan, Run, RunSpec, Task, TaskSpec
from stepwell.core.records.states import (
    EventType,
    ExecutionStatus,
    PauseReason,
    Phase,
    PlanTrigger,
    RunStatus,
    TaskStatus,
)

_OF_A_FORKED_RUN = (
    *("phase", "iteration", "stages", "stages_fixed", "step_attempt", "finish_reason", "reason"),
    *("tally", "step_journal"),
)
_OF_A_FORKED_TASK = (
    *("status", "attempts", "result_id", "result_run_id", "deduplicated_from", "failure"),
    *("question_id", "started_us", "ended_us", "journal"),
)
"""Fields that a fork may take over from its parent."""


def start(draft: Draft, command: Start) -> Reply:
    """Create the run. A caller's plan is checked like any other."""
    if draft.run.version:
        return _created_before(draft, command.spec)
    if (refusal := plan_refusal(command.plan)) is not None:
        return refusal
    draft.run = Run(spec=command.spec)
    draft.input = command.input
    draft.event(EventType.RUN_STARTED)
    draft.change_run(created_us=draft.context.now_us, budget=command.spec.budget)
    if command.waits_for_thread:
        draft.change_run(waits_for_thread=True)
    if command.plan is not None:
        draft.change_run(stages=command.stages, stages_fixed=True)
        accept_plan(draft, command.plan, PlanTrigger.CALLER, "", Trigger.PLAN_ACCEPTED)
    return Reply()


def plan_refusal(plan: Sequence[TaskSpec] | None) -> Reply | None:
    """Return the refusal of a caller's plan that isn't valid, or None."""
    violations = graph.violations_of(plan) if plan is not None else ()
    if not violations:
        return None
    return Reply(
        status=ReplyStatus.REFUSED,
        reason="PLAN_INVALID",
        message="the plan is not valid",
        violations=violations,
    )


def fork(draft: Draft, command: Fork) -> Reply:
    """Create a fork with everything that it carries over from its parent."""
    if draft.run.version:
        return _created_before(draft, command.spec)
    spec, run = command.spec, command.run
    draft.run = Run(spec=spec)
    draft.input = command.input
    draft.event(EventType.RUN_STARTED)
    draft.change_run(created_us=draft.context.now_us, budget=spec.budget)
    if command.plan:
        draft.event(EventType.PLAN_ACCEPTED, plan_revision=1)
        draft.change_run(phase=Phase.EXECUTING, iteration=run.iteration, stages_fixed=True)
        draft.put_plan(
            Plan(
                revision=1,
                trigger=PlanTrigger.FORK,
                fingerprint=graph.fingerprint(command.plan),
                iteration=run.iteration,
                tasks=command.plan,
                created_us=draft.context.now_us,
            )
        )
    message = f"forked from {spec.parent_run_id} at version {spec.parent_version}"
    draft.event(EventType.RUN_FORKED, message=message)
    draft.change_run(**cast("RunFields", _differences(run, draft.run, _OF_A_FORKED_RUN)))
    if command.waits_for_thread:
        draft.change_run(waits_for_thread=True)
    inherit_signals(draft, command.signals)
    for task in command.tasks:
        fields = _differences(task, draft.task(task.task_id), _OF_A_FORKED_TASK)
        draft.adopt_task(task.task_id, **cast("TaskFields", fields))
    for question in command.questions:
        draft.put_question(question)
    return Reply()


def _differences(row: Run | Task, fresh: Run | Task, names: Sequence[str]) -> dict[str, object]:
    """Return the fields of `row`, among these names, that differ from a fresh row's."""
    return {name: value for name in names if (value := getattr(row, name)) != getattr(fresh, name)}


def _created_before(draft: Draft, spec: RunSpec) -> Reply:
    """Return the reply to a start or a fork whose run exists, by the same request or by another."""
    same = draft.run.spec.request_fingerprint == spec.request_fingerprint
    if same and spec.request_fingerprint:
        return UNCHANGED
    return refused(
        "REQUEST_ID_REUSED",
        "this request_id started another run before; use a new one for a new run",
    )


def cancel(draft: Draft, command: Cancel) -> Reply:
    """Cancel the run: close every open execution, settle every unsettled task as CANCELLED."""
    if draft.run.status is RunStatus.CANCELLED:
        return UNCHANGED
    if draft.run.ended:
        return run_ended(draft.run, "there is nothing to cancel")
    draft.event(EventType.RUN_CANCELLED, message=command.reason)
    close_open(draft, ExecutionStatus.CANCELLED, TaskStatus.CANCELLED, "the run was cancelled")
    cancel_unsettled(draft)
    end_run(draft, RunStatus.CANCELLED, {"reason": command.reason})
    return Reply()


def pause(draft: Draft, command: Pause) -> Reply:
    """Dispatch nothing more: READY steps are withdrawn, and leased steps may end.

    A pause by a caller outlasts one by the parent.
    """
    run = draft.run
    by_parent = run.pause_reason is PauseReason.PARENT
    if command.parent:
        if command.letter <= run.signals.taken.get(command.parent, 0):
            return UNCHANGED
    elif run.status is RunStatus.PAUSED and not by_parent:
        return UNCHANGED
    if run.ended:
        return run_ended(run, "there is nothing to pause")
    reason = "its parent is paused" if command.parent else command.reason
    draft.event(EventType.RUN_PAUSED, message=reason)
    if run.status is not RunStatus.PAUSED:
        pause_run(draft, PauseReason.PARENT if command.parent else PauseReason.REQUESTED, reason)
    elif not command.parent:
        draft.change_run(pause_reason=PauseReason.REQUESTED, reason=reason)
    if command.parent:
        _take(draft, command)
    return Reply()


def _take(draft: Draft, command: Pause | Resume) -> None:
    """Keep the number of the parent's letter, within the current event."""
    kept = draft.run.signals
    taken = {**kept.taken, command.parent: command.letter}
    draft.change_run(signals=replace(kept, taken=taken))


def resume(draft: Draft, command: Resume) -> Reply:
    """Continue a PAUSED or FAILED run from its last checkpoint. A resume never makes a new plan."""
    run = draft.run
    if command.parent:
        late = command.letter <= run.signals.taken.get(command.parent, 0)
        if late or run.pause_reason is not PauseReason.PARENT:
            return UNCHANGED
        resume_run(draft, replace(command, reason="its parent goes on", retry_failed=False))
        _take(draft, command)
        return Reply()
    if run.status is RunStatus.FAILED and run.spec.thread_id:
        return refused(
            "THREAD_WENT_ON",
            f"the run is over for its thread {run.spec.thread_id!r}; start another one in it, or fork this one",
        )
    if run.status is RunStatus.CANCELLED:
        return refused(
            "RUN_CANCELLED", "a cancelled run is final; fork it to go on from where it was"
        )
    if run.status not in (RunStatus.PAUSED, RunStatus.FAILED):
        return UNCHANGED
    if run.pause_reason is PauseReason.BUDGET_EXHAUSTED and (why := pauses_again(draft, command)):
        return refused("BUDGET_EXHAUSTED", f"the budget is used up: {why}")
    resume_run(draft, command)
    return Reply()


def stop(draft: Draft, command: Stop) -> Reply:
    """Make the iteration in progress the last one. Without reflection, a run has only one anyway."""
    if draft.run.ended:
        return run_ended(draft.run, "there is nothing to stop")
    if draft.run.stopping:
        return UNCHANGED
    draft.event(EventType.STOP_REQUESTED, message=command.reason)
    draft.change_run(stopping=True)
    return Reply()


def raise_budget(draft: Draft, command: RaiseBudget) -> Reply:
    """Raise the run's limits; continue a run that is PAUSED for its budget, if they suffice."""
    run = draft.run
    if run.ended:
        return run_ended(draft.run, "nothing more will be used up")
    budget, lower = budgets.raised(run.budget, command.budget)
    if lower:
        return Reply(
            status=ReplyStatus.REFUSED,
            reason="BUDGET_LOWERED",
            message="a budget can only be raised",
            violations=lower,
        )
    if budget == run.budget:
        return UNCHANGED
    draft.event(EventType.BUDGET_RAISED, message=command.reason)
    budgets.disarm_wall(draft)
    draft.change_run(budget=budget)
    budgets.arm_wall(draft)
    if run.pause_reason is not PauseReason.BUDGET_EXHAUSTED:
        return Reply()
    resuming = Resume(reason=command.reason, retry_failed=False)
    why = pauses_again(draft, resuming)
    if why:
        draft.change_run(reason=why)
    elif command.resume:
        resume_run(draft, resuming)
    return Reply()
