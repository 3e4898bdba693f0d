"""What became of AT_MOST_ONCE steps: an unknown outcome is settled by a RECONCILE step or by a person.

There is a third way, a late outcome of the worker that was lost: that one goes through `outcomes.deliver`
like any other. Whichever comes first settles it; the others find nothing that is unknown any more.
"""

from __future__ import annotations

from stepwell.core.loop import carryover, idempotency, reconcile
from stepwell.core.loop.attempts import end_attempt
from stepwell.core.loop.dispatch import close
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_task
from stepwell.core.loop.run_commands import drop_total_timer, refused
from stepwell.core.loop.signals import Delivery, Reconciled, Reply, Resolve
from stepwell.core.records.model import Execution, Failure, Outcome, Payload
from stepwell.core.records.states import EventType, ExecutionStatus, Finding, RunStatus, TaskStatus

_SAID = {
    Finding.DONE: "its effect took place",
    Finding.NOT_DONE: "its effect did not take place",
    Finding.UNDECIDED: "it can't be told whether its effect took place",
}


def resolve(draft: Draft, command: Resolve) -> Reply:
    """Take what a person found out about an unknown outcome."""
    held = draft.held(command.execution_id)
    if held is None or held.execution.status is not ExecutionStatus.UNKNOWN_OUTCOME:
        return refused(
            "OUTCOME_NOT_UNKNOWN",
            f"there is no execution {command.execution_id!r} in this run whose outcome is unknown",
        )
    if draft.run.status is RunStatus.FAILED:
        return refused("RUN_ENDED", "the run has failed; resume it first")
    unknown = held.execution
    _tell(draft, unknown, "a person", command.finding, command.reason)
    _settle(draft, unknown, command.finding, command.result, command.failure)
    return Reply()


def reconciled(draft: Draft, execution: Execution, delivery: Delivery, result: Reconciled) -> Reply:
    """Take what a RECONCILE step found out."""
    unknown = reconcile.unknown_of(draft, execution.task_id)
    assert unknown is not None, "a RECONCILE step ends with the outcome that it looks into"
    by = execution.execution_id
    if result.finding is Finding.UNDECIDED:
        words = f"{by}: {_SAID[result.finding]}"
        words = f"{words}: {result.reason}" if result.reason else words
        reconcile.leave_to_a_person(draft, execution.task_id, words)
        end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
        return Reply()
    _tell(draft, unknown, by, result.finding, result.reason)
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    _settle(draft, unknown, result.finding, result.result, Failure())
    return Reply()


def complete_task(draft: Draft, task_id: str, execution_id: str) -> None:
    """Settle a task as COMPLETED by this execution, within the current event."""
    draft.change_task(
        task_id,
        status=TaskStatus.COMPLETED,
        result_id=execution_id,
        ended_us=draft.context.now_us,
    )
    drop_total_timer(draft, task_id)
    idempotency.note_completed(draft, task_id, execution_id)


def _tell(draft: Draft, unknown: Execution, by: str, finding: Finding, reason: str) -> None:
    words = f"{by}: {_SAID[finding]}"
    draft.event(
        EventType.OUTCOME_RESOLVED,
        task_id=unknown.task_id,
        execution_id=unknown.execution_id,
        message=f"{words}: {reason}" if reason else words,
    )


def _settle(
    draft: Draft, unknown: Execution, finding: Finding, result: Payload | None, failure: Failure
) -> None:
    task_id, execution_id = unknown.task_id, unknown.execution_id
    reason = "it was settled what became of it"
    if finding is Finding.NOT_DONE:
        close(draft, unknown, ExecutionStatus.RELEASED, reason=reason)
        draft.change_task(task_id, status=TaskStatus.PENDING)
        return
    if failure != Failure():
        carryover.leave(draft, unknown, session=unknown.session, progress=None, failure=failure)
        close(draft, unknown, ExecutionStatus.FAILED, reason=reason, failure=failure)
        fail_task(draft, task_id, failure, execution_id)
        return
    left = {"has_result": True} if result is not None else {}
    if result is not None:
        draft.outcomes.append(Outcome(execution_id=execution_id, result=result))
    carryover.forget(draft, unknown)
    close(draft, unknown, ExecutionStatus.COMPLETED, reason=reason, **left)
    draft.event(EventType.TASK_COMPLETED, task_id=task_id, execution_id=execution_id)
    complete_task(draft, task_id, execution_id)
