"""Assignments: the step that a worker leases, with the results that the step depends on.

No assignment is larger than `ASSIGNMENT_BYTES_MAX`. Its parts are filled in this order: the fixed
part (the run, the task, inputs, what earlier attempts left), entries of results, bytes of results,
the first page of the journal, messages. The worker reads what doesn't fit (ReadResults,
ReadJournal, ListMessages). If the fixed part alone doesn't fit, the step fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from stepwell.core.loop import budgets, idempotency
from stepwell.core.loop.state import RunState
from stepwell.core.port import (
    INPUT_KEY,
    AssignedExecution,
    AssignedRun,
    Assignment,
    DependencyResult,
    JournalPage,
    Lease,
)
from stepwell.core.records import limits
from stepwell.core.records.cuts import cut_failure, failure_bytes, text_bytes
from stepwell.core.records.model import Execution, Failure, Message, Payload, Run, Task
from stepwell.core.records.states import SETTLED, ExecutionStatus, StepKind, TaskStatus
from stepwell.engine import conversations
from stepwell.engine.answers import asked_by
from stepwell.engine.payloads import Place
from stepwell.engine.step_journal import FIRST_PAGE, page_bytes

ASSIGNMENT_BYTES_MAX = limits.SEND_BYTES_MAX - 64 * 1024
"""Limit of an assignment, which leaves room for the rest of its message."""
TOO_LARGE = "ASSIGNMENT_TOO_LARGE"
_SHOWN = SETTLED - {TaskStatus.CANCELLED}
"""Statuses of tasks whose results are shown to steps."""
_ASSIGNMENT_BYTES = 6 * 1024
"""Limit of the fields that are not counted singly: ids, names, moments and numbers."""
_ENTRY_BYTES = 64
"""Limit of a result's entry without its ids and its failure."""
_ENTRY_BYTES_MAX = limits.ENTRY_FAILURE_BYTES_MAX + 512
"""Limit of a whole entry without its payload, with which a few entries need no counting."""
_PAYLOAD_BYTES = 16
_SIGNAL_BYTES = 64
"""Limit of a kept signal without its value, its name and its sender."""
_ID_BYTES = 8
"""The size of an item of a list or a map without its text."""


def outline(state: RunState, lease: Lease) -> Assignment:
    """Return the assignment without its payloads, from a state in which the lease is granted."""
    execution = state.open[lease.execution_id].execution
    task = state.graph.specs[execution.task_id] if execution.task_id else None
    row = state.tasks.get(execution.task_id)
    before = row.previous if row is not None else state.run.previous
    journal = row.journal if row is not None else state.run.step_journal
    results, results_before = _entries(state, listed(state, execution))
    return Assignment(
        run=_assigned(state.run),
        execution=AssignedExecution(
            execution_id=execution.execution_id,
            kind=execution.kind,
            task_id=execution.task_id,
            iteration=execution.iteration,
            attempt=execution.attempt,
        ),
        token=lease.token,
        task=task,
        results=results,
        results_before=results_before,
        lease_ms=lease.lease_ms,
        limit_ms=lease.limit_ms,
        previous_progress=before.progress,
        previous_session=before.session,
        previous_failure=_cut_previous(before.failure),
        conversation=row.messages if row is not None else 0,
        answered=asked_by(row) if task is not None else None,
        idempotency_key=idempotency.key_of(state, execution),
        remaining_budget=budgets.remaining(state.run, execution.leased_us),
        unknown_execution_id=_unknown_of(state, execution),
        tries_from=0
        if journal.is_empty or execution.kind is StepKind.RECONCILE
        else journal.tries_from,
    )


def shows_signals(run: Run, assignment: Assignment) -> bool:
    """Return whether a step is shown kept signals."""
    return run.signals.kept > 0 and assignment.execution.kind in (StepKind.PLAN, StepKind.REFLECT)


def _assigned(run: Run) -> AssignedRun:
    spec = run.spec
    return AssignedRun(
        tenant_id=spec.tenant_id,
        run_id=spec.run_id,
        goal=spec.goal,
        labels=spec.labels,
        max_iterations=spec.max_iterations,
        iteration=run.iteration,
        plan_revision=run.plan_revision,
        reason=run.reason,
        thread_id=spec.thread_id,
    )


_NO_FAILURE = Failure()


def _cut_previous(failure: Failure) -> Failure | None:
    if failure == _NO_FAILURE:
        return None
    return cut_failure(failure, limits.PREVIOUS_FAILURE_BYTES_MAX)


def _unknown_of(state: RunState, execution: Execution) -> str:
    """Return the execution whose unknown outcome a RECONCILE step is for."""
    if execution.kind is not StepKind.RECONCILE:
        return ""
    return next(
        one.execution.execution_id
        for one in state.open.values()
        if one.execution.task_id == execution.task_id
        and one.execution.status is ExecutionStatus.UNKNOWN_OUTCOME
    )


# --- results ------------------------------------------------------------------------------------------


def listed(state: RunState, execution: Execution) -> Sequence[str]:
    """Return the tasks whose results a step is shown, in their order.

    A task is shown its dependencies, a synthesis all tasks, a plan or a reflection the tasks of the
    plan in force. The cost of an iteration thus doesn't grow with earlier iterations.
    """
    specs = state.graph.specs
    if execution.task_id:
        return specs[execution.task_id].depends_on
    if execution.kind is StepKind.SYNTHESIZE:
        return tuple(specs)
    # The graph has the newest plan's tasks last.
    return tuple(islice(reversed(specs), len(state.plan_tasks)))[::-1]


def entry_of(task: Task, failure_bytes_max: int) -> DependencyResult | None:
    """Return a task's result without its bytes, or None if it has none that a step may use."""
    if task.status not in _SHOWN:
        return None
    failure = task.failure
    return DependencyResult(
        task_id=task.task_id,
        execution_id=task.result_id,
        by_reference=bool(task.result_id),
        failure=cut_failure(failure, failure_bytes_max) if failure != _NO_FAILURE else None,
        skipped=task.status is TaskStatus.SKIPPED,
        run_id=task.result_run_id,
    )


def entry_bytes(entry: DependencyResult) -> int:
    """Return the bytes that an entry without its payload takes in a message, or slightly more."""
    size = _ENTRY_BYTES + len(entry.task_id) + len(entry.execution_id) + len(entry.run_id)
    return size if entry.failure is None else size + failure_bytes(entry.failure)


def payload_bytes(payload: Payload | None) -> int:
    """Return the bytes that a payload takes in a message, or slightly more."""
    if payload is None:
        return 0
    return _PAYLOAD_BYTES + len(payload.data) + text_bytes(payload.media_type)


def _entries(state: RunState, task_ids: Sequence[str]) -> tuple[tuple[DependencyResult, ...], int]:
    """Return the last entries that fit, and the number of tasks before them."""
    if not task_ids:
        return (), 0
    room = limits.RESULT_ENTRIES_BYTES_MAX
    counts = len(task_ids) * _ENTRY_BYTES_MAX > room
    tasks = state.tasks
    entries: list[DependencyResult] = []
    for place in range(len(task_ids) - 1, -1, -1):
        entry = entry_of(tasks[task_ids[place]], limits.ENTRY_FAILURE_BYTES_MAX)
        if entry is None:
            continue
        if counts and (room := room - entry_bytes(entry)) < 0:
            return tuple(reversed(entries)), place + 1
        entries.append(entry)
    entries.reverse()
    return tuple(entries), 0


# --- payloads -----------------------------------------------------------------------------------------


def places_of(assignment: Assignment) -> list[Place]:
    """Return the places of the payloads that an assignment lacks, in the order of filling.

    Later results are nearer dependencies, so they come first.
    """
    run_id = assignment.run.run_id
    results = [_place_of(run_id, one) for one in reversed(assignment.results) if one.by_reference]
    return [(run_id, INPUT_KEY), *results]


def _place_of(run_id: str, one: DependencyResult) -> Place:
    return one.run_id or run_id, one.execution_id


def fill(
    assignment: Assignment,
    payloads: Mapping[Place, Payload | None],
    messages: Sequence[Message] = (),
    journal: JournalPage | None = None,
) -> Assignment | None:
    """Return the assignment with its payloads, or None if its fixed part alone is too large.

    `payloads` has the first of `places_of`, with None for no bytes. Results that don't fit stay
    references, a page of the journal that doesn't fit is left to the worker, and the rest is filled
    with the newest messages.
    """
    run_id = assignment.run.run_id
    run_input = payloads.get((run_id, INPUT_KEY))
    room = ASSIGNMENT_BYTES_MAX - fixed_bytes(assignment) - payload_bytes(run_input)
    if room < 0:
        return None
    results, before = assignment.results, assignment.results_before
    if results:
        kept, room = _entries_that_fit(results, room)
        before += len(results) - len(kept)
        results, room = _with_payloads(run_id, kept, payloads, room)
    if journal is not None:
        size = page_bytes(journal)
        if size > room:
            journal = JournalPage(cursor=FIRST_PAGE)
        else:
            room -= size
    if messages:
        messages = conversations.fitting(messages, min(limits.INLINE_MESSAGES_BYTES_MAX, room))
    return replace(
        assignment,
        run_input=run_input,
        results=results,
        results_before=before,
        previous_messages=tuple(messages),
        journal=journal,
    )


def _entries_that_fit(
    results: tuple[DependencyResult, ...], room: int
) -> tuple[tuple[DependencyResult, ...], int]:
    """Return the last entries that fit, and the remaining room."""
    if room >= limits.RESULT_ENTRIES_BYTES_MAX:
        return results, room - limits.RESULT_ENTRIES_BYTES_MAX
    kept = 0
    for one in reversed(results):
        if (size := entry_bytes(one)) > room:
            break
        room -= size
        kept += 1
    return results[len(results) - kept :], room


def _with_payloads(
    run_id: str,
    entries: Sequence[DependencyResult],
    payloads: Mapping[Place, Payload | None],
    room: int,
) -> tuple[tuple[DependencyResult, ...], int]:
    """Return the entries, with the bytes that fit, and the remaining room."""
    inline = min(limits.INLINE_RESULTS_BYTES_MAX, room)
    room -= inline
    results: list[DependencyResult] = []
    for one in reversed(entries):
        place = _place_of(run_id, one)
        if one.by_reference and place in payloads:
            payload = payloads[place]
            inline -= payload_bytes(payload)
            if inline >= 0:
                results.append(replace(one, payload=payload, by_reference=False))
                continue
        results.append(one)
    results.reverse()
    return tuple(results), room + max(0, inline)


# --- sizes --------------------------------------------------------------------------------------------


def fixed_bytes(assignment: Assignment) -> int:
    """Return the bytes of an assignment without results and messages, or slightly more."""
    run, task = assignment.run, assignment.task
    size, texts = _ASSIGNMENT_BYTES, run.goal + run.reason
    for key, value in run.labels.items():
        size += 2 * _ID_BYTES + len(key) + text_bytes(value)
    for payload in (assignment.run_input, assignment.previous_progress):
        if payload is not None:
            size += payload_bytes(payload)
    if task is not None:
        texts += task.prompt + task.title + task.idempotency_key
        if task.input is not None:
            size += payload_bytes(task.input)
        for one in task.depends_on:
            size += _ID_BYTES + len(one)
        for kind in task.retry.non_retryable_kinds:
            size += _ID_BYTES + text_bytes(kind)
    for signal in assignment.signals:
        size += _SIGNAL_BYTES + payload_bytes(signal.value) + text_bytes(signal.name)
        size += text_bytes(signal.actor + signal.on_behalf_of)
    size += text_bytes(texts)
    if assignment.previous_failure is not None:
        size += failure_bytes(assignment.previous_failure)
    if assignment.answered is not None:
        asked = assignment.answered
        size += payload_bytes(assignment.answer)
        size += text_bytes(asked.prompt) + text_bytes(asked.schema)
        size += sum(_ID_BYTES + text_bytes(one) for one in asked.choices)
    return size
