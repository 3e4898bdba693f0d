"""Occurrences of threads: what letters between a thread and its runs bring, and the making of forks."""

from __future__ import annotations

from stepwell.core.loop.called import Command
from stepwell.core.records.model import Payload, Record
from stepwell.core.records.threads import ThreadMessage, ThreadWrite


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


class ForkThread(Command, frozen=True, kw_only=True):
    """Make a thread from another one; its messages are copied after that."""

    thread_id: str
    """The new thread."""
    forked_from: str
    at: int = 0
    """The number of the last message that is copied. 0: none, or, in a request, the last one."""
    state: Payload | None = None
    """The new thread's state. None: it is never set."""


class CopyMessages(Record, frozen=True, kw_only=True):
    """Messages of the thread that this one is forked from, in order and without gaps."""

    messages: tuple[ThreadMessage, ...]
