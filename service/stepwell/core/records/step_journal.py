"""The state of a step's journal, in the step's row. `journal.py` has the entries."""

from __future__ import annotations

from stepwell.core.records.record import Record
from stepwell.core.records.states import StepKind, WaitKind


class Source(Record, frozen=True, kw_only=True):
    """A journal of another run of the family, up to a version, from which a fork continues."""

    run_id: str
    journal: str
    generation: int
    version: int


class Journal(Record, frozen=True, kw_only=True):
    """The state of a step's journal, in the step's row, as of its ended attempts."""

    generation: int = 1
    """The current generation. Earlier entries are not replayed, except those of AT_MOST_ONCE calls."""
    entries: int = 0
    """The number of entries in this generation."""
    bytes: int = 0
    tries_from: int = 1
    """Tries of attempts before this one no longer count, because an attempt failed since, or a
    person asked for another.
    """
    sources: tuple[Source, ...] = ()
    """Journals that are read before its own entries."""
    answered: tuple[str, ...] = ()
    """Calls whose answer came during an attempt that doesn't know it, and so continues at once if it waits for them."""

    @property
    def is_empty(self) -> bool:
        """True if the step's next attempt has nothing to read."""
        return not self.entries and not self.sources and self.generation == 1


class Wait(Record, frozen=True, kw_only=True):
    """A wait of a suspended step. The first wait that is over offers the step again."""

    key: str
    """The waiting call."""
    kind: WaitKind
    question_id: str = ""
    """The question of a QUESTION, SIGNAL or CHILD wait."""


def journal_of(
    kind: StepKind, task_id: str, revision: int, iteration: int, reflections: int = 0
) -> str:
    """Return the name of a step's journal within its run, which comes from its own idempotency key.

    `revision` is, for a TASK, the plan revision that defined it; for a PLAN, the previous revision.
    `reflections` are those of the iteration before a REFLECT.
    """
    match kind:
        case StepKind.TASK:
            return f"task:{task_id}@{revision}"
        case StepKind.PLAN:
            return f"plan@{revision}"
        case StepKind.REFLECT:
            return f"reflect@{iteration}.{reflections}" if reflections else f"reflect@{iteration}"
        case StepKind.SYNTHESIZE:
            return f"synthesize@{iteration}"
        case StepKind.RECONCILE:
            raise ValueError("a RECONCILE step has no journal")
