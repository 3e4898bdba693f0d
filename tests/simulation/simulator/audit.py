"""The last look: a full dump of the store against all that was witnessed on the way there."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from stepwell.core.port import Store
from stepwell.core.records.events import Event
from stepwell.core.records.fold import empty_rows, fold_on
from stepwell.core.records.model import Execution, Task
from stepwell.core.records.states import EventType, ExecutionStatus, StepKind, TaskStatus
from tests.simulation.simulator.book import Book
from tests.simulation.simulator.ledger import Ledger
from tests.simulation.simulator.talking import audit_talk
from tests.simulation.simulator.violation import holds


async def audit(store: Store, ledger: Ledger) -> None:
    """Check every run of the store, and the feed over all of them.

    Raises:
        InvariantViolation: something doesn't hold.
    """
    for book in ledger.books.values():
        for check in _CHECKS:
            await check(store, book)
        _accepted_results(book, ledger)
    await _feed(store, ledger)


async def _rows_are_kept(store: Store, book: Book) -> None:
    """Every applied commit is in the store, and nothing else is (S3, S5)."""
    run = await store.get_run(*book.key)
    holds(run == book.run, "S3", f"{book.key}: the run's row isn't that of its last commit")
    tasks: dict[str, Task] = {}
    cursor = ""
    while True:
        page = await store.list_tasks(*book.key, cursor=cursor)
        tasks.update((task.task_id, task) for task in page.tasks)
        cursor = page.cursor
        if not cursor:
            break
    holds(tasks == book.tasks, "S3", f"{book.key}: tasks")
    executions: dict[str, Execution] = {}
    while True:
        found = await store.list_executions(*book.key, cursor=cursor)
        executions.update((one.execution_id, one) for one in found.executions)
        cursor = found.cursor
        if not cursor:
            break
    holds(executions == book.executions, "S3", f"{book.key}: executions")


async def _events_are_kept(store: Store, book: Book) -> None:
    """The log is 1..n, each once, whatever the page (E1, E8)."""
    events: list[Event] = []
    while True:
        page = await store.read_events(*book.key, after=len(events), limit=5)
        if page is None or not page.events:
            break
        events.extend(page.events)
        whole = len(events) == len(book.events) or (
            book.events[len(events)].version != events[-1].version
        )
        holds(whole, "E8", f"{book.key}: a page splits v{events[-1].version}")
    holds(events == book.events, "E1", f"{book.key}: {len(events)} of {len(book.events)} events")


async def _folds(_store: Store, book: Book) -> None:
    """The events up to v, folded, give the rows at v (S20)."""
    if book.run is None:
        return
    last = book.version
    at, rows, folded = Book(*book.key), empty_rows(book.run.spec), 0
    for version in sorted({last, max(1, last // 2), max(1, last - 1)}):
        for applied in book.applied[at.version : version]:
            at.write(applied)
        rows = fold_on(rows, book.plans, at.events[folded:])
        folded = len(at.events)
        name = f"{book.key} at v{version}"
        holds(rows.run == at.run, "S20", name, "the run's row")
        holds(rows.tasks == at.tasks, "S20", name, "tasks")
        holds(rows.executions == at.executions, "S20", name, "executions")
        holds(rows.inputs == at.inputs, "S20", name, "inputs")


async def _results_are_kept(store: Store, book: Book) -> None:
    """Each accepted result has the bytes that were accepted (S7)."""
    keys = sorted(book.outcomes)
    outcomes = await store.read_outcomes(*book.key, keys)
    holds(list(outcomes) == [book.outcomes[key] for key in keys], "S7", f"{book.key}: outcomes")
    payloads = {one.key: one.payload for one in await store.read_payloads(*book.key, keys)}
    for key, outcome in book.outcomes.items():
        holds(payloads.get(key) == outcome.result, "S7", f"{book.key}: bytes of {key}")


def _accepted_results(book: Book, ledger: Ledger) -> None:
    """A completed step has one accepted attempt, and what it left is what its worker sent."""
    completed: dict[tuple[str, int], str] = {}
    for execution in book.executions.values():
        if execution.status is not ExecutionStatus.COMPLETED:
            continue
        name = execution.execution_id
        lease, outcome = book.leases.get(name), book.outcomes.get(name)
        if lease is None or (outcome is not None and not outcome.response):
            # Born of another's result, or found out about: nothing that its own worker sent.
            settled = lease is None or execution.begun
            holds(settled, "S7", f"{book.key}: {name} was completed by nobody")
        elif outcome is not None:
            sent = ledger.deliveries.get(lease.token)
            right = sent is not None and outcome.response == lease.token == sent.response
            holds(right, "S7", f"{book.key}: {name} holds what another attempt sent")
            assert sent is not None
            # What a RECONCILE step found is kept under the execution that it looked into.
            found = execution.kind is StepKind.RECONCILE
            data = None if found else getattr(sent.result, "result", None)
            holds(data == outcome.result, "S7", f"{book.key}: {name} holds other bytes")
        if execution.kind is StepKind.TASK:
            revision = _revision_at(book, name)
            other = completed.setdefault((execution.task_id, revision), name)
            holds(other == name, "S18", f"{book.key}: both {other} and {name} were accepted")
            if ledger.clocks_lie:
                holds(other == name, "C1", f"{book.key}: both {other} and {name} were accepted")
    for task in book.tasks.values():
        if task.result_run_id:
            done = ledger.book((book.key[0], task.result_run_id)).executions[task.result_id]
            kept = done.status is ExecutionStatus.COMPLETED
            holds(kept, "S7", f"{book.key}: {task.task_id} is kept from {done}")
        elif task.status is TaskStatus.COMPLETED:
            accepted = completed.get((task.task_id, task.revision))
            if task.deduplicated_from and accepted is not None:
                # It was born beside the one whose result it took, or with a copy of another run's.
                done = book.executions[task.result_id].status is ExecutionStatus.COMPLETED
                accepted = task.result_id if done else accepted
            holds(accepted == task.result_id, "S7", f"{book.key}: {task.task_id} isn't {accepted}")


def _revision_at(book: Book, execution_id: str) -> int:
    """Return the plan revision that defined the task when this attempt was accepted."""
    closing = book.closed[execution_id]
    task_id = book.executions[execution_id].task_id
    commit = book.applied[closing.version - 1].commit
    # In one batch a task may be done first and then be defined anew by another plan.
    number = next(e.number for e in commit.events if _completes(e, execution_id))
    after = (e for e in commit.events if e.number > number)
    planned_later = any(e.type is EventType.PLAN_ACCEPTED for e in after)
    revision = 0
    for applied in book.applied[: closing.version - planned_later]:
        for task in applied.commit.tasks:
            if task.task_id == task_id:
                revision = task.revision
    return revision


def _completes(event: Event, execution_id: str) -> bool:
    return any(
        change.execution_id == execution_id and change.status is ExecutionStatus.COMPLETED
        for change in event.executions
    )


async def _feed(store: Store, ledger: Ledger) -> None:
    """The feed names every commit once, a run's versions in order, in the order of the store (S2)."""
    entries: list[tuple[tuple[str, str], int]] = []
    cursor = ""
    while True:
        page = await store.feed(cursor=cursor, limit=50)
        entries.extend(((e.tenant_id, e.run_id), e.version) for e in page.entries)
        cursor = page.cursor
        if not page.entries:
            break
    holds(entries == ledger.order, "S2", "the feed isn't the order in which commits were applied")


_CHECKS: tuple[Callable[[Store, Book], Coroutine[Any, Any, None]], ...] = (
    _rows_are_kept,
    _events_are_kept,
    _folds,
    _results_are_kept,
    audit_talk,
)
