"""Rules of journal entries that all drivers share: which entries a generation sees, and how they are summed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stepwell.core.records.journal import Entry, StoredEntry, Totals, entry_bytes
from stepwell.core.records.states import Effect


def seen_in(stored_generation: int, effect: Effect, generation: int) -> bool:
    """Return whether a stored entry occupies its name in a generation: it is of that generation, or
    of an AT_MOST_ONCE call.
    """
    return stored_generation == generation or effect is Effect.AT_MOST_ONCE


def summed(before: Totals, entries: Iterable[Entry]) -> Totals:
    """Return a lease's sums after adding these entries."""
    count, size, usage, messages = before.entries, before.bytes, before.usage, before.messages
    for entry in entries:
        count += 1
        size += entry_bytes(entry)
        usage += entry.usage
        messages += len(entry.messages)
    return Totals(entries=count, bytes=size, usage=usage, messages=messages)


def without_bytes(stored: StoredEntry) -> StoredEntry:
    """Return an entry without the bytes of its value."""
    value = stored.entry.value
    if value is None:
        return stored
    return replace(stored, entry=replace(stored.entry, value=replace(value, data=b"")))
