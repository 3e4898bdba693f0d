"""Journal entries in Postgres: a group of journal writes is one call of a function.

The function (`migrations/first/postgresql_record.sql`) checks and locks the leases, returns for
each entry whether its name is taken, and writes the new ones. One call gets at most one entry of
each name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from stepwell.core.port import EntryAck, JournalAck, JournalWrite
from stepwell.core.records.journal import Entry, Totals, entry_bytes, words_bytes
from stepwell_drivers.journals import summed
from stepwell_drivers.sql.columns import Values, bytes_of
from stepwell_drivers.sql.entries import (
    SUMS,
    RecordWork,
    body_of,
    name_of,
    once_of,
    sleep_of,
    step_of,
    totals_of,
)

CALL = "SELECT live, late, before, states, ends, now_us FROM stepwell_record_0008($1, $2)"
_REFUSED, _NEW = 0, 2
"""States of an entry: its name is taken by another entry; it is new. Any other: it is stored already."""

_Lease = tuple[str, str, str]
"""A tenant, a run and an execution."""


class _Place(NamedTuple):
    """An entry's index in the answers."""

    call: int
    at: int


class RecordCalls:
    """JournalWrites as calls; more than one call only if several entries have the same name."""

    sql = CALL

    def __init__(self, works: Sequence[RecordWork]) -> None:
        self._sizes = [len(work.writes) for work in works]
        # In the order in which commits and heartbeats lock the same rows.
        self._writes = [write for work in works for write in work.writes]
        self._order = sorted(range(len(self._writes)), key=lambda at: _lease_of(self._writes[at]))
        self._places: dict[int, list[_Place]] = {}
        entries: list[list[Values]] = [[]] if self._writes else []
        seen: Counter[tuple[str, ...]] = Counter()
        for place, at in enumerate(self._order, 1):
            write = self._writes[at]
            self._places[at] = []
            for entry in write.entries:
                name = (
                    *(write.tenant_id, write.run_id, write.journal),
                    *(entry.mark, str(entry.number), entry.key),
                )
                call = seen[name]
                seen[name] += 1
                if call == len(entries):
                    entries.append([])
                self._places[at].append(_Place(call, len(entries[call])))
                entries[call].append(_row_of(place, entry))
        self._entries = entries

    @property
    def arguments(self) -> list[Sequence[Any]]:
        """The arguments of each call."""
        heads = [_head_of(self._writes[at]) for at in self._order]
        return [(heads, entries or None) for entries in self._entries]

    def answers(self, answered: Sequence[Sequence[Any]]) -> list[list[JournalAck]]:
        """Return the answer to each work, by the rows that the calls returned."""
        calls = [rows[0] for rows in answered]
        sums: dict[_Lease, Totals] = {}
        recorded: dict[int, JournalAck] = {}
        for place, at in enumerate(self._order):
            write = self._writes[at]
            live, late, before, _, _, now_us = calls[0]
            if late[place] or not live[place]:
                recorded[at] = JournalAck(live=live[place], late=late[place], now_us=now_us)
                continue
            first = place * len(SUMS)
            stood = totals_of([number or 0 for number in before[first : first + len(SUMS)]])
            lease = _lease_of(write)
            totals = sums.get(lease, stood)
            states = [calls[one.call][3][one.at] for one in self._places[at]]
            ends = [calls[one.call][4][one.at] for one in self._places[at]]
            new = [
                entry for entry, state in zip(write.entries, states, strict=True) if state == _NEW
            ]
            sums[lease] = summed(totals, new) if new else totals
            recorded[at] = JournalAck(
                live=True,
                written=tuple(
                    EntryAck(accepted=state != _REFUSED, until_us=until_us or 0)
                    for state, until_us in zip(states, ends, strict=True)
                ),
                totals=sums[lease],
                now_us=now_us,
            )
        places = iter(range(len(recorded)))
        return [[recorded[next(places)] for _ in range(size)] for size in self._sizes]


def _lease_of(write: JournalWrite) -> _Lease:
    return (write.tenant_id, write.run_id, write.execution_id)


def _head_of(one: JournalWrite) -> Values:
    return (
        *(one.tenant_id, one.run_id, one.execution_id, one.token),
        *(one.journal, step_of(one.journal), one.generation, one.forget_number),
    )


def _row_of(at: int, entry: Entry) -> Values:
    usage = entry.usage
    return (
        *(at, name_of(entry), entry.key, entry.mark.value, entry.number, once_of(entry)),
        *(sleep_of(entry), words_bytes(entry), body_of(entry), *bytes_of(entry.value)),
        *(entry_bytes(entry), len(entry.messages)),
        *(usage.input_tokens, usage.output_tokens, usage.cost_micros),
    )
