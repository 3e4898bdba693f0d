"""The state of a step's journal, as its step's row holds it. `journal.py` has the entries."""

from __future__ import annotations

from stepwell.core.records.record import Record
from stepwell.core.records.states import StepKind, WaitKind


class Source(Record, frozen=True, kw_only=True):
    """A journal of another run of the family, as far as it was written at a version: a fork goes on from it."""

    run_id: str
    journal: str
    generation: int
    version: int


class Journal(Record, frozen=True, kw_only=True):
    """The state of a step's journal, in the step's row: as of the attempts that have ended."""

    generation: int = 1
    """Entries of an earlier one are not replayed, except those of AT_MOST_ONCE calls."""
    entries: int = 0
    """Number of entries that were recorded in this generation."""
    bytes: int = 0
    tries_from: int = 1
    """Tries of attempts before this one don't count any more: an attempt failed since, or a person asked for another."""
    sources: tuple[Source, ...] = ()
    """Read before its own entries."""
    answered: tuple[str, ...] = ()
    """Calls whose answer came while an attempt ran, which doesn't know it: it goes on at once if it waits for them."""

    @property
    def is_empty(self) -> bool:
        """The step's next attempt has nothing to read."""
        return not self.entries and not self.sources and self.generation == 1


class Wait(Record, frozen=True, kw_only=True):
    """One thing that a suspended step waits for. The first that is over hands the step out again."""

    key: str
    """The call that waits."""
    kind: WaitKind
    question_id: str = ""
    """The question that a QUESTION waits for."""


def journal_of(kind: StepKind, task_id: str, revision: int, iteration: int) -> str:
    """Return the name of a step's journal within its run: that of its own idempotency key.

    `revision` is, of a TASK, the plan revision that defined it; of a PLAN, the revision that it follows.
    """
    match kind:
        case StepKind.TASK:
            return f"task:{task_id}@{revision}"
        case StepKind.PLAN:
            return f"plan@{revision}"
        case StepKind.REFLECT:
            return f"reflect@{iteration}"
        case StepKind.SYNTHESIZE:
            return f"synthesize@{iteration}"
        case StepKind.RECONCILE:
            raise ValueError("a RECONCILE step has no journal")
