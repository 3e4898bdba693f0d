"""Stores with a bug in how they keep journals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.core.loop import letters
from stepwell.core.port import (
    Commit,
    CommitResult,
    EntryAck,
    EntryWrite,
    JournalAck,
    JournalQuery,
    JournalWrite,
    Page,
    Runtime,
    Store,
)
from stepwell.core.records.states import ExecutionStatus, JournalMark
from tests.mutants.changes import MutantStore


class EntriesAcknowledgedEarly(MutantStore):
    """Says that every third entry is kept, and writes nothing."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self._count = 0

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        self._count += 1
        if self._count % 3:
            return await self.inner.write_journal(writes)
        empty = [replace(one, entries=()) for one in writes]
        answers = await self.inner.write_journal(empty)
        return [
            replace(answer, written=tuple(EntryAck() for _ in one.entries))
            if answer.live
            else answer
            for one, answer in zip(writes, answers, strict=True)
        ]


class LettersUnread(MutantStore):
    """Reads no letters: those that the replica which sent them can't deliver stay where they are."""

    async def page(self, query: Any) -> Page[Any]:
        page = await self.inner.page(query)
        unread = isinstance(query, JournalQuery) and query.journal == letters.JOURNAL
        return replace(page, items=()) if unread else page


class EntriesMisplaced(MutantStore):
    """Reads the value of another call of the journal."""

    async def page(self, query: Any) -> Page[Any]:
        page = await self.inner.page(query)
        if not isinstance(query, JournalQuery):
            return page
        values = [one.entry.value for one in page.items]
        moved = [
            replace(one, entry=replace(one.entry, value=value))
            for one, value in zip(page.items, [*values[1:], *values[:1]], strict=True)
        ]
        return replace(page, items=tuple(moved))


class StaleEntriesTaken(MutantStore):
    """Takes entries of whoever had the lease once."""

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        answers = await self.inner.write_journal(writes)
        return [
            replace(answer, live=True, written=tuple(EntryAck() for _ in one.entries))
            for one, answer in zip(writes, answers, strict=True)
        ]


_NOT_DONE = (ExecutionStatus.LOST, ExecutionStatus.RELEASED, ExecutionStatus.SUSPENDED)
"""Ends of leases after which the next attempt goes on from what was recorded."""


class _ForgetsWithTheLease(MutantStore):
    """Drops what was recorded under a lease once that ends before its step is done."""

    mark = JournalMark.END

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self._recorded: dict[str, list[EntryWrite]] = {}

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        for one in writes:
            self._recorded.setdefault(one.execution_id, []).extend(
                EntryWrite(journal=one.journal, generation=one.generation, entry=entry)
                for entry in one.entries
                if entry.mark is self.mark
            )
        return await self.inner.write_journal(writes)

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit(
            [replace(one, forgotten=(*one.forgotten, *self._lost(one))) for one in commits]
        )

    def _lost(self, commit: Commit) -> list[EntryWrite]:
        lost = [one for one in commit.executions if one.status in _NOT_DONE]
        return [write for one in lost for write in self._recorded.get(one.execution_id, ())]


class EndsForgottenWithTheLease(_ForgetsWithTheLease):
    """Drops the values that were recorded under a lease once that ends before its step is done: they are made again."""


class BeginsForgottenWithTheLease(_ForgetsWithTheLease):
    """Drops the begins that were recorded under a lease once that ends before its step is done."""

    mark = JournalMark.BEGIN
