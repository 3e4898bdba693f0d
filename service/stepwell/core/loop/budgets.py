"""Budgets: limits of a run's usage, and which parts of a budget are used up.

Usage is counted once per attempt, when the attempt ends (`end_attempt`); this module only compares
it. `settle` checks the budget before it offers anything, so a run exceeds it by at most what was in
flight. The store measures wall time: a timer runs from the first lease on, and `Tally.wall_over_ms`
has the limit that passed.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.port import OpenExecution, Timer
from stepwell.core.records.model import Budget, Record, Run, Task, Violation
from stepwell.core.records.states import ExecutionStatus

WALL_TIMER = "budget:wall:"
"""Prefix of the wall time's timer; the limit in milliseconds follows."""

_NO_BUDGET = Budget()
_HOW_TO_RAISE = "raise the budget to go on (`stepwell budget`)"


class UsedUp(Record, frozen=True, kw_only=True):
    """A part of a budget that is used up."""

    part: str
    limit: int
    used: int

    @property
    def text(self) -> str:
        """The part, its limit and the amount used, for people."""
        if self.part == "wall_ms":
            return f"wall: the {self.limit / 1000:g} s since the first lease are over"
        return f"{self.part}: {self.used} of {self.limit} used"


def describe(parts: tuple[UsedUp, ...]) -> str:
    """Return a message about these parts, for people."""
    return f"{', '.join(one.text for one in parts)}; {_HOW_TO_RAISE}"


def used_up(run: Run) -> tuple[UsedUp, ...]:
    """Return the used-up parts of the budget that forbid any further dispatch.

    `tasks` isn't among them, because it forbids new tasks only.
    """
    budget = run.budget
    if budget == _NO_BUDGET:
        return ()
    used = used_of(run)
    parts = (
        UsedUp(part=name, limit=getattr(budget, name), used=getattr(used, name))
        for name in ("input_tokens", "output_tokens", "cost_micros", "wall_ms")
    )
    over = [one for one in parts if one.limit and one.used >= one.limit]
    if budget.iterations and _iteration(run) > budget.iterations:
        over.append(UsedUp(part="iterations", limit=budget.iterations, used=used.iterations))
    return tuple(over)


def with_open_leases(run: Run, held: Iterable[OpenExecution]) -> Run:
    """Return a run's row with the usage recorded under open leases, which the row doesn't include yet."""
    usage = run.usage
    for row in held:
        if row.recorded.entries and row.execution.status is ExecutionStatus.LEASED:
            usage += row.recorded.usage
    return replace(run, usage=usage)


def used_of(run: Run) -> Budget:
    """Return the usage in the form of a budget; for wall time, the limit that has passed."""
    return Budget(
        input_tokens=run.usage.input_tokens,
        output_tokens=run.usage.output_tokens,
        cost_micros=run.usage.cost_micros,
        tasks=run.tally.tasks,
        wall_ms=run.tally.wall_over_ms,
        # The iteration after the last allowed one is entered, but none of its steps is dispatched.
        iterations=min(_iteration(run), run.budget.iterations or _iteration(run)),
    )


def _iteration(run: Run) -> int:
    return run.iteration - run.tally.iterations_before


def allows_task(run: Run, task: Task) -> bool:
    """Return whether a task may be offered: it was counted before, or the budget allows one more."""
    limit = run.budget.tasks
    return not limit or is_counted(task) or run.tally.tasks < limit


def no_more_tasks(run: Run) -> tuple[UsedUp, ...]:
    """Return the part `tasks` as used up."""
    return (UsedUp(part="tasks", limit=run.budget.tasks, used=run.tally.tasks),)


def is_counted(task: Task) -> bool:
    """Return whether the task was offered since it was defined, and so has an allowance of attempts."""
    return task.allowance > 0


def count_task(draft: Draft) -> None:
    """Count a task that is offered for the first time."""
    tally = draft.run.tally
    draft.change_run(tally=replace(tally, tasks=tally.tasks + 1))


def remaining(run: Run, now_us: int) -> Budget:
    """Return the rest of the budget; 0 means no limit, so a used-up part is 1.

    `now_us` is this replica's estimate of the store's time: accurate enough to inform a worker.
    """
    budget = run.budget
    if budget == _NO_BUDGET:
        return budget
    used = used_of(run)

    def left(limit: int, gone: int) -> int:
        return max(1, limit - gone) if limit else 0

    return Budget(
        input_tokens=left(budget.input_tokens, used.input_tokens),
        output_tokens=left(budget.output_tokens, used.output_tokens),
        cost_micros=left(budget.cost_micros, used.cost_micros),
        tasks=left(budget.tasks, used.tasks),
        wall_ms=left(budget.wall_ms, wall_used_ms(run, now_us)),
        iterations=left(budget.iterations, used.iterations),
    )


def wall_used_ms(run: Run, now_us: int) -> int:
    """Return the milliseconds since the run's first lease, or 0 before it."""
    since_ms = (now_us - run.started_us) // 1_000 if run.started_us else 0
    return max(since_ms, run.tally.wall_over_ms)


def arm_wall(draft: Draft) -> None:
    """Set the timer for the rest of the wall time.

    The store's clock decides when it is over; a limit that has passed is due at once.
    """
    run = draft.run
    limit_ms = run.budget.wall_ms
    if not limit_ms or not run.started_us or run.tally.wall_over_ms >= limit_ms:
        return
    left_ms = limit_ms - wall_used_ms(run, draft.context.now_us)
    name = f"{WALL_TIMER}{limit_ms}"
    draft.timers[name] = Timer(name=name, delay_ms=max(0, left_ms))


def disarm_wall(draft: Draft) -> None:
    """Remove the timer of the wall time."""
    limit_ms = draft.run.budget.wall_ms
    if limit_ms and draft.run.started_us and draft.run.tally.wall_over_ms < limit_ms:
        name = f"{WALL_TIMER}{limit_ms}"
        draft.timers[name] = Timer(name=name, delay_ms=-1)


def raised(budget: Budget, asked: Budget) -> tuple[Budget, tuple[Violation, ...]]:
    """Return the budget with the requested limits, and a violation for each that would be lower.

    A limit on an unlimited part would be lower, too.
    """
    limits: dict[str, int] = {}
    lower: list[Violation] = []
    for name in budget.__struct_fields__:
        old, new = getattr(budget, name), getattr(asked, name)
        if new and (not old or new < old):
            there_is = f"the limit is {_format(name, old)}" if old else "there is no limit"
            part = name.removesuffix("_ms")
            lower.append(
                Violation(
                    field=f"budget.{part}",
                    description=f"{_format(name, new)} would be lower: {there_is}. A budget can only "
                    "be raised; 0 leaves a part as it is.",
                )
            )
        limits[name] = new or old
    return Budget(**limits), tuple(lower)


def _format(name: str, value: int) -> str:
    return f"{value / 1000:g} s" if name == "wall_ms" else str(value)
