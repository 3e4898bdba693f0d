"""Commands to a task of a run: retry it, skip it."""

from __future__ import annotations

from stepwell.core.loop.closing import (
    close,
    run_again,
    skip,
    skip_dependents,
)
from stepwell.core.loop.dispatch import offer_task
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.gathering import stopped
from stepwell.core.loop.journals import count_tries_anew
from stepwell.core.loop.occurrences import RetryTask, SkipTask
from stepwell.core.loop.renewals import renew
from stepwell.core.loop.transition import UNCHANGED, Reply, refused, run_ended
from stepwell.core.records.model import Execution
from stepwell.core.records.states import (
    SETTLED,
    EventType,
    ExecutionStatus,
    OnFailure,
    Phase,
    RunStatus,
    TaskStatus,
)

_NOT_BEGUN = frozenset({TaskStatus.PENDING, TaskStatus.SKIPPED})


def skip_task(draft: Draft, command: SkipTask) -> Reply:
    """Settle a task as SKIPPED. Its worker is notified, and later deliveries are LEASE_LOST."""
    task_id = command.task_id
    refusal = _refusal(draft, task_id, "there is nothing to skip")
    if refusal is not None:
        return refusal
    status = draft.task(task_id).status
    if status is TaskStatus.SKIPPED:
        return UNCHANGED
    if status in SETTLED:
        return refused(
            "TASK_STATUS", f"task {task_id!r} is {status}; only one that isn't settled is skipped"
        )
    draft.event(EventType.TASK_SKIPPED, task_id=task_id, message=command.reason)
    skip(draft, task_id, _open_of(draft, task_id))
    if command.skip_dependents:
        skip_dependents(draft, task_id)
    return Reply()


def retry_task(draft: Draft, command: RetryTask) -> Reply:
    """Run a FAILED or SKIPPED task again, or end the back-off that a task waits for."""
    task_id = command.task_id
    if draft.run.status is RunStatus.FAILED:
        return refused(
            "RUN_ENDED", "the run has failed; resume it: its failed tasks run again then"
        )
    refusal = _refusal(draft, task_id, "fork it to run a task of it again")
    if refusal is not None:
        return refusal
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
    again = [task_id, *stopped(draft.graph, task_id, lambda one: draft.task(one).status)]
    again += [below for one in again for below in _skipped_because_of(draft, one)]
    draft.change_run(allowance=draft.run.allowance + 1)
    for one in dict.fromkeys(again):
        run_again(draft, one)
    if command.fresh:
        renew(draft, task_id, "a person has asked for it")
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
    count_tries_anew(draft, task_id)
    offer_task(draft, task_id)
    if command.fresh:
        renew(draft, task_id, "a person has asked for it")
    return Reply()


def _refusal(draft: Draft, task_id: str, why: str) -> Reply | None:
    """Return the refusal of a command to a task, or None if the run has this task and has not ended."""
    if draft.run.ended:
        return run_ended(draft.run, why)
    if task_id not in draft.graph.specs:
        return refused("TASK_NOT_FOUND", f"there is no task {task_id!r} in this run")
    return None


def _open_of(draft: Draft, task_id: str) -> list[Execution]:
    return [one for one in draft.open_executions() if one.task_id == task_id]


def _is_built_on(draft: Draft, task_id: str) -> bool:
    """Return whether another step depends on the task's result, so that it can't run again."""
    if draft.run.phase is not Phase.EXECUTING or not draft.is_planned(task_id):
        return True
    dependents = draft.graph.dependents.get(task_id, ())
    return any(draft.task(one).status not in _NOT_BEGUN for one in dependents)


def _skipped_because_of(draft: Draft, task_id: str) -> list[str]:
    """Return the dependents that are SKIPPED because of this task alone and that nothing depends on."""
    return [
        one
        for one in draft.graph.downstream(task_id)
        if draft.task(one).status is TaskStatus.SKIPPED
        and not _is_built_on(draft, one)
        and not _is_skipped_by_another(draft, one, but=task_id)
    ]


def _is_skipped_by_another(draft: Draft, task_id: str, *, but: str) -> bool:
    """Return whether the failure of a dependency other than `but` skips this task."""
    seen = {but}
    above = list(draft.spec(task_id).depends_on)
    for one in above:
        if one in seen:
            continue
        seen.add(one)
        policy = draft.spec(one).on_failure
        if draft.task(one).status is TaskStatus.FAILED and policy is not OnFailure.CONTINUE:
            return True
        above.extend(draft.spec(one).depends_on)
    return False
