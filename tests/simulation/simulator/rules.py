"""The invariants that every single commit must keep, checked before the model applies it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UnsetType

from stepwell.core.loop.budgets import used_up
from stepwell.core.loop.idempotency import KEY_TIMER, MORE_TIMER
from stepwell.core.loop.journals import name_of
from stepwell.core.loop.letters import JOURNAL as LETTERS_JOURNAL
from stepwell.core.loop.letters import TIMER as LETTERS_TIMER
from stepwell.core.loop.waits import WAIT_TIMER
from stepwell.core.records.limits import LETTERS_PER_COMMIT_MAX
from stepwell.core.records.model import Execution, TaskSpec
from stepwell.core.records.states import (
    ENDED,
    OPEN,
    SETTLED,
    EventType,
    ExecutionStatus,
    OnFailure,
    PauseReason,
    QuestionStatus,
    RunStatus,
    StepKind,
    TaskStatus,
    WaitKind,
)
from tests.simulation.simulator.run_model import Applied, RunModel, step_of
from tests.simulation.simulator.violation import holds

FINAL = frozenset({RunStatus.SUCCEEDED, RunStatus.CANCELLED})


def check_before(model: RunModel, applied: Applied) -> None:
    """Check a commit against the model as it was before it."""
    for rule in _BEFORE:
        rule(model, applied)


def check_after(model: RunModel, applied: Applied) -> None:
    """Check the model once the commit stands in it."""
    for rule in _AFTER:
        rule(model, applied)


def _chain(model: RunModel, applied: Applied) -> None:
    commit = applied.commit
    follows = commit.version == model.version + 1
    holds(follows, "S2", applied, "after", model.version)
    holds(commit.run.version == commit.version, "S2", applied, "says another version")
    if model.applied and applied.now_us < model.applied[-1].now_us:
        # Its clock shows less than the commit's before it: the numbers go on all the same.
        first = commit.events[0].number if commit.events else 0
        holds(
            follows and first == len(model.events) + 1, "C3", applied, "by the clock, not in turn"
        )


def _ends_are_ends(model: RunModel, applied: Applied) -> None:
    if model.run is None:
        return
    if all(one.type is EventType.LETTERS_DELIVERED for one in applied.commit.events):
        return
    holds(model.run.status not in FINAL, "S15", applied, "after", model.run.status)
    if model.run.status is RunStatus.FAILED:
        first = applied.commit.events[0].type
        holds(first is EventType.RUN_RESUMED, "S15", applied, "FAILED left by", first)
        opened = applied.commit.run.allowance == model.run.allowance + 1
        holds(opened, "S12", applied, "a resume that opens no new allowance")


def _events_have_no_gap(model: RunModel, applied: Applied) -> None:
    first = len(model.events) + 1
    for number, event in enumerate(applied.commit.events, first):
        holds(event.number == number, "E1", applied, event.number, "is not", number)
        holds(event.version == applied.commit.version, "E8", applied, event.number)
    holds(applied.commit.events, "E1", applied, "has no event")


def _attempts_are_new(model: RunModel, applied: Applied) -> None:
    for execution in applied.commit.executions:
        known = model.executions.get(execution.execution_id)
        name = execution.execution_id
        if known is None:
            highest = model.attempts.get(step_of(execution), 0)
            holds(execution.attempt > highest, "S9", applied, name, "after attempt", highest)
        else:
            holds(known.status in OPEN, "S9", applied, name, "was", known.status)
            again = execution.status is ExecutionStatus.READY
            once = not again or known.status is ExecutionStatus.READY
            holds(once, "S9", applied, name, "is offered a second time")


def _leases_are_lawful(model: RunModel, applied: Applied) -> None:
    commit = applied.commit
    rows = {one.execution_id: one for one in commit.executions}
    for lease in commit.leases:
        execution = rows[lease.execution_id]
        holds(execution.status is ExecutionStatus.LEASED, "S10", lease.execution_id, "isn't")
        if execution.kind is StepKind.TASK:
            _leased_in_order(model, applied, execution)


def _leased_in_order(model: RunModel, applied: Applied, execution: Execution) -> None:
    commit = applied.commit
    tasks = {**model.tasks, **{task.task_id: task for task in commit.tasks}}
    specs = dict(model.specs)
    if commit.plan is not None:
        specs.update((spec.task_id, spec) for spec in commit.plan.tasks)
    task_id = execution.task_id
    name = (applied, "a lease for", task_id)
    before = model.tasks.get(task_id)
    open_yet = before is None or before.status is not TaskStatus.COMPLETED
    anew = before is None or tasks[task_id].revision > before.revision
    holds(open_yet or anew, "S6", *name, "which is completed")
    for dependency in specs[task_id].depends_on:
        status = tasks[dependency].status
        holds(status in SETTLED, "S11", *name, "before", dependency, "which is", status)
        same_plan = tasks[dependency].revision == tasks[task_id].revision
        passed_over = commit.run.allowance > 1 or commit.run.spec.parent_run_id
        if status is TaskStatus.FAILED and same_plan and not passed_over:
            goes_on = specs[dependency].on_failure is OnFailure.CONTINUE
            goes_on |= specs[task_id].gathers == specs[dependency].group != ""
            holds(goes_on, "S11", *name, "although", dependency, "has failed")


def _plans_are_counted(model: RunModel, applied: Applied) -> None:
    plan = applied.commit.plan
    if plan is not None:
        holds(plan.revision == len(model.plans) + 1, "S17", applied, plan.revision)
    run = applied.commit.run
    holds(run.iteration <= run.spec.max_iterations, "S17", applied, run.iteration)
    _check_budget(model, applied)
    iteration = model.run.iteration if model.run is not None else 1
    for event in applied.commit.events:
        if event.type is EventType.REFLECTION_ACCEPTED:
            model.reflections[iteration] += 1
            once = model.reflections[iteration] == 1 or bool(run.spec.reflect_on)
            holds(once, "S17", applied, "reflected twice")


def _callers_are_named(model: RunModel, applied: Applied) -> None:
    del model
    spec = applied.commit.run.spec
    by_letter = spec.child_of.run_id or spec.thread_id
    for event in applied.commit.events:
        if by_letter and event.type in _BY_LETTER:
            # M3 and F4 say whose letter it was.
            continue
        pause = event.run.pause_reason if not isinstance(event.run, UnsetType) else None
        called = event.type in _OF_A_COMMAND or pause is PauseReason.REQUESTED
        holds(event.actor or not called, "A1", applied, event.type, "names no caller")


_BY_LETTER = frozenset({EventType.RUN_STARTED, EventType.RUN_CANCELLED, EventType.RUN_RESUMED})
"""Events that a letter makes, too."""
_OF_A_COMMAND = frozenset(
    {
        *(EventType.RUN_STARTED, EventType.RUN_FORKED, EventType.RUN_RESUMED),
        *(EventType.RUN_CANCELLED, EventType.QUESTION_ANSWERED, EventType.REPLAN_REQUESTED),
        *(EventType.STOP_REQUESTED, EventType.BUDGET_RAISED, EventType.TASK_SKIPPED),
        EventType.TASK_RETRY_REQUESTED,
    }
)
"""Events that nothing but a command makes."""


def _check_budget(model: RunModel, applied: Applied) -> None:
    run, before = applied.commit.run, model.run
    limit = run.budget.tasks
    within = not limit or run.tally.tasks <= limit
    holds(within, "S17", applied, run.tally.tasks, "tasks, where so many are allowed:", limit)
    gone = before is not None and used_up(before) and used_up(run)
    leases = applied.commit.leases
    holds(not (gone and leases), "S17", applied, "leased, although the budget is used up")


def _resumes_repeat_nothing(model: RunModel, applied: Applied) -> None:
    commit = applied.commit
    if not any(event.type is EventType.RUN_RESUMED for event in commit.events):
        return
    stopped = model.run is not None and model.run.status in (RunStatus.PAUSED, RunStatus.FAILED)
    holds(stopped, "S19", applied, "a resume of a run that was going on")
    for task in commit.tasks:
        before = model.tasks.get(task.task_id)
        if before is not None and before.status is TaskStatus.COMPLETED:
            kept = task.status is TaskStatus.COMPLETED and task.result_id == before.result_id
            holds(kept, "S19", applied, "a resume undoes", task.task_id)
    done = {name for name, task in model.tasks.items() if task.status is TaskStatus.COMPLETED}
    rows = {one.execution_id: one for one in commit.executions}
    again = [one.execution_id for one in commit.leases if rows[one.execution_id].task_id in done]
    holds(not again or commit.plan is not None, "S19", applied, "a resume leases again:", again)


def _one_lease_a_step(model: RunModel, applied: Applied) -> None:
    steps = [step_of(execution) for execution in model.open()]
    holds(len(steps) == len(set(steps)), "S10", applied, steps)
    leased = len(model.leased())
    parallel = applied.commit.run.spec.max_parallel
    holds(leased <= parallel, "S11", applied, leased, "at once, not", parallel)


def _attempts_are_bounded(model: RunModel, applied: Applied) -> None:
    """Failures and losses have an allowance each; the one that exceeds its own ends the step (S12)."""
    for execution in applied.commit.executions:
        purse = model.purse_of(execution)
        spec: TaskSpec | None = model.specs.get(execution.task_id)
        is_task = spec is not None and execution.kind is StepKind.TASK
        policy = spec.retry if spec and is_task else applied.commit.run.spec.step_retry
        again = execution.status in OPEN
        failed, lost = model.spent[purse], model.lost[purse]
        details = (applied, purse[0], failed, "failed and", lost, "lost by", policy)
        holds(failed <= policy.max_attempts - again, "S12", *details)
        holds(lost <= policy.max_losses + 1 - again, "S12", *details)


def _the_end_is_clean(model: RunModel, applied: Applied) -> None:
    run = applied.commit.run
    if run.status in ENDED:
        last = applied.commit.events[-1].type
        ends = last is _LAST[run.status] or last is EventType.LETTERS_DELIVERED
        holds(ends, "S15", applied, run.status, "after", last)
        # The outcome of a begun step must still be resolved once a failed run continues.
        unsettled = run.status is RunStatus.FAILED
        left = [
            execution.execution_id
            for execution in model.open()
            if not (unsettled and execution.status is ExecutionStatus.UNKNOWN_OUTCOME)
        ]
        holds(not left, "S14", applied, run.status, "and open:", left)
        left = model.timers.keys() - {LETTERS_TIMER}
        holds(not left, "S14", applied, "timers are left:", model.timers)
    elif run.status is not RunStatus.PAUSED and not run.spec.is_thread:
        waits = model.waits_for_an_answer() or {MORE_TIMER, KEY_TIMER} & model.timers.keys()
        sleeps = any(name.startswith(WAIT_TIMER) for name in model.timers)
        moves = bool(model.open()) or waits or sleeps or run.waits_for_thread
        holds(moves, "L1", applied, "nothing of it can ever move again")


def _what_is_waited_for_can_come(model: RunModel, applied: Applied) -> None:
    """A sleep that a suspended step waits for has a timer, and a question is open (L3, W1)."""
    run = applied.commit.run
    steps = [(name_of(run, task), task.waits) for task in model.tasks.values() if task.waits]
    if run.step_waits:
        steps.append((name_of(run, None), run.step_waits))
    for journal, waits in steps:
        for wait in waits:
            asked = model.questions.get(wait.question_id)
            is_open = asked is not None and asked.status is QuestionStatus.OPEN
            comes = {
                WaitKind.SLEEP: f"{WAIT_TIMER}{journal}:{wait.key}" in model.timers,
                WaitKind.QUESTION: is_open,
                WaitKind.SIGNAL: is_open,
                WaitKind.CHILD: is_open,
                WaitKind.BUDGET: True,
            }
            name = "W1" if wait.question_id else "L3"
            holds(comes[wait.kind], name, applied, journal, "waits for nothing:", wait)


def _letters_come_due(model: RunModel, applied: Applied) -> None:
    """A timer is due exactly while a letter isn't delivered (M1)."""
    letters = applied.commit.run.letters
    pending = letters.next - letters.first
    holds((LETTERS_TIMER in model.timers) == (pending > 0), "M1", applied, pending, "letters")
    made = [one for one in applied.commit.entries if one.journal == LETTERS_JOURNAL]
    before = model.letters
    holds(letters.next - before.next == len(made), "M1", applied, "letters without a number")
    gone = [one for one in applied.commit.forgotten if one.journal == LETTERS_JOURNAL]
    holds(letters.first - before.first == len(gone), "M1", applied, "letters lost")
    holds(len(made) <= LETTERS_PER_COMMIT_MAX, "M1", applied, len(made), "letters in one commit")
    holds(pending > 0 or not letters.unwritten, "M1", applied, "nothing writes", letters.unwritten)
    model.letters = letters


_LAST = {
    RunStatus.SUCCEEDED: EventType.RUN_SUCCEEDED,
    RunStatus.FAILED: EventType.RUN_FAILED,
    RunStatus.CANCELLED: EventType.RUN_CANCELLED,
}
_BEFORE: tuple[Callable[[RunModel, Applied], None], ...] = (
    _chain,
    _ends_are_ends,
    _events_have_no_gap,
    _attempts_are_new,
    _leases_are_lawful,
    _plans_are_counted,
    _resumes_repeat_nothing,
    _callers_are_named,
)
_AFTER: tuple[Callable[[RunModel, Applied], None], ...] = (
    _one_lease_a_step,
    _attempts_are_bounded,
    _the_end_is_clean,
    _what_is_waited_for_can_come,
    _letters_come_due,
)
