"""Occurrences of threads and of trees of runs: what letters between a thread and its runs bring, forks of threads, and
a run's new place in its tree.
"""

from __future__ import annotations

from stepwell.core.loop.called import Command
from stepwell.core.records.family import ChildOf
from stepwell.core.records.model import Payload, Record
from stepwell.core.records.threads import ThreadMessage, ThreadWrite


class ChangePlace(Record, frozen=True, kw_only=True):
    """Set the run's place in its tree, because a run above it is deleted."""

    child_of: ChildOf


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


class WriteToThread(Command, frozen=True, kw_only=True):
    """Append messages to a thread, or set its state or its labels, from outside; the thread is made where it is missing."""

    thread_id: str
    write: ThreadWrite = ThreadWrite()
    labels: dict[str, str] | None = None
    """All of its labels from now on. None: they stay as they are."""
    expected_state: int = -1
    """Write only if the state has this version, 0 if it was never set; -1: at any version."""


class ForkThread(Command, frozen=True, kw_only=True):
    """Make a thread from another one; its messages are copied after that."""

    thread_id: str
    """The new thread."""
    forked_from: str
    at: int | None = None
    """The number of the last message that is copied; 0: none is. None: the last one, in a request."""
    state: Payload | None = None
    """The new thread's state. None: it is never set."""
    labels: dict[str, str] = {}
    """The labels of the other thread, which the new one has, too."""


class CopyMessages(Record, frozen=True, kw_only=True):
    """Messages of the thread that this one is forked from, in order and without gaps."""

    messages: tuple[ThreadMessage, ...]
