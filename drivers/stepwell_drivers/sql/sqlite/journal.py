"""Journal entries in SQLite: workers record them, commits write and forget them.

They are written after the commits of their group, within the same transaction, so that leases are
as the commits left them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from stepwell.core.port import Commit, EntryAck, EntryWrite, JournalAck, JournalWrite
from stepwell.core.records.journal import Entry, Totals, words_bytes
from stepwell_drivers.journals import seen_in, summed
from stepwell_drivers.sql import schema
from stepwell_drivers.sql.columns import Values, bytes_of, payload_of
from stepwell_drivers.sql.dialect import Link
from stepwell_drivers.sql.entries import (
    ENTRY,
    SUMS,
    RecordWork,
    body_of,
    entry_of,
    name_of,
    once_of,
    sleep_of,
    step_of,
    sums_of,
)
from stepwell_drivers.sql.sqlite.run_cache import NOTHING, Facts, RunKey
from stepwell_drivers.sql.statements import Delete, Insert, Pick

_Key = tuple[int, int, int]
"""A run's number, and the digests of a journal's name and an entry's name."""

_NAME = ("run_key", "step", "name")
_LEASE = ("run_key", "execution_id")
_STORED = ("generation", "until_us", "journal", "body", "value_media_type", "value")
_insert_entries = Insert(schema.journal_entries, ENTRY)
_pick_entries = Pick(schema.journal_entries, _NAME, (*_NAME, "seq", *_STORED))
_drop_entries = Delete(schema.journal_entries, ("seq",))
_put_sums = Insert(
    schema.lease_sums, (*_LEASE, "token", *SUMS), key=_LEASE, replaced=("token", *SUMS)
)


class Leases(Protocol):
    """The leases of runs, as the group has left them."""

    def facts_of(self, run: RunKey) -> Facts | None:
        """Return a run's facts, or None if it doesn't exist."""
        ...

    def token_of(self, facts: Facts, execution_id: str) -> str:
        """Return the token of an execution's lease; empty if it has none."""
        ...

    def take_sums(self, run: RunKey, execution_id: str, totals: Totals) -> None:
        """Take over a lease's new sums."""
        ...


class _Run(NamedTuple):
    """The run of a journal write with a valid lease."""

    run_key: int
    version: int
    is_late: bool
    """True if calls were dropped since it was sent."""


class _Put(NamedTuple):
    """An entry to write unless its name is taken."""

    run_key: int
    version: int
    execution_id: str | None
    write: EntryWrite

    @property
    def key(self) -> _Key:
        return (self.run_key, step_of(self.write.journal), name_of(self.write.entry))


class _Stored(NamedTuple):
    """A stored entry."""

    seq: int
    generation: int
    until_us: int
    journal: str
    entry: Entry

    def is_named(self, write: EntryWrite) -> bool:
        """Return whether it has this journal and name, in any generation."""
        mine, other = self.entry, write.entry
        return self.journal == write.journal and (
            (mine.key, mine.mark, mine.number) == (other.key, other.mark, other.number)
        )


def record(
    link: Link, leases: Leases, works: Sequence[RecordWork], now_us: int
) -> list[list[JournalAck]]:
    """Write what was recorded under valid leases, and answer each work."""
    writes = [write for work in works for write in work.writes]
    runs = [_run_of(leases, write) for write in writes]
    puts = [
        _Put(run.run_key, run.version, write.execution_id, _write_of(write, entry))
        for write, run in zip(writes, runs, strict=True)
        if run is not None and not run.is_late
        for entry in write.entries
    ]
    written = _put(link, puts, now_us)
    sums: dict[tuple[int, str], Values] = {}
    answers: list[JournalAck] = []
    for write, run in zip(writes, runs, strict=True):
        if run is None or run.is_late:
            answers.append(JournalAck(live=run is not None, late=run is not None, now_us=now_us))
            continue
        answer, is_new = _counted(leases, write, written, now_us)
        answers.append(answer)
        if is_new:
            key = (run.run_key, write.execution_id)
            sums[key] = (*key, write.token, *sums_of(answer.totals))
    _put_sums.run(link, list(sums.values()))
    each = iter(answers)
    return [[next(each) for _ in work.writes] for work in works]


def write_entries(link: Link, commits: Sequence[tuple[int, Commit]], now_us: int) -> None:
    """Forget and write the journal entries of these commits, each given with its run's number."""
    for run_key, commit in commits:
        gone = [_Put(run_key, commit.version, None, write) for write in commit.forgotten]
        there = _there(link, [put.key for put in gone])
        dropped = {
            stored.seq: None
            for put in gone
            for stored in there[put.key]
            if stored.is_named(put.write) and stored.generation == put.write.generation
        }
        _drop_entries.run(link, [(seq,) for seq in dropped])
        puts = [_Put(run_key, commit.version, None, write) for write in commit.entries]
        _put(link, puts, now_us)


def _run_of(leases: Leases, write: JournalWrite) -> _Run | None:
    """Return the run of a journal write, or None if the token is not its lease's."""
    facts = leases.facts_of((write.tenant_id, write.run_id))
    if facts is None:
        return None
    token = leases.token_of(facts, write.execution_id)
    if not token or token != write.token:
        return None
    kept = facts.recorded.get(write.execution_id, NOTHING)
    if not kept.is_leased:
        return None
    return _Run(facts.run_key, facts.version, write.forget_number < kept.forget_number)


def _write_of(write: JournalWrite, entry: Entry) -> EntryWrite:
    return EntryWrite(journal=write.journal, generation=write.generation, entry=entry)


def _counted(
    leases: Leases, write: JournalWrite, written: Iterator[tuple[EntryAck, bool]], now_us: int
) -> tuple[JournalAck, bool]:
    """Return the answer to a journal write with its lease's sums, and whether these have changed."""
    run = (write.tenant_id, write.run_id)
    facts = leases.facts_of(run)
    assert facts is not None
    totals = facts.recorded.get(write.execution_id, NOTHING).totals
    outcomes = [next(written) for _ in write.entries]
    new = [one for one, (_, is_new) in zip(write.entries, outcomes, strict=True) if is_new]
    if new:
        totals = summed(totals, new)
        leases.take_sums(run, write.execution_id, totals)
    answer = JournalAck(
        live=True, written=tuple(one for one, _ in outcomes), totals=totals, now_us=now_us
    )
    return answer, bool(new)


def _put(link: Link, puts: Sequence[_Put], now_us: int) -> Iterator[tuple[EntryAck, bool]]:
    """Write entries unless their names are taken; return the answer to each, and whether it is new."""
    keys = [put.key for put in puts]
    there = _there(link, keys)
    rows: list[Values] = []
    answers: list[tuple[EntryAck, bool]] = []
    for put, key in zip(puts, keys, strict=True):
        write = put.write
        entry = write.entry
        taken = next(
            (
                stored
                for stored in there[key]
                if stored.is_named(write)
                and seen_in(stored.generation, stored.entry.effect, write.generation)
            ),
            None,
        )
        if taken is not None:
            same = taken.entry == entry
            answers.append((EntryAck(accepted=same, until_us=taken.until_us), False))
            continue
        sleep_us = sleep_of(entry)
        until_us = None if sleep_us is None else now_us + sleep_us
        stored = _Stored(0, write.generation, until_us or 0, write.journal, entry)
        there[key].append(stored)
        rows.append(
            (
                *(*key, write.generation, once_of(entry), put.version, now_us),
                *(write.journal, put.execution_id, until_us),
                *(words_bytes(entry), body_of(entry)),
                *bytes_of(entry.value),
            )
        )
        answers.append((EntryAck(until_us=stored.until_us), True))
    _insert_entries.run(link, rows)
    return iter(answers)


def _there(link: Link, keys: Iterable[_Key]) -> dict[_Key, list[_Stored]]:
    """Return the stored entries with these digests."""
    there: dict[_Key, list[_Stored]] = {key: [] for key in keys}
    for row in _pick_entries.run(link, list(there)):
        run_key, step, name, seq, generation, until_us, journal, body, media_type, data = row
        entry = entry_of(body, payload_of(media_type, data))
        stored = _Stored(seq, generation, until_us or 0, journal, entry)
        there[run_key, step, name].append(stored)
    return there
