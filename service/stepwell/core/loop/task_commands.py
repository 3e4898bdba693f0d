"""What people change of a run on its way: retry a task, skip one, stop early, allow more."""

from __future__ import annotations

from stepwell.core.loop import budgets
from stepwell.core.loop.dispatch import close, offer_task, withdraw_inputs
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.run_commands import (
    UNCHANGED,
    drop_total_timer,
    go_on,
    refused,
    skip_dependents,
    stays_paused,
)
from stepwell.core.loop.signals import (
    RaiseBudget,
    Reply,
    ReplyStatus,
    Resume,
    RetryTask,
    SkipTask,
    Stop,
)
from stepwell.core.records.model import Execution, Failure
from stepwell.core.records.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    OnFailure,
    PauseReason,
    Phase,
    RunStatus,
    TaskStatus,
)

_NOT_BEGUN = frozenset({TaskStatus.PENDING, TaskStatus.SKIPPED})


def stop(draft: Draft, command: Stop) -> Reply:
    """Let the iteration in progress be the last. A run without reflection has no other anyway."""
    if draft.run.ended:
        return _ended(draft, "there is nothing to stop")
    if draft.run.stopping:
        return UNCHANGED
    draft.event(EventType.STOP_REQUESTED, message=command.reason)
    draft.change_run(stopping=True)
    return Reply()


def skip_task(draft: Draft, command: SkipTask) -> Reply:
    """Settle a task as SKIPPED. Its worker is told, and nothing that it says counts any more."""
    task_id = command.task_id
    no = _refusal(draft, task_id, "there is nothing to skip")
    if no is not None:
        return no
    status = draft.task(task_id).status
    if status is TaskStatus.SKIPPED:
        return UNCHANGED
    if status in SETTLED:
        return refused(
            "TASK_STATUS", f"task {task_id!r} is {status}; only one that isn't settled is skipped"
        )
    draft.event(EventType.TASK_SKIPPED, task_id=task_id, message=command.reason)
    for execution in _open_of(draft, task_id):
        close(draft, execution, ExecutionStatus.CANCELLED, reason="the task was skipped")
    withdraw_inputs(draft, task_id)
    ended_us = draft.context.now_us
    draft.change_task(task_id, status=TaskStatus.SKIPPED, input_id="", ended_us=ended_us)
    drop_total_timer(draft, task_id)
    if command.skip_dependents:
        skip_dependents(draft, task_id)
    return Reply()


def retry_task(draft: Draft, command: RetryTask) -> Reply:
    """Run a task again that FAILED or was SKIPPED; or at once one that waits for its back-off."""
    task_id = command.task_id
    if draft.run.status is RunStatus.FAILED:
        return refused(
            "RUN_ENDED", "the run has failed; resume it: its failed tasks run again then"
        )
    no = _refusal(draft, task_id, "fork it to run a task of it again")
    if no is not None:
        return no
    status = draft.task(task_id).status
    if status is TaskStatus.READY:
        return _retry_now(draft, command)
    if status not in (TaskStatus.FAILED, TaskStatus.SKIPPED):
        return refused(
            "TASK_STATUS",
            f"task {task_id!r} is {status}; only one that FAILED, was SKIPPED or waits for a back-off"
            " is run again",
        )
    if _is_built_on(draft, task_id):
        return refused(
            "TASK_BUILT_ON",
            f"something was built on task {task_id!r} being {status} already; fork the run from a"
            " version before that",
        )
    draft.event(EventType.TASK_RETRY_REQUESTED, task_id=task_id, message=command.reason)
    again = [task_id, *_skipped_because_of(draft, task_id)]
    draft.change_run(allowance=draft.run.allowance + 1)
    for one in again:
        draft.change_task(
            one, status=TaskStatus.PENDING, failure=Failure(), started_us=0, ended_us=0
        )
    return Reply()


def _retry_now(draft: Draft, command: RetryTask) -> Reply:
    task_id = command.task_id
    waiting = [one for one in _open_of(draft, task_id) if one.delay_ms]
    if not waiting:
        return refused(
            "TASK_STATUS", f"task {task_id!r} is READY: it waits for a worker, and for nothing else"
        )
    draft.event(EventType.TASK_RETRY_REQUESTED, task_id=task_id, message=command.reason)
    close(draft, waiting[0], ExecutionStatus.RELEASED)
    offer_task(draft, task_id)
    return Reply()


def raise_budget(draft: Draft, command: RaiseBudget) -> Reply:
    """Allow the run more; one that is PAUSED for its budget goes on, if that is enough."""
    run = draft.run
    if run.ended:
        return _ended(draft, "nothing more will be used up")
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
    going_on = Resume(reason=command.reason, retry_failed=False)
    words = stays_paused(draft, going_on)
    if words:
        draft.change_run(reason=words)
    elif command.resume:
        go_on(draft, going_on)
    return Reply()


def _ended(draft: Draft, why: str) -> Reply:
    return refused("RUN_ENDED", f"the run is over, {draft.run.status}; {why}")


def _refusal(draft: Draft, task_id: str, why: str) -> Reply | None:
    """Return why nothing can be done to a task of this run; None: it can."""
    if draft.run.ended:
        return _ended(draft, why)
    if task_id not in draft.graph.specs:
        return refused("TASK_NOT_FOUND", f"there is no task {task_id!r} in this run")
    return None


def _open_of(draft: Draft, task_id: str) -> list[Execution]:
    return [one for one in draft.open_executions() if one.task_id == task_id]


def _is_built_on(draft: Draft, task_id: str) -> bool:
    """Tell whether a step was shown how the task was settled, or will be: then it can't be taken back."""
    if draft.run.phase is not Phase.EXECUTING or not draft.is_planned(task_id):
        return True
    dependents = draft.graph.dependents.get(task_id, ())
    return any(draft.task(one).status not in _NOT_BEGUN for one in dependents)


def _skipped_because_of(draft: Draft, task_id: str) -> list[str]:
    """Return the tasks below that are SKIPPED for no other task's sake and that nothing is built on."""
    return [
        one
        for one in draft.graph.downstream(task_id)
        if draft.task(one).status is TaskStatus.SKIPPED
        and not _is_built_on(draft, one)
        and not _skips(draft, one, but=task_id)
    ]


def _skips(draft: Draft, task_id: str, *, but: str) -> bool:
    """Tell whether a task above it, another than `but`, FAILED with a policy that skips it."""
    seen = {but}
    above = list(draft.spec(task_id).depends_on)
    for one in above:
        if one in seen:
            continue
        seen.add(one)
        policy = draft.spec(one).on_failure
        if draft.task(one).status is TaskStatus.FAILED and policy is OnFailure.SKIP_DEPENDENTS:
            return True
        above.extend(draft.spec(one).depends_on)
    return False
