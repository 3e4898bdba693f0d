"""Closes executions and runs: ends everything that is open, and notifies its workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack

from stepwell.core.loop import budgets, idempotency, letters, reconcile
from stepwell.core.loop.changes import ExecutionFields, ReportFields, RunFields, TaskFields
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.idempotency import TOTAL_TIMER
from stepwell.core.loop.journals import count_tries_anew, end_lease
from stepwell.core.loop.transition import Revoked
from stepwell.core.loop.waits import (
    drop_timer,
    withdraw_questions,
    withdraw_steps,
    write_to_followers,
)
from stepwell.core.records.aggregates import id_of
from stepwell.core.records.family import PAUSE
from stepwell.core.records.model import Execution, Failure, Losses
from stepwell.core.records.states import (
    OPEN,
    SETTLED,
    BlockedKind,
    EventType,
    ExecutionStatus,
    OnFailure,
    PauseReason,
    RunStatus,
    StepKind,
    TaskStatus,
)

BLOCKED_TIMER = "blocked"
"""Due when the first delayed step may be leased: the run stops being blocked on TIMER."""


def drop_total_timer(draft: Draft, task_id: str) -> None:
    """Remove the timer of a task's total time-out, if it has one."""
    if draft.spec(task_id).total_timeout_ms:
        drop_timer(draft, TOTAL_TIMER + task_id)


# --- executions -------------------------------------------------------------------------------------


def close(
    draft: Draft,
    execution: Execution,
    status: ExecutionStatus,
    *,
    reason: str = "",
    **report: Unpack[ReportFields],
) -> None:
    """End an execution and its lease; with a `reason`, the worker that still holds it is notified.

    The execution may be closed already if several are closed together.
    """
    now = draft.executions.get(execution.execution_id, execution)
    if now.status not in OPEN:
        return
    if reason and execution.status is not ExecutionStatus.READY:
        revoke(draft, execution, reason)
    if now.status is ExecutionStatus.LEASED:
        end_lease(draft, execution, status, report)
    end_execution(draft, execution, status, report)


def end_execution(
    draft: Draft, execution: Execution, status: ExecutionStatus, report: ReportFields
) -> None:
    """End an open execution whose lease has ended; if its outcome was unknown, also end its RECONCILE step."""
    fields: ExecutionFields = {**report, "status": status, "ended_us": draft.context.now_us}
    draft.change_execution(execution, **fields)
    if execution.status is ExecutionStatus.UNKNOWN_OUTCOME:
        step = reconcile.open_step_of(draft, execution.task_id)
        if step is not None:
            why = f"it is settled what became of {execution.execution_id}"
            close(draft, step, ExecutionStatus.CANCELLED, reason=why)


def revoke(draft: Draft, execution: Execution, reason: str) -> None:
    """Notify the worker that its lease has ended."""
    draft.revoked.append(
        Revoked(execution_id=execution.execution_id, worker_id=execution.worker_id, reason=reason)
    )


def make_unknown(draft: Draft, execution: Execution) -> None:
    """Mark the outcome of an AT_MOST_ONCE step as unknown: it was begun, and its worker was lost."""
    if execution.status is ExecutionStatus.UNKNOWN_OUTCOME:
        return
    report: ReportFields = {}
    end_lease(draft, execution, ExecutionStatus.UNKNOWN_OUTCOME, report)
    draft.change_execution(
        execution,
        status=ExecutionStatus.UNKNOWN_OUTCOME,
        unknown_us=draft.context.now_us,
        **report,
    )
    fields: TaskFields = {"status": TaskStatus.BLOCKED, "reconciles_spent": 0}
    if draft.task(execution.task_id).reconcile_losses.count:
        fields["reconcile_losses"] = Losses()
    draft.change_task(execution.task_id, **fields)


def withdraw_ready(draft: Draft) -> None:
    """Withdraw READY executions: no worker has them, and they spend no attempt."""
    for execution in tuple(draft.open_executions()):
        if execution.status is ExecutionStatus.READY:
            close(draft, execution, ExecutionStatus.RELEASED)
            if execution.kind is StepKind.TASK:
                draft.change_task(execution.task_id, status=TaskStatus.PENDING)


def close_open(draft: Draft, status: ExecutionStatus, task_status: TaskStatus, reason: str) -> None:
    """Close every open execution, question and wait; their tasks go to `task_status`."""
    for execution in tuple(draft.open_executions()):
        if execution.begun and task_status is TaskStatus.PENDING:
            # It may have taken effect, so a resume must not run it again.
            make_unknown(draft, execution)
            revoke(draft, execution, reason)
            continue
        close(draft, execution, status, reason=reason)
        if execution.kind is StepKind.TASK:
            _settle_task(draft, execution.task_id, task_status)
    for task_id, asks in withdraw_steps(draft).items():
        if task_id:
            _settle_task(draft, task_id, task_status, asks=asks)


def _settle_task(draft: Draft, task_id: str, status: TaskStatus, *, asks: bool = False) -> None:
    if asks and status in SETTLED:
        now_us = draft.context.now_us
        draft.change_task(task_id, status=status, question_id="", ended_us=now_us)
    elif asks:
        draft.change_task(task_id, status=status, question_id="")
    elif status in SETTLED:
        draft.change_task(task_id, status=status, ended_us=draft.context.now_us)
    else:
        draft.change_task(task_id, status=status)


def cancel_unsettled(draft: Draft) -> None:
    """Settle every unsettled task as CANCELLED, within the current event; nothing of them is open."""
    now_us = draft.context.now_us
    for task_id in draft.graph.specs:
        if draft.task(task_id).status not in SETTLED:
            draft.change_task(task_id, status=TaskStatus.CANCELLED, ended_us=now_us)


# --- tasks ------------------------------------------------------------------------------------------


def complete_task(draft: Draft, task_id: str, execution_id: str) -> None:
    """Settle a task as COMPLETED by this execution, within the current event."""
    draft.change_task(
        task_id,
        status=TaskStatus.COMPLETED,
        result_id=execution_id,
        ended_us=draft.context.now_us,
    )
    if draft.state.questions or draft.changed_questions:
        # Its calls may have asked questions without waiting for the answers.
        withdraw_questions(draft, task_id)
    drop_total_timer(draft, task_id)


def skip(draft: Draft, task_id: str, executions: Iterable[Execution]) -> None:
    """Settle a task as SKIPPED within the current event; its open executions end, and their workers are notified."""
    for execution in executions:
        close(draft, execution, ExecutionStatus.CANCELLED, reason="the task was skipped")
    withdraw_questions(draft, task_id)
    ended_us = draft.context.now_us
    draft.change_task(task_id, status=TaskStatus.SKIPPED, question_id="", ended_us=ended_us)
    drop_total_timer(draft, task_id)


def skip_dependents(draft: Draft, task_id: str) -> None:
    """Settle as SKIPPED the task's dependents at any distance that are PENDING."""
    for dependent in draft.graph.downstream(task_id):
        if draft.task(dependent).status is TaskStatus.PENDING:
            draft.change_task(dependent, status=TaskStatus.SKIPPED, ended_us=draft.context.now_us)
            if draft.task(dependent).attempts or draft.spec(dependent).idempotency_key:
                # It was offered, or waited for its key, before a plan redefined its dependencies.
                drop_total_timer(draft, dependent)


def failed_for_the_run(draft: Draft, task_id: str) -> bool:
    """Return whether a task is FAILED with a policy that fails the run."""
    failed = draft.task(task_id).status is TaskStatus.FAILED
    return failed and _policy_of(draft, task_id) is OnFailure.FAIL_RUN


def _policy_of(draft: Draft, task_id: str) -> OnFailure:
    """Return what a task's failure does: one whose group is gathered fails no run by itself."""
    policy = draft.spec(task_id).on_failure
    gatherer = draft.graph.gatherers.get(task_id)
    is_gathered = gatherer is not None and draft.is_planned(gatherer)
    fails_run = policy is OnFailure.FAIL_RUN
    return OnFailure.SKIP_DEPENDENTS if is_gathered and fails_run else policy


def fail_task(draft: Draft, task_id: str, failure: Failure, execution_id: str = "") -> None:
    """Settle a task as FAILED; its failure policy decides the consequence for the run."""
    draft.event(
        EventType.TASK_FAILED, task_id=task_id, execution_id=execution_id, message=failure.message
    )
    now_us = draft.context.now_us
    fields: TaskFields = {"status": TaskStatus.FAILED, "failure": failure, "ended_us": now_us}
    if draft.task(task_id).allowance != draft.run.allowance:
        # It timed out or was stopped by a person before it used an attempt of this allowance.
        fields |= {"spent": 0, "allowance": draft.run.allowance}
    # An answered question stays for the attempts of a later resume or retry.
    if withdraw_questions(draft, task_id):
        fields["question_id"] = ""
    draft.change_task(task_id, **fields)
    drop_total_timer(draft, task_id)
    policy = _policy_of(draft, task_id)
    if policy is OnFailure.SKIP_DEPENDENTS:
        skip_dependents(draft, task_id)
    elif policy is OnFailure.FAIL_RUN:
        fail_run(draft, failure)


def run_again(draft: Draft, task_id: str) -> None:
    """Return a settled task to PENDING; the caller opens a new allowance of attempts."""
    draft.change_task(
        task_id, status=TaskStatus.PENDING, failure=Failure(), started_us=0, ended_us=0
    )
    count_tries_anew(draft, task_id)


# --- runs -------------------------------------------------------------------------------------------


def pause_run(draft: Draft, why: PauseReason, reason: str) -> None:
    """Pause the run within the current event: withdraw READY steps, let leased ones end, pause children that follow."""
    withdraw_ready(draft)
    draft.change_run(status=RunStatus.PAUSED, pause_reason=why, reason=reason)
    write_to_followers(draft, PAUSE)


def fail_run(draft: Draft, failure: Failure) -> None:
    """End the run as FAILED and revoke its leases; a resume runs the interrupted steps again."""
    draft.event(EventType.RUN_FAILED, message=failure.message)
    close_open(draft, ExecutionStatus.CANCELLED, TaskStatus.PENDING, "the run failed")
    end_run(draft, RunStatus.FAILED, {"failure": failure})


def end_run(draft: Draft, status: RunStatus, fields: RunFields) -> None:
    """End the run within the current event, with its timers and what it is blocked on."""
    now_us = draft.context.now_us
    fields = {**fields, "status": status, "ended_us": now_us, "pause_reason": PauseReason.NONE}
    if draft.run.blocked_on is not BlockedKind.NONE:
        fields |= {"blocked_on": BlockedKind.NONE, "blocked_since_us": now_us}
        if draft.run.blocked_run_id:
            fields["blocked_run_id"] = ""
        drop_timer(draft, BLOCKED_TIMER)
    if draft.graph.keys:
        drop_timer(draft, idempotency.MORE_TIMER)
        drop_timer(draft, idempotency.KEY_TIMER)
    draft.change_run(**fields)
    parent = draft.run.spec.child_of
    if parent.run_id:
        ended = letters.RunEnded(run_id=parent.run_id, question_id=parent.question_id)
        letters.write(draft, ended)
    if draft.run.spec.thread_id:
        spec = draft.run.spec
        letters.write(draft, letters.LeaveThread(run_id=id_of(spec.tenant_id, spec.thread_id)))
    idempotency.give_up(draft)
    budgets.disarm_wall(draft)
    for task_id, spec in draft.graph.specs.items():
        task = draft.task(task_id)
        if spec.total_timeout_ms and (task.attempts or spec.idempotency_key):
            drop_timer(draft, TOTAL_TIMER + task_id)
            if task.status not in SETTLED and task.started_us:
                draft.change_task(task_id, started_us=0)
