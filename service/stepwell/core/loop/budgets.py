"""Budgets: what a run may use up, what it has used, and what follows once a part of it is gone.

Usage is counted once per attempt, where the attempt ends (`end_attempt`); here it is only compared.
`settle` asks before it offers anything, so a run exceeds its budget by no more than what was in flight.
Wall time is the store's to decide: a timer runs from the first lease on, and what it found out stands in
`Tally.wall_over_ms`.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.port import Timer
from stepwell.core.records.model import Budget, Record, Run, Task, Violation

WALL_TIMER = "budget:wall:"
"""Followed by the limit in milliseconds: over when the first lease was so long ago, true ever after."""

_NO_BUDGET = Budget()
_HOW_TO_RAISE = "raise it with RaiseBudget (`stepwell budget`)"


class UsedUp(Record, frozen=True, kw_only=True):
    """A part of a budget of which nothing is left."""

    part: str
    limit: int
    used: int

    @property
    def words(self) -> str:
        """Which part, how much there was of it and how much was used."""
        if self.part == "wall_ms":
            return f"wall: the {self.limit / 1000:g} s since the first lease are over"
        return f"{self.part}: {self.used} of {self.limit} used"


def words_of(parts: tuple[UsedUp, ...]) -> str:
    """Return what people are told of parts that are used up."""
    return f"{', '.join(one.words for one in parts)}; {_HOW_TO_RAISE}"


def used_up(run: Run) -> tuple[UsedUp, ...]:
    """Return the parts of the budget that let nothing more be dispatched.

    `tasks` isn't among them: tasks that were begun may go on, and other steps are none.
    """
    budget = run.budget
    if budget == _NO_BUDGET:
        return ()
    used = used_of(run)
    parts = (
        UsedUp(part=name, limit=getattr(budget, name), used=getattr(used, name))
        for name in ("input_tokens", "output_tokens", "cost_micros", "wall_ms")
    )
    found = [one for one in parts if one.limit and one.used >= one.limit]
    if budget.iterations and _iteration(run) > budget.iterations:
        found.append(UsedUp(part="iterations", limit=budget.iterations, used=used.iterations))
    return tuple(found)


def used_of(run: Run) -> Budget:
    """Return what was used, in the shape of a budget. Of wall time: what is known to be over."""
    return Budget(
        input_tokens=run.usage.input_tokens,
        output_tokens=run.usage.output_tokens,
        cost_micros=run.usage.cost_micros,
        tasks=run.tally.tasks,
        wall_ms=run.tally.wall_over_ms,
        # The one after the last that is allowed was entered, and nothing of it was dispatched.
        iterations=min(_iteration(run), run.budget.iterations or _iteration(run)),
    )


def _iteration(run: Run) -> int:
    return run.iteration - run.tally.iterations_before


def allows_task(run: Run, task: Task) -> bool:
    """Tell whether a task may be offered: it was counted before, or there is room for one more."""
    limit = run.budget.tasks
    return not limit or is_counted(task) or run.tally.tasks < limit


def no_more_tasks(run: Run) -> tuple[UsedUp, ...]:
    """Return the part `tasks` as one that is used up."""
    return (UsedUp(part="tasks", limit=run.budget.tasks, used=run.tally.tasks),)


def is_counted(task: Task) -> bool:
    """Tell whether it was offered since it was defined: then it has an allowance of attempts."""
    return task.allowance > 0


def count_task(draft: Draft, task: Task) -> dict[str, int]:
    """Count a task that is offered for the first time; returns what changes in its row."""
    if is_counted(task):
        return {}
    tally = draft.run.tally
    draft.change_run(tally=replace(tally, tasks=tally.tasks + 1))
    return {"allowance": draft.run.allowance}


def remaining(run: Run, now_us: int) -> Budget:
    """Return what is left; 0 means no limit, so that a part that is used up shows as 1.

    `now_us` is the store's time as it is known here: good enough to tell a worker how long it has.
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
    """Return how long ago the first lease was, in milliseconds; 0: there was none yet."""
    since_ms = (now_us - run.started_us) // 1_000 if run.started_us else 0
    return max(since_ms, run.tally.wall_over_ms)


def arm_wall(draft: Draft) -> None:
    """Let the wall time run from here on: all of it, or what is left of it.

    The store's clock decides when it is over; a limit that was passed long ago is over at once.
    """
    run = draft.run
    limit_ms = run.budget.wall_ms
    if not limit_ms or not run.started_us or run.tally.wall_over_ms >= limit_ms:
        return
    left_ms = limit_ms - wall_used_ms(run, draft.context.now_us)
    name = f"{WALL_TIMER}{limit_ms}"
    draft.timers[name] = Timer(name=name, delay_ms=max(0, left_ms))


def disarm_wall(draft: Draft) -> None:
    """Let it run no longer."""
    limit_ms = draft.run.budget.wall_ms
    if limit_ms and draft.run.started_us and draft.run.tally.wall_over_ms < limit_ms:
        name = f"{WALL_TIMER}{limit_ms}"
        draft.timers[name] = Timer(name=name, delay_ms=-1)


def raised(budget: Budget, asked: Budget) -> tuple[Budget, tuple[Violation, ...]]:
    """Return the budget with the limits that were asked for, and which of those would be lower.

    A limit where there was none would be lower, too.
    """
    limits: dict[str, int] = {}
    lower: list[Violation] = []
    for name in budget.__struct_fields__:
        old, new = getattr(budget, name), getattr(asked, name)
        if new and (not old or new < old):
            there_is = f"the limit is {_shown(name, old)}" if old else "there is no limit"
            part = name.removesuffix("_ms")
            lower.append(
                Violation(
                    field=f"budget.{part}",
                    description=f"{_shown(name, new)} would be lower: {there_is}. A budget can only "
                    "be raised; 0 leaves a part as it is.",
                )
            )
        limits[name] = new or old
    return Budget(**limits), tuple(lower)


def _shown(name: str, value: int) -> str:
    return f"{value / 1000:g} s" if name == "wall_ms" else str(value)
