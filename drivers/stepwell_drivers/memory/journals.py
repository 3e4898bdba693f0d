"""The journal of one run: entries that workers write under a lease, outside of commits.

A cursor is the number of an entry within its run, counted over all its journals. Numbers are never
reused, so a cursor stays valid when entries are forgotten.
"""

from __future__ import annotations

from bisect import bisect_left

from stepwell.core.port import EntryAck, EntryWrite, JournalQuery, Page
from stepwell.core.records.journal import StoredEntry, value_bytes, words_bytes
from stepwell.core.records.states import JournalMark
from stepwell_drivers.journals import seen_in, without_bytes

_Name = tuple[str, str, JournalMark, int]


class RunJournals:
    """The kept journal entries of one run."""

    __slots__ = ("_entries", "_names", "_next", "_numbers")

    def __init__(self) -> None:
        self._entries: dict[int, StoredEntry] = {}
        """Entries by their numbers."""
        self._numbers: dict[str, list[int]] = {"": []}
        """The numbers of each journal's entries in the order of writing; those of all journals are under ""."""
        self._names: dict[_Name, list[int]] = {}
        """The numbers of the entries of each name, one for each generation."""
        self._next = 1

    def put(
        self, write: EntryWrite, *, version: int, now_us: int, execution_id: str = ""
    ) -> tuple[EntryAck, bool]:
        """Keep an entry unless its name is taken; return the answer, and whether the entry is new."""
        entry = write.entry
        numbers = self._names.setdefault(_name_of(write), [])
        for number in numbers:
            stored = self._entries[number]
            if seen_in(stored.generation, stored.entry.effect, write.generation):
                return EntryAck(accepted=stored.entry == entry, until_us=stored.until_us), False
        until_us = now_us + entry.sleep_ms * 1_000 if entry.mark is JournalMark.WAIT else 0
        number = self._next
        self._next += 1
        self._entries[number] = StoredEntry(
            entry=entry,
            journal=write.journal,
            generation=write.generation,
            execution_id=execution_id,
            version=version,
            written_us=now_us,
            until_us=until_us,
            size=value_bytes(entry),
        )
        numbers.append(number)
        for journal in {"", write.journal}:
            self._numbers.setdefault(journal, []).append(number)
        return EntryAck(until_us=until_us), True

    def forget(self, write: EntryWrite) -> None:
        """Remove the entry of that name and generation, if it exists."""
        same_name = self._names.get(_name_of(write), [])
        for number in same_name:
            if self._entries[number].generation == write.generation:
                same_name.remove(number)
                del self._entries[number]
                for journal in {"", write.journal}:
                    numbers = self._numbers[journal]
                    del numbers[bisect_left(numbers, number)]
                return

    def page(self, query: JournalQuery, cursor: int) -> Page[StoredEntry]:
        """Return a page that starts at a cursor, and the next cursor."""
        numbers = self._numbers.get(query.journal, [])
        found: list[StoredEntry] = []
        room = query.bytes_limit
        for at in range(bisect_left(numbers, cursor), len(numbers)):
            stored = self._entries[numbers[at]]
            if not _matches(stored, query):
                continue
            room -= words_bytes(stored.entry) + (0 if query.names_only else stored.size)
            if found and (len(found) >= query.limit or room < 0):
                return Page(items=tuple(found), cursor=str(numbers[at]))
            found.append(without_bytes(stored) if query.names_only else stored)
        return Page(items=tuple(found), cursor=str(max(cursor, self._next)))


def _name_of(write: EntryWrite) -> _Name:
    entry = write.entry
    return (write.journal, entry.key, entry.mark, entry.number)


def _matches(stored: StoredEntry, query: JournalQuery) -> bool:
    generation = query.generation
    return (
        query.execution_id in {"", stored.execution_id}
        and (not query.version or stored.version <= query.version)
        and (
            not generation
            or (
                stored.generation <= generation
                and seen_in(stored.generation, stored.entry.effect, generation)
            )
        )
    )
