"""Settles unknown outcomes of AT_MOST_ONCE steps, by the finding of a RECONCILE step or of a person.

A late delivery of the lost worker also settles the outcome: it goes through `deliveries.deliver`,
like any delivery. The first of the three counts; the others then find no unknown outcome.
"""

from __future__ import annotations

from stepwell.core.loop import reconcile, unknown_calls
from stepwell.core.loop.attempts import carry_over, drop_carryover, end_attempt
from stepwell.core.loop.changes import ReportFields
from stepwell.core.loop.closing import close, complete_task
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.failures import fail_task
from stepwell.core.loop.occurrences import Delivery, Reconciled, Resolve
from stepwell.core.loop.transition import Reply, refused
from stepwell.core.records.model import Execution, Failure, Outcome, Payload
from stepwell.core.records.states import EventType, ExecutionStatus, Finding, RunStatus, TaskStatus

_FINDINGS = {
    Finding.DONE: "its effect took place",
    Finding.NOT_DONE: "its effect did not take place",
    Finding.UNDECIDED: "it can't be told whether its effect took place",
}


def resolve(draft: Draft, command: Resolve) -> Reply:
    """Settle an unknown outcome by a person's finding."""
    held = draft.held(command.execution_id)
    if held is None or held.execution.status is not ExecutionStatus.UNKNOWN_OUTCOME:
        return refused(
            "OUTCOME_NOT_UNKNOWN",
            f"there is no execution {command.execution_id!r} in this run whose outcome is unknown",
        )
    if draft.run.status is RunStatus.FAILED:
        return refused("RUN_ENDED", "the run has failed; resume it first")
    unknown = held.execution
    if (refusal := unknown_calls.refusal(unknown, command)) is not None:
        return refusal
    _write_resolved(draft, unknown, "a person", command.finding, command.reason)
    if command.call:
        unknown_calls.resolve_call(draft, unknown, command)
        return Reply()
    _settle(draft, unknown, command.finding, command.result, command.failure)
    return Reply()


def reconciled(draft: Draft, execution: Execution, delivery: Delivery, result: Reconciled) -> Reply:
    """Apply the finding of a RECONCILE step."""
    unknown = reconcile.unknown_of(draft, execution.task_id)
    assert unknown is not None, "a RECONCILE step ends with the unknown outcome that it is for"
    by = execution.execution_id
    if result.finding is Finding.UNDECIDED:
        message = _message(by, result.finding, result.reason)
        reconcile.leave_to_a_person(draft, execution.task_id, message)
        end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
        return Reply()
    _write_resolved(draft, unknown, by, result.finding, result.reason)
    end_attempt(draft, execution, ExecutionStatus.COMPLETED, delivery)
    _settle(draft, unknown, result.finding, result.result, Failure())
    return Reply()


def _write_resolved(
    draft: Draft, unknown: Execution, by: str, finding: Finding, reason: str
) -> None:
    draft.event(
        EventType.OUTCOME_RESOLVED,
        task_id=unknown.task_id,
        execution_id=unknown.execution_id,
        message=_message(by, finding, reason),
    )


def _message(by: str, finding: Finding, reason: str) -> str:
    message = f"{by}: {_FINDINGS[finding]}"
    return f"{message}: {reason}" if reason else message


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
        carry_over(draft, unknown, session=unknown.session, progress=None, failure=failure)
        close(draft, unknown, ExecutionStatus.FAILED, reason=reason, failure=failure)
        fail_task(draft, task_id, failure, execution_id)
        return
    fields: ReportFields = {}
    if result is not None:
        fields["has_result"] = True
        draft.put_outcome(Outcome(execution_id=execution_id, result=result))
    drop_carryover(draft, unknown)
    close(draft, unknown, ExecutionStatus.COMPLETED, reason=reason, **fields)
    draft.event(EventType.TASK_COMPLETED, task_id=task_id, execution_id=execution_id)
    complete_task(draft, task_id, execution_id)
