"""Journals of steps: their state in the run's rows, and what a lease's entries add to the run at its end.

Entries are written under a lease, without the loop. The commit that ends the lease adds the usage
and the messages of its entries once; the store refuses the commit if it has further entries. A step
is named by its task's id; "" names the PLAN, REFLECT or SYNTHESIZE step of the run's phase.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stepwell.core.loop import conversations
from stepwell.core.loop.changes import ReportFields
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.table import STEP_OF_PHASE
from stepwell.core.port import EntryWrite, Fence, JournalQuery
from stepwell.core.records.journal import Entry, entry_bytes
from stepwell.core.records.model import Execution, Message, Run, Session, Task, Usage
from stepwell.core.records.states import ExecutionStatus, StepKind
from stepwell.core.records.step_journal import Journal, journal_of

_NO_SESSION, _NO_USAGE = Session(), Usage()


def kind_of(run: Run, task_id: str) -> StepKind:
    """Return the kind of a step."""
    return StepKind.TASK if task_id else STEP_OF_PHASE[run.phase]


def name_of(run: Run, task: Task | None) -> str:
    """Return the name of the journal of a task, or of the run's current step."""
    if task is not None:
        return journal_of(StepKind.TASK, task.task_id, task.revision, 0)
    kind, reflections = STEP_OF_PHASE[run.phase], run.signals.reflections
    return journal_of(kind, "", run.plan_revision, run.iteration, reflections)


def step_name(run: Run) -> str:
    """Return the name of the run's current step, with which the ids of its attempts begin."""
    kind, again = STEP_OF_PHASE[run.phase], run.signals.reflections
    name = f"{kind.lower()}:{run.iteration}"
    return f"{name}.{again}" if again and kind is StepKind.REFLECT else name


def journal_at(draft: Draft, task_id: str) -> Journal:
    """Return the state of a step's journal."""
    return draft.task(task_id).journal if task_id else draft.run.step_journal


def put_journal(draft: Draft, task_id: str, journal: Journal) -> None:
    """Change the state of a step's journal, within the current event."""
    if task_id:
        draft.change_task(task_id, journal=journal)
    else:
        draft.change_run(step_journal=journal)


def named(draft: Draft, task_id: str) -> str:
    """Return the name of a step's journal."""
    return name_of(draft.run, draft.task(task_id) if task_id else None)


def attempt_of(draft: Draft, task_id: str) -> int:
    """Return the highest attempt number of a step."""
    return draft.task(task_id).attempts if task_id else draft.run.step_attempt


def execution_of(draft: Draft, task_id: str) -> str:
    """Return the last attempt at a step."""
    attempt = attempt_of(draft, task_id)
    if task_id:
        return f"task:{task_id}#{attempt}"
    return f"{step_name(draft.run)}#{attempt}"


def end_lease(
    draft: Draft, execution: Execution, status: ExecutionStatus, fields: ReportFields
) -> None:
    """Add a lease's recorded usage and messages once, as it ends within the current event.

    Adds to the execution's changed fields. `status` is the status at the end of the lease.
    """
    execution_id = execution.execution_id
    held = draft.state.open.get(execution_id)
    if held is None or held.execution.status is not ExecutionStatus.LEASED:
        return  # This same transition granted the lease.
    totals = held.recorded
    draft.fences[execution_id] = Fence(
        execution_id=execution_id, token=held.token, recorded=totals.entries
    )
    if not totals.entries:
        return
    fields["journal_entries"] = totals.entries
    if totals.usage != _NO_USAGE:
        fields["usage"] = totals.usage
        draft.change_run(usage=draft.run.usage + totals.usage)
    if totals.messages:
        messages = _messages_of(draft, execution, totals.entries)
        conversations.append(draft, execution, messages, _NO_SESSION, fields)
    if status is ExecutionStatus.COMPLETED and execution.kind is not StepKind.TASK:
        return  # The run's row already describes the next step.
    journal = journal_at(draft, execution.task_id)
    _put_larger(draft, execution.task_id, journal, totals.entries, totals.bytes)


def own_messages(draft: Draft, execution: Execution) -> int:
    """Return the number of messages that an execution's worker has appended, without those of its entries."""
    if not execution.journal_entries:
        return execution.messages  # Its lease hasn't ended yet, or wrote nothing.
    recorded = _messages_of(draft, execution, execution.journal_entries)
    return execution.messages - len(recorded)


def _messages_of(draft: Draft, execution: Execution, entries: int) -> Sequence[Message]:
    """Return the messages of an execution's entries, of which this many are known; none while they are asked for."""
    state = draft.state
    task = state.tasks[execution.task_id] if execution.kind is StepKind.TASK else None
    query = JournalQuery(
        tenant_id=state.run.spec.tenant_id,
        run_id=state.run.spec.run_id,
        journal=name_of(state.run, task),
        execution_id=execution.execution_id,
        names_only=True,
        limit=entries,
    )
    return [each for one in draft.read(query) or () for each in one.entry.messages]


def write_end(draft: Draft, task_id: str, entry: Entry) -> None:
    """Write a call's END by this commit, within the current event."""
    journal = journal_at(draft, task_id)
    write = EntryWrite(
        journal=named(draft, task_id),
        generation=journal.generation,
        entry=entry,
    )
    draft.entries += (write,)
    _put_larger(draft, task_id, journal, 1, entry_bytes(entry))


def _put_larger(draft: Draft, task_id: str, journal: Journal, entries: int, size: int) -> None:
    after = replace(journal, entries=journal.entries + entries, bytes=journal.bytes + size)
    put_journal(draft, task_id, after)


def count_tries_anew(draft: Draft, task_id: str) -> None:
    """Stop counting the tries of a step's calls so far, within the current event."""
    journal = journal_at(draft, task_id)
    tries_from = attempt_of(draft, task_id) + 1
    if journal.entries and journal.tries_from != tries_from:
        put_journal(draft, task_id, replace(journal, tries_from=tries_from))
