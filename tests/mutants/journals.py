"""Stores with a bug in how they keep journals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.core.port import (
    Commit,
    CommitResult,
    JournalQuery,
    JournalWrite,
    Page,
    Recorded,
    Recording,
    Runtime,
    Store,
    Written,
)
from stepwell.core.records.states import ExecutionStatus, JournalMark
from tests.mutants.changes import MutantStore


class EntriesAcknowledgedEarly(MutantStore):
    """Says that every third entry is kept, and writes nothing."""

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self._count = 0

    async def write_journal(self, recordings: Sequence[Recording]) -> Sequence[Recorded]:
        self._count += 1
        if self._count % 3:
            return await self.inner.write_journal(recordings)
        empty = [replace(one, entries=()) for one in recordings]
        answers = await self.inner.write_journal(empty)
        return [
            replace(answer, written=tuple(Written() for _ in one.entries))
            if answer.live
            else answer
            for one, answer in zip(recordings, answers, strict=True)
        ]


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

    async def write_journal(self, recordings: Sequence[Recording]) -> Sequence[Recorded]:
        answers = await self.inner.write_journal(recordings)
        return [
            replace(answer, live=True, written=tuple(Written() for _ in one.entries))
            for one, answer in zip(recordings, answers, strict=True)
        ]


_NOT_DONE = (ExecutionStatus.LOST, ExecutionStatus.RELEASED, ExecutionStatus.SUSPENDED)
"""Ends of leases after which the next attempt goes on from what was recorded."""


class _ForgetsWithTheLease(MutantStore):
    """Drops what was recorded under a lease once that ends before its step is done."""

    mark = JournalMark.END

    def __init__(self, inner: Store, runtime: Runtime) -> None:
        super().__init__(inner, runtime)
        self._recorded: dict[str, list[JournalWrite]] = {}

    async def write_journal(self, recordings: Sequence[Recording]) -> Sequence[Recorded]:
        for one in recordings:
            self._recorded.setdefault(one.execution_id, []).extend(
                JournalWrite(journal=one.journal, generation=one.generation, entry=entry)
                for entry in one.entries
                if entry.mark is self.mark
            )
        return await self.inner.write_journal(recordings)

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self.inner.commit(
            [replace(one, forgotten=(*one.forgotten, *self._lost(one))) for one in commits]
        )

    def _lost(self, commit: Commit) -> list[JournalWrite]:
        lost = [one for one in commit.executions if one.status in _NOT_DONE]
        return [write for one in lost for write in self._recorded.get(one.execution_id, ())]


class EndsForgottenWithTheLease(_ForgetsWithTheLease):
    """Drops the values that were recorded under a lease once that ends before its step is done: they are made again."""


class BeginsForgottenWithTheLease(_ForgetsWithTheLease):
    """Drops the begins that were recorded under a lease once that ends before its step is done."""

    mark = JournalMark.BEGIN
