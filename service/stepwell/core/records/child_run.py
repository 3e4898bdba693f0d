"""Records of a task that is a child run: the run to start, and its budget."""

from __future__ import annotations

from stepwell.core.records.record import Record


class Budget(Record, frozen=True, kw_only=True):
    """Limits of a run's consumption. 0: no limit."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    tasks: int = 0
    """Tasks that may be offered, over all plans; further attempts at a task don't count."""
    wall_ms: int = 0
    """Time since the first lease, including pauses."""
    iterations: int = 0
    """Iterations that may begin. This limit pauses a run; `max_iterations` ends it."""


class ChildRun(Record, frozen=True, kw_only=True):
    """A run that a task is, in place of a function of a worker. It plans by itself."""

    pipeline_id: str = ""
    """Empty: the parent's."""
    queue: str = ""
    """Empty: the parent's."""
    goal: str = ""
    """Empty: the task's prompt or, without one, the parent's goal."""
    labels: dict[str, str] = {}
    max_iterations: int = 0
    """0: the default."""
    budget: Budget = Budget()
    """Its limits; tokens and cost are taken from the parent's. 0: all that is left there."""
    follow_pauses: bool = False
    """It is paused when its parent is, and goes on with it."""
    reflect_on: tuple[str, ...] = ()
    """Names of signals that make it reflect before its tasks are settled."""
