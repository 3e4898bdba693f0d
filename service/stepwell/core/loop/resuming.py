"""Resumes runs: which failed tasks run again, and whether the budget lets the run continue."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from stepwell.core.loop import budgets
from stepwell.core.loop.changes import RunFields
from stepwell.core.loop.closing import failed_for_the_run, run_again, skip_dependents
from stepwell.core.loop.dispatch import settle
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.gathering import stopped
from stepwell.core.loop.journals import count_tries_anew
from stepwell.core.loop.occurrences import Resume
from stepwell.core.loop.waits import write_to_followers
from stepwell.core.records.family import RESUME
from stepwell.core.records.graph import Graph
from stepwell.core.records.model import Failure, Run, Task
from stepwell.core.records.states import (
    EventType,
    OnFailure,
    PauseReason,
    Phase,
    RunStatus,
    TaskStatus,
)


def pauses_again(draft: Draft, command: Resume) -> str:
    """Return why a resume would pause the run again at once; empty if it would not."""
    trial = Draft(draft.state, draft.context)
    trial.run = draft.run
    resume_run(trial, command)
    settle(trial)
    return trial.run.reason if trial.run.status is RunStatus.PAUSED else ""


def resume_run(draft: Draft, command: Resume) -> None:
    """Continue a PAUSED or FAILED run.

    A kept failure stops its dependents, and fails the run once everything else is settled
    (`phases.leave_finished_phase`).
    """
    run = draft.run
    failed = run.status is RunStatus.FAILED
    draft.event(EventType.RUN_RESUMED, message=command.reason)
    retried = _failed_tasks(draft) if command.retry_failed else []
    fields: RunFields = {
        "status": RunStatus.RUNNING if run.started_us else RunStatus.QUEUED,
        "pause_reason": PauseReason.NONE,
        # A planner gets the reason for planning, also after a pause.
        "reason": command.reason or (run.reason if run.phase is Phase.PLANNING else ""),
    }
    if failed or retried:
        fields["allowance"] = run.allowance + 1
    if failed:
        fields |= {"failure": Failure(), "ended_us": 0, "step_spent": 0}
        count_tries_anew(draft, "")
    if run.pause_reason is PauseReason.NO_PROGRESS:
        fields["tally"] = replace(run.tally, repeats=0, turns=0)
    draft.change_run(**fields)
    write_to_followers(draft, RESUME)
    for task_id in retried:
        run_again(draft, task_id)
    if failed:
        budgets.arm_wall(draft)
        for task_id in draft.graph.specs:
            if draft.task(task_id).status is TaskStatus.PENDING:
                count_tries_anew(draft, task_id)
            if failed_for_the_run(draft, task_id) and draft.is_planned(task_id):
                skip_dependents(draft, task_id)


def _failed_tasks(draft: Draft) -> list[str]:
    """Return the tasks that a resume runs again: failures that stopped something, and what they stopped.

    A failed task whose dependents ran nevertheless stays failed.
    """
    if draft.run.phase is Phase.PLANNING:
        # A task failed the run while another plan was being made. It is not known yet whether that
        # plan names the task.
        return [task_id for task_id in draft.graph.specs if failed_for_the_run(draft, task_id)]
    if draft.run.phase is not Phase.EXECUTING:
        return []
    again = tasks_to_repeat(
        draft.graph,
        lambda one: draft.task(one).status,
        draft.is_planned,
        lambda one: was_kept(draft.run, draft.task(one)),
    )
    return [task_id for task_id in draft.graph.specs if task_id in again]


def was_kept(run: Run, failed: Task) -> bool:
    """Return whether a failure that fails its run was kept by an earlier resume, which skipped its dependents.

    Each resume of a FAILED run opens a new allowance, and a failed task has the allowance in which
    it failed.
    """
    return failed.allowance < run.allowance


def tasks_to_repeat(
    tasks: Graph,
    status_of: Callable[[str], TaskStatus],
    is_planned: Callable[[str], bool],
    was_kept: Callable[[str], bool],
) -> frozenset[str]:
    """Return the failures that stopped something, and the tasks that were skipped because of them.

    A failed task whose dependents ran stays failed. So does a task that the plan in force doesn't
    name, because the planner knew of its failure, and one of a group whose failures were tolerated; where they were too
    many, the group's tasks without a result run again with the task that gathers them. A task that a person skipped was stopped by no
    failure.
    """

    def is_gathered(task_id: str) -> bool:
        return task_id in tasks.gatherers and is_planned(tasks.gatherers[task_id])

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
        and not is_gathered(task_id)
        and is_end(task_id)
    ]
    groups = [one for task_id in failed for one in stopped(tasks, task_id, status_of)]
    repeated = {*failed, *groups}
    skips = OnFailure.SKIP_DEPENDENTS
    below = [k for k in failed if tasks.specs[k].on_failure is skips or was_kept(k)]
    below += groups
    seen = set(below)
    for task_id in below:
        for dependent in tasks.direct_dependents(task_id):
            if dependent in seen:
                continue
            seen.add(dependent)
            below.append(dependent)
            if status_of(dependent) is TaskStatus.SKIPPED and is_end(dependent):
                repeated.add(dependent)
    return frozenset(repeated)
