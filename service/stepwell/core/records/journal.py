"""Records of journals: what a step's calls leave behind, so that its next attempt doesn't make them again.

A journal belongs to a step, not to an attempt: `step_journal.journal_of` names it within its run. It is a set of entries, each
written once, while an attempt holds the step's lease. An entry is no commit: it makes no version and no event.

A call that is recorded has an END with its value. Of an AT_MOST_ONCE call a BEGIN is written before its function
runs; a BEGIN that neither an END nor a TRY of its number follows means that nobody knows what became of it. A
failed try is noted as a TRY and never replayed. A WAIT notes when a sleep began: the store stamps its end, once.
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
    """The call, within its step."""
    mark: JournalMark = JournalMark.END
    number: int = 0
    """The run of the call's function that a BEGIN or a TRY is about, 1, 2, 3 … over all attempts, never reused; else 0."""
    attempt: int = 0
    """The attempt that made a TRY."""
    name: str = ""
    """The call's name, for people."""
    arguments: str = ""
    """Digest of the call's arguments; empty: its key was given without any."""
    effect: Effect = Effect.IDEMPOTENT
    value: Payload | None = None
    """The value of an END. Absent: there are no bytes, which is not the same as empty ones."""
    failure: Failure = Failure()
    """The exception that a TRY notes."""
    usage: Usage = Usage()
    """Consumption of the call, apart from the calls within it."""
    messages: tuple[Message, ...] = ()
    """For the task's conversation, in order."""
    took_ms: int = 0
    """The time that the function ran."""
    sleep_ms: int = 0
    """The length of a WAIT's sleep."""


class StoredEntry(Record, frozen=True, kw_only=True):
    """An entry as it is kept, with what the store stamped."""

    entry: Entry
    journal: str
    """The journal's name within its run."""
    generation: int
    execution_id: str
    """The attempt that wrote it. Empty: a commit did."""
    version: int = 0
    """The run's version when it was written."""
    written_us: int = 0
    until_us: int = 0
    """The end of a WAIT's sleep."""
    size: int = 0
    """Bytes of the value, also where it was left out."""


class Totals(Record, frozen=True, kw_only=True):
    """Sums of the entries recorded under one lease: they only grow, and begin at nothing with each lease."""

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
    """Return the bytes that an entry counts for, in its journal and in a page: value, messages and failure."""
    return value_bytes(entry) + words_bytes(entry)
