"""AT_MOST_ONCE calls with an unknown outcome, and calls that a worker drops from its step's journal."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.attempts import keep_report, leased_by
from stepwell.core.loop.changes import ExecutionFields
from stepwell.core.loop.closing import close
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.journals import journal_at, put_journal, write_end
from stepwell.core.loop.occurrences import Delivery, Forget, Resolve, UnknownCall
from stepwell.core.loop.reconcile import open_step_of
from stepwell.core.loop.transition import LEASE_LOST, UNCHANGED, Reply, refused
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Execution, Failure
from stepwell.core.records.states import (
    Effect,
    EventType,
    ExecutionStatus,
    Finding,
    JournalMark,
    StepKind,
    TaskStatus,
)


def call_unknown(
    draft: Draft, execution: Execution, delivery: Delivery, result: UnknownCall
) -> Reply:
    """Keep a step open, without a lease, until a person resolves its call; spends no attempt."""
    unknown = ExecutionStatus.UNKNOWN_OUTCOME
    message = f"{result.call}: {result.reason}" if result.reason else result.call
    draft.event(
        EventType.OUTCOME_UNKNOWN,
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        message=message,
    )
    fields: ExecutionFields = {
        **keep_report(draft, execution, unknown, delivery),
        "unknown_call": result.call,
    }
    if execution.status is not unknown:
        fields |= {"status": unknown, "unknown_us": draft.context.now_us}
    draft.change_execution(execution, **fields)
    if execution.kind is StepKind.TASK:
        draft.change_task(execution.task_id, status=TaskStatus.BLOCKED)
        if (step := open_step_of(draft, execution.task_id)) is not None:
            why = "its worker has ended the attempt whose outcome was unknown"
            close(draft, step, ExecutionStatus.CANCELLED, reason=why)
    return Reply()


def resolve_call(draft: Draft, unknown: Execution, command: Resolve) -> None:
    """Resolve a call by a person's finding, within the current event; the step continues with another attempt."""
    task_id = unknown.task_id
    if command.finding is Finding.DONE:
        entry = Entry(key=command.call, effect=Effect.AT_MOST_ONCE, value=command.result)
        write_end(draft, task_id, entry)
    else:
        draft.forgotten += command.begun
        journal = journal_at(draft, task_id)
        here = sum(one.generation == journal.generation for one in command.begun)
        if here:
            entries = max(0, journal.entries - here)
            put_journal(draft, task_id, replace(journal, entries=entries))
    close(draft, unknown, ExecutionStatus.RELEASED)
    if task_id:
        draft.change_task(task_id, status=TaskStatus.PENDING)


def refusal(unknown: Execution, command: Resolve) -> Reply | None:
    """Return the refusal of a finding that doesn't fit an execution's unknown outcome, or None if it fits."""
    if command.call != unknown.unknown_call:
        what = f"the call {unknown.unknown_call!r}" if unknown.unknown_call else "the task's effect"
        return refused(
            "OUTCOME_NOT_UNKNOWN",
            f"of execution {unknown.execution_id!r} it is unknown what became of {what}: name that",
        )
    if command.call and command.failure != Failure():
        return refused(
            "CALL_FAILURE",
            "a call that took effect has a value and no failure; let the step's next attempt fail it",
        )
    return None


def forget(draft: Draft, one: Forget) -> Reply:
    """Drop calls from the journal of a running step, once; drop none if one of them has begun."""
    execution = leased_by(draft, one.execution_id, one.token)
    if execution is None or execution.status is not ExecutionStatus.LEASED:
        return LEASE_LOST
    if one.number <= execution.forget_number:
        return UNCHANGED
    for each in one.entries:
        if each.entry.mark is JournalMark.BEGIN:
            what = f"the AT_MOST_ONCE call {each.entry.key!r} has begun: it can't be forgotten"
            return refused("CALL_BEGUN", what)
    # Also for calls without entries: their number keeps a repetition from dropping later entries.
    for call in one.calls:
        draft.event(
            EventType.JOURNAL_FORGOTTEN,
            task_id=execution.task_id,
            execution_id=one.execution_id,
            message=call,
        )
    draft.change_execution(execution, forget_number=one.number)
    draft.forgotten += one.entries
    journal = journal_at(draft, execution.task_id)
    answered = tuple(call for call in journal.answered if call not in one.calls)
    if answered != journal.answered:
        put_journal(draft, execution.task_id, replace(journal, answered=answered))
    return Reply()
