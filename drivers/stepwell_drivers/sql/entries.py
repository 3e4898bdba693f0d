"""Entries of journals, and the sums of what leases recorded, as rows.

A name is looked up by two digests, of the journal's name and of the entry's name. One narrow index,
written once for each entry, serves this and the listing of a journal. Different names may have the
same digests, so the names of a found row are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

import msgspec
from msgspec.structs import replace

from stepwell.core.port import Commit, JournalWrite
from stepwell.core.records.journal import Entry, Totals, words_bytes
from stepwell.core.records.model import Payload, Usage
from stepwell.core.records.states import Effect, JournalMark
from stepwell_drivers.sql.columns import Values, bytes_of, to_json

ENTRY = (
    *("run_key", "step", "name", "generation", "at_most_once", "version", "written_us"),
    *("journal", "execution_id", "until_us", "words", "body", "value_media_type", "value"),
)
"""The columns of an entry's row."""
SUMS = ("entries", "bytes", "messages", "input_tokens", "output_tokens", "cost_micros")
"""The columns of a lease's sums."""

_entry_of = msgspec.json.Decoder(Entry).decode


class RecordWork(NamedTuple):
    """`Store.write_journal`; answers with a list of JournalAck."""

    writes: Sequence[JournalWrite]


def step_of(journal: str) -> int:
    """Return the four-byte digest of a journal's name."""
    return crc32(journal.encode()) - 2**31


def name_of(entry: Entry) -> int:
    """Return the six-byte digest of an entry's name."""
    name = f"{entry.mark.value}{entry.number}:{entry.key}"
    return int.from_bytes(blake2b(name.encode(), digest_size=6).digest()) - 2**47


def body_of(entry: Entry) -> str:
    """Return an entry without its value."""
    return to_json(entry if entry.value is None else replace(entry, value=None))


def once_of(entry: Entry) -> int:
    """Return 1 for an entry of an AT_MOST_ONCE call, else 0."""
    return 1 if entry.effect is Effect.AT_MOST_ONCE else 0


def sleep_of(entry: Entry) -> int | None:
    """Return the length of a WAIT's sleep in microseconds; None if the entry is no WAIT."""
    return entry.sleep_ms * 1_000 if entry.mark is JournalMark.WAIT else None


def entry_of(body: str, value: Payload | None) -> Entry:
    """Return the entry of its body and its value."""
    entry = _entry_of(body)
    return entry if value is None else replace(entry, value=value)


def totals_of(sums: Sequence[int]) -> Totals:
    """Return the sums of their columns."""
    entries, size, messages, input_tokens, output_tokens, cost_micros = sums
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_micros=cost_micros)
    return Totals(entries=entries, bytes=size, messages=messages, usage=usage)


def sums_of(totals: Totals) -> Values:
    """Return the columns of sums."""
    usage = totals.usage
    return (
        *(totals.entries, totals.bytes, totals.messages),
        *(usage.input_tokens, usage.output_tokens, usage.cost_micros),
    )


def journal_writes(run_key: int, commit: Commit) -> Iterator[Values]:
    """Yield the entries that a commit forgets and writes, as rows of `JOURNAL_WRITE`."""
    for writes, is_forgotten in ((commit.forgotten, True), (commit.entries, False)):
        for write in writes:
            entry = write.entry
            yield (
                *(run_key, is_forgotten, write.journal, step_of(write.journal), write.generation),
                *(name_of(entry), entry.key, entry.mark.value, entry.number, once_of(entry)),
                *(commit.version, sleep_of(entry), words_bytes(entry)),
                *(body_of(entry), *bytes_of(entry.value)),
            )
