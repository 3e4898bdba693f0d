"""Numbers that a run keeps of its tasks, its attempts and its iterations."""

from __future__ import annotations

import msgspec

from stepwell.core.records.record import Record


class Counts(Record, frozen=True, kw_only=True):
    """Numbers of the run's tasks by status, over all plans."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0

    @property
    def unsettled(self) -> int:
        """Number of unsettled tasks."""
        return self.total - self.completed - self.failed - self.skipped - self.cancelled


class AttemptCounts(Record, frozen=True, kw_only=True):
    """Numbers of a run's ended executions by their end, over all steps."""

    completed: int = 0
    failed: int = 0
    timed_out: int = 0
    lost: int = 0
    released: int = 0
    cancelled: int = 0
    needs_answer: int = 0
    suspended: int = 0


class Tally(Record, frozen=True, kw_only=True):
    """Counters of the loop for budgets and for the detection of repeated iterations."""

    tasks: int = 0
    """Tasks that were offered at least once, over all plans."""
    digest: int = 0
    """Digest of this iteration's results in any order. 63 bits."""
    fingerprint: str = ""
    """Fingerprint of the last ended iteration: its plan and its results."""
    repeats: int = msgspec.field(default=0, name="alike")
    """Iterations in a row with this fingerprint; a resume after NO_PROGRESS resets them."""
    before: str = ""
    """Fingerprint of the iteration before that one."""
    turns: int = 0
    """Iterations in a row with the fingerprint of the one two before; a resume after NO_PROGRESS resets them."""
    iterations_before: int = 0
    """Iterations of a fork's parent before the one that the fork continues with."""
    wall_over_ms: int = 0
    """The wall time limit that has passed by the store's clock."""
