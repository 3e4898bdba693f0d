"""Journals: entries that workers write while they hold a lease, and pages of them.

JournalWrites that arrive together for one partition are sent in one script call. Entries are rows of
their run. A commit that ends the lease changes the same rows, so the two are always ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepwell.core.port import EntryAck, EntryWrite, JournalAck, JournalQuery, JournalWrite, Page
from stepwell.core.records.errors import StoreError, StoreFull
from stepwell.core.records.journal import StoredEntry
from stepwell.core.records.states import JournalMark
from stepwell_drivers.redis import rows
from stepwell_drivers.redis.base import Base, number
from stepwell_drivers.redis.cursors import cursor_of, place_of
from stepwell_drivers.redis.groups import Groups, failure_of
from stepwell_drivers.redis.packing import packed_entry
from stepwell_drivers.redis.wire import Reply

LOOKED_AT = 10_000
"""The number of entries that a page reads through in one call."""
_NUMBER_MAX = 2**53
_ACCEPTED, _REFUSED = EntryAck(), EntryAck(accepted=False)
_IS_ACCEPTED = ord("A")


class Journals:
    """The journals of all runs."""

    def __init__(self, base: Base) -> None:
        self._base = base

    async def write(self, writes: Sequence[JournalWrite]) -> list[JournalAck]:
        """Send the journal writes to their partitions; one result each, in order.

        Raises:
            InvalidArgument: a journal write can't be stored; nothing was sent.
            StoreUnavailable: nothing was written.
            OutcomeUnknown: entries may have been written.
        """
        base, groups = self._base, Groups()
        for place, one in enumerate(writes):
            run = base.run(one.tenant_id, one.run_id)
            parts, bodies = _packed(one)
            groups.of(run).add(run, (run.rows,), place, parts, bodies)
        asks = [
            group.ask(base.scripts.record, (group.partition.book,), base.store_id)
            for group in groups.all
        ]
        replies = await base.network.commit_all(asks)
        failures: list[StoreError] = []
        results: dict[int, JournalAck] = {}
        for group, reply in zip(groups.all, replies, strict=True):
            if isinstance(reply, StoreError):
                failures.append(reply)
                if isinstance(reply, StoreFull):
                    base.note_refused(group.partition, group.size)
                continue
            now_us = base.observe(int(reply[0]))
            for place, answer in zip(group.places, reply[1:], strict=True):
                results[place] = _recorded(writes[place], answer, now_us)
        if failures:
            is_done = any(result.live for result in results.values())
            raise failure_of(failures, is_done=is_done)
        return [results[place] for place in range(len(writes))]

    async def page(self, query: JournalQuery) -> Page[StoredEntry]:
        """Return journal entries; the last page has a cursor, too."""
        run = self._base.run(query.tenant_id, query.run_id)
        place = min(max(place_of(query.cursor, "n", int, 1), 1), _NUMBER_MAX)
        filters = (
            *(query.journal.encode(), number(query.generation), query.execution_id.encode()),
            *(number(query.version), b"0" if query.names_only else b"1"),
        )
        limits = (number(max(query.limit, 1)), number(query.bytes_limit), number(LOOKED_AT))
        found: list[bytes] = []
        values: list[bytes | None] = []
        more = 1
        while more and not found:
            place, more, found, values = await self._base.call(
                run.partition,
                self._base.scripts.journal,
                (run.rows,),
                *(b"%d" % int(place), *limits, *filters),
            )
        items = (rows.entry_of(row, values[at] if values else None) for at, row in enumerate(found))
        return Page(items=tuple(items), cursor=cursor_of("n", int(place)))


def _packed(write: JournalWrite) -> tuple[tuple[Any, ...], list[bytes]]:
    bodies: list[bytes] = []
    try:
        writes = [
            packed_entry(
                EntryWrite(journal=write.journal, generation=write.generation, entry=entry),
                bodies,
            )
            for entry in write.entries
        ]
    except rows.NOT_KEPT as error:
        raise rows.not_kept(error) from None
    return (write.execution_id, write.token, write.forget_number, writes), bodies


def _recorded(write: JournalWrite, answer: Reply, now_us: int) -> JournalAck:
    if answer is None:
        return JournalAck(live=False, now_us=now_us)
    if not answer:
        return JournalAck(live=True, late=True, now_us=now_us)
    letters, ends, sums = answer.split(b" ", 2)
    untils = iter(ends.split(b","))
    written = tuple(
        _written(letter == _IS_ACCEPTED, next(untils) if entry.mark is JournalMark.WAIT else b"")
        for letter, entry in zip(letters, write.entries, strict=True)
    )
    return JournalAck(live=True, written=written, totals=rows.totals_of(sums), now_us=now_us)


def _written(accepted: bool, until: bytes) -> EntryAck:
    if until:
        return EntryAck(accepted=accepted, until_us=int(until))
    return _ACCEPTED if accepted else _REFUSED
