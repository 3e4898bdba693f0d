"""Occurrences that letters between a thread and its runs bring."""

from __future__ import annotations

from stepwell.core.records.model import Record
from stepwell.core.records.threads import ThreadWrite


class LetGo(Record, frozen=True, kw_only=True):
    """Let a run work that waits for its thread."""


class RunLeft(Record, frozen=True, kw_only=True):
    """A run of the thread has ended, or could not be started: another one may work."""

    run_id: str
    taken: int = 0
    """The number of the last letter with a signal that it took from the thread; 0: none."""
    kept: tuple[int, ...] = ()
    """The numbers of those whose signals it kept, and no call of it received."""


class RunWrites(Record, frozen=True, kw_only=True):
    """A run of the thread writes to it, by a letter."""

    run_id: str
    letter: int
    """The number of that letter, which a second delivery repeats."""
    write: ThreadWrite
