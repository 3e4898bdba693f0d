"""Records of journals: the results of a step's calls, so that its next attempt doesn't repeat them.

A journal belongs to a step, not to an attempt; `step_journal.journal_of` names it within its run.
It is a set of entries, each written once, under the step's lease. An entry is no commit: it makes
no version and no event. A finished call has an END with its value. An AT_MOST_ONCE call gets a
BEGIN before its function runs; a BEGIN without an END or a TRY of its number means that the outcome
is unknown. A failed try gets a TRY and is never replayed. A WAIT begins a sleep, whose end the
store stamps once.
"""

from __future__ import annotations

from stepwell.core.records.cuts import failure_bytes, text_bytes
from stepwell.core.records.model import Failure, Message, Payload, Usage
from stepwell.core.records.record import Record
from stepwell.core.records.states import Effect, JournalMark

_NO_FAILURE = Failure()


class Entry(Record, frozen=True, kw_only=True):
    """One entry, as its worker writes it. Its name is (`key`, `mark`, `number`)."""

    key: str
    """The call's key within its step."""
    mark: JournalMark = JournalMark.END
    number: int = 0
    """The number of the function's run for a BEGIN or a TRY: 1, 2, 3 … over all attempts, never reused; else 0."""
    attempt: int = 0
    """The attempt that made a TRY."""
    name: str = ""
    """The call's name, for people."""
    arguments: str = ""
    """The digest of the call's arguments; empty if its key was given without arguments."""
    effect: Effect = Effect.IDEMPOTENT
    value: Payload | None = None
    """The value of an END. Absent means no bytes, which differs from empty bytes."""
    failure: Failure = Failure()
    """The exception of a TRY."""
    usage: Usage = Usage()
    """The usage of the call, without that of inner calls."""
    messages: tuple[Message, ...] = ()
    """Messages for the task's conversation, in order."""
    took_ms: int = 0
    """The time that the function took."""
    sleep_ms: int = 0
    """The length of a WAIT's sleep."""


class StoredEntry(Record, frozen=True, kw_only=True):
    """A stored entry, with the store's stamps."""

    entry: Entry
    journal: str
    """The journal's name within its run."""
    generation: int
    execution_id: str
    """The attempt that wrote it. Empty: a commit wrote it."""
    version: int = 0
    """The run's version when it was written."""
    written_us: int = 0
    until_us: int = 0
    """The end of a WAIT's sleep."""
    size: int = 0
    """The size of the value in bytes, also if the value was left out."""


class KeptSignal(Record, frozen=True, kw_only=True):
    """A signal that a run keeps, as an entry of the run's journal of signals has it."""

    number: int
    """From 1, in the order in which the run has kept signals."""
    name: str
    value: Payload | None = None
    size: int = 0
    """The size of the value in bytes, also if the value was left out."""
    actor: str = ""
    """The caller that sent it, by its credential."""
    on_behalf_of: str = ""
    sent_us: int = 0


class Totals(Record, frozen=True, kw_only=True):
    """Sums of the entries recorded under one lease. They start at zero with each lease, and only grow."""

    entries: int = 0
    bytes: int = 0
    """Size of the values, messages and failures (`entry_bytes`)."""
    usage: Usage = Usage()
    """Without models."""
    messages: int = 0


def value_bytes(entry: Entry) -> int:
    """Return the bytes of an entry's value."""
    return len(entry.value.data) if entry.value is not None else 0


def words_bytes(entry: Entry) -> int:
    """Return the bytes of an entry's messages and of its failure."""
    size = sum([text_bytes(one.role) + text_bytes(one.content) for one in entry.messages])
    return size if entry.failure == _NO_FAILURE else size + failure_bytes(entry.failure)


def entry_bytes(entry: Entry) -> int:
    """Return the bytes for which an entry counts in its journal and in a page: value, messages and failure."""
    return value_bytes(entry) + words_bytes(entry)
