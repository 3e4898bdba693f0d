"""The invariants that every single commit must keep, checked before the book takes it over."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.core.budgets import used_up
from stepwell.core.model import Execution, TaskSpec
from stepwell.core.states import (
    ENDED,
    OPEN,
    SETTLED,
    EventType,
    ExecutionStatus,
    OnFailure,
    RunStatus,
    StepKind,
    TaskStatus,
)
from stepwell.testing.simulator.book import Applied, Book, step_of
from stepwell.testing.simulator.violation import holds

FINAL = frozenset({RunStatus.SUCCEEDED, RunStatus.CANCELLED})


def check_before(book: Book, applied: Applied) -> None:
    """Check a commit against the book as it was before it."""
    for rule in _BEFORE:
        rule(book, applied)


def check_after(book: Book, applied: Applied) -> None:
    """Check the book once the commit stands in it."""
    for rule in _AFTER:
        rule(book, applied)


def _chain(book: Book, applied: Applied) -> None:
    commit = applied.commit
    holds(commit.version == book.version + 1, "S2", f"{_named(applied)} after {book.version}")
    holds(commit.run.version == commit.version, "S2", f"{_named(applied)} says another version")


def _ends_are_ends(book: Book, applied: Applied) -> None:
    if book.run is None:
        return
    holds(book.run.status not in FINAL, "S15", f"{_named(applied)} after {book.run.status}")
    if book.run.status is RunStatus.FAILED:
        first = applied.commit.events[0].type
        holds(first is EventType.RUN_RESUMED, "S15", f"{_named(applied)}: FAILED left by {first}")


def _events_have_no_gap(book: Book, applied: Applied) -> None:
    first = len(book.events) + 1
    for number, event in enumerate(applied.commit.events, first):
        holds(event.number == number, "E1", f"{_named(applied)}: {event.number}, not {number}")
        holds(event.version == applied.commit.version, "E8", f"{_named(applied)}: {event.number}")
    holds(applied.commit.events, "E1", f"{_named(applied)} has no event")


def _attempts_are_new(book: Book, applied: Applied) -> None:
    for execution in applied.commit.executions:
        known = book.executions.get(execution.execution_id)
        name = f"{_named(applied)}: {execution.execution_id}"
        if known is None:
            highest = book.attempts.get(step_of(execution), 0)
            holds(execution.attempt > highest, "S9", f"{name} after attempt {highest}")
        else:
            holds(known.status in OPEN, "S9", f"{name} was {known.status} before")
            holds(
                execution.status is not ExecutionStatus.READY
                or known.status is ExecutionStatus.READY,
                "S9",
                f"{name} is offered a second time",
            )


def _leases_are_lawful(book: Book, applied: Applied) -> None:
    commit = applied.commit
    rows = {one.execution_id: one for one in commit.executions}
    for lease in commit.leases:
        execution = rows[lease.execution_id]
        holds(execution.status is ExecutionStatus.LEASED, "S10", f"{lease.execution_id} isn't")
        if execution.kind is StepKind.TASK:
            _leased_in_order(book, applied, execution)


def _leased_in_order(book: Book, applied: Applied, execution: Execution) -> None:
    commit = applied.commit
    tasks = {**book.tasks, **{task.task_id: task for task in commit.tasks}}
    specs = dict(book.specs)
    if commit.plan is not None:
        specs.update((spec.task_id, spec) for spec in commit.plan.tasks)
    task_id = execution.task_id
    name = f"{_named(applied)}: a lease for {task_id}"
    before = book.tasks.get(task_id)
    if before is not None and before.status is TaskStatus.COMPLETED:
        holds(tasks[task_id].revision > before.revision, "S6", f"{name}, which is completed")
    for dependency in specs[task_id].depends_on:
        status = tasks[dependency].status
        holds(status in SETTLED, "S11", f"{name} before {dependency}, which is {status}")
        same_plan = tasks[dependency].revision == tasks[task_id].revision
        passed_over = commit.run.allowance > 1 or commit.run.spec.parent_run_id
        if status is TaskStatus.FAILED and same_plan and not passed_over:
            goes_on = specs[dependency].on_failure is OnFailure.CONTINUE
            holds(goes_on, "S11", f"{name} although {dependency} has failed")


def _plans_are_counted(book: Book, applied: Applied) -> None:
    plan = applied.commit.plan
    if plan is not None:
        holds(plan.revision == len(book.plans) + 1, "S17", f"{_named(applied)}: {plan.revision}")
    run = applied.commit.run
    holds(run.iteration <= run.spec.max_iterations, "S17", f"{_named(applied)}: {run.iteration}")
    _check_budget(book, applied)
    iteration = book.run.iteration if book.run is not None else 1
    for event in applied.commit.events:
        if event.type is EventType.REFLECTION_ACCEPTED:
            book.reflections[iteration] += 1
            holds(book.reflections[iteration] == 1, "S17", f"{_named(applied)}: reflected twice")


def _check_budget(book: Book, applied: Applied) -> None:
    run, before = applied.commit.run, book.run
    limit = run.budget.tasks
    told = f"{_named(applied)}: {run.tally.tasks} tasks, {limit} are allowed"
    holds(not limit or run.tally.tasks <= limit, "S17", told)
    gone = before is not None and used_up(before) and used_up(run)
    told = f"{_named(applied)}: leased, although the budget is used up"
    holds(not (gone and applied.commit.leases), "S17", told)


def _one_lease_a_step(book: Book, applied: Applied) -> None:
    steps = [step_of(execution) for execution in book.open()]
    holds(len(steps) == len(set(steps)), "S10", f"{_named(applied)}: {sorted(steps)}")
    leased = len(book.leased())
    parallel = applied.commit.run.spec.max_parallel
    holds(leased <= parallel, "S11", f"{_named(applied)}: {leased} at once, not {parallel}")


def _attempts_are_bounded(book: Book, applied: Applied) -> None:
    for execution in applied.commit.executions:
        if execution.status in OPEN:
            continue
        purse = book.purse_of(execution)
        spec: TaskSpec | None = book.specs.get(execution.task_id)
        is_task = spec is not None and execution.kind is StepKind.TASK
        policy = spec.retry if spec and is_task else applied.commit.run.spec.step_retry
        spent = book.spent[purse]
        holds(
            spent <= policy.max_attempts,
            "S12",
            f"{_named(applied)}: {spent} attempts at {purse[0]} failed or were lost, "
            f"{policy.max_attempts} are allowed",
        )


def _the_end_is_clean(book: Book, applied: Applied) -> None:
    run = applied.commit.run
    if run.status in ENDED:
        last = applied.commit.events[-1].type
        holds(last is _LAST[run.status], "S15", f"{_named(applied)}: {run.status} after {last}")
        # What became of a step that had begun is still to be settled once a failed run goes on.
        unsettled = run.status is RunStatus.FAILED
        left = [
            execution.execution_id
            for execution in book.open()
            if not (unsettled and execution.status is ExecutionStatus.UNKNOWN_OUTCOME)
        ]
        holds(not left, "S14", f"{_named(applied)}: {run.status} with {left} open")
        holds(not book.timers, "S14", f"{_named(applied)}: timers are left: {list(book.timers)}")
    elif run.status is not RunStatus.PAUSED:
        moves = bool(book.open()) or book.waits_for_people()
        holds(moves, "L1", f"{_named(applied)}: nothing of it can ever move again")


def _named(applied: Applied) -> str:
    return f"{applied.commit.run_id} v{applied.commit.version} by {applied.door}"


_LAST = {
    RunStatus.SUCCEEDED: EventType.RUN_SUCCEEDED,
    RunStatus.FAILED: EventType.RUN_FAILED,
    RunStatus.CANCELLED: EventType.RUN_CANCELLED,
}
_BEFORE: tuple[Callable[[Book, Applied], None], ...] = (
    _chain,
    _ends_are_ends,
    _events_have_no_gap,
    _attempts_are_new,
    _leases_are_lawful,
    _plans_are_counted,
)
_AFTER: tuple[Callable[[Book, Applied], None], ...] = (
    _one_lease_a_step,
    _attempts_are_bounded,
    _the_end_is_clean,
)
