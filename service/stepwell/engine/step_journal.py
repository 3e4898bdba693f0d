"""Reads journals of steps: in pages for their workers, and entry by entry for the loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop import signals
from stepwell.core.loop.journals import name_of
from stepwell.core.loop.state import RunState
from stepwell.core.port import (
    Commit,
    EntryWrite,
    HeldEntry,
    JournalPage,
    JournalQuery,
    Page,
    Store,
    every_row,
)
from stepwell.core.records import limits
from stepwell.core.records.cuts import cut_failure, failure_bytes, text_bytes
from stepwell.core.records.errors import InvalidArgument, Violation
from stepwell.core.records.journal import KeptSignal, StoredEntry
from stepwell.core.records.model import Execution, Failure
from stepwell.core.records.states import JournalMark, StepKind
from stepwell.core.records.step_journal import Journal, Source
from stepwell.engine.key_types import RunKey

_ENTRIES_PER_PAGE = 1_000
_ENTRY_BYTES = 96
"""The size of an entry in a message without its texts and its value."""
_NO_FAILURE = Failure()


class StepJournal(NamedTuple):
    """The journal of one step."""

    name: str
    journal: Journal


def journal_in(state: RunState, execution: Execution) -> StepJournal | None:
    """Return the journal of an execution's step, or None for a RECONCILE step."""
    if execution.kind is StepKind.RECONCILE:
        return None
    if execution.kind is not StepKind.TASK:
        return StepJournal(name_of(state.run, None), state.run.step_journal)
    task = state.tasks[execution.task_id]
    return StepJournal(name_of(state.run, task), task.journal)


def is_same(one: StepJournal, other: StepJournal) -> bool:
    """Return whether two states of a step's journal are of the same entries, as far as both have them."""
    return (one.name, one.journal.generation, one.journal.sources) == (
        other.name,
        other.journal.generation,
        other.journal.sources,
    )


FIRST_PAGE = "0."
"""The cursor of a journal's beginning."""

# --- pages for workers -------------------------------------------------------------------------------


async def read_page(
    store: Store, key: RunKey, step: StepJournal, cursor: str, now_us: int, *, begins: bool = False
) -> JournalPage:
    """Return the part of a step's journal after a cursor: first the journals from which a fork
    continues, then its own.

    `now_us` is an estimate of the store's time, for the rest of sleeps. `begins`: the attempt has written nothing yet.

    Raises:
        InvalidArgument: the cursor is invalid.
    """
    parts = _parts(key, step)
    known = step.journal.entries if begins and step.journal.generation == 1 else 0
    place, after = _opened(cursor, len(parts))
    while True:
        query = replace(parts[place], cursor=after)
        is_last = place == len(parts) - 1
        page, more = await _part(store, query, known if is_last else 0)
        if page.items or is_last:
            break
        place, after = place + 1, ""
    entries = tuple(_held(one, now_us) for one in page.items)
    if more:
        return JournalPage(entries=entries, cursor=f"{place}.{page.cursor}")
    if is_last:
        return JournalPage(entries=entries)
    return JournalPage(entries=entries, cursor=f"{place + 1}.")


def with_written(page: JournalPage, step: StepJournal, commit: Commit) -> JournalPage:
    """Return a page that was read before a commit, or while it was made, as it is after the commit."""
    if page.cursor:
        return page  # What the commit wrote comes after it.
    known = {(one.entry.key, one.entry.mark, one.entry.number) for one in page.entries}
    new = tuple(
        HeldEntry(entry=one.entry)
        for one in commit.entries
        if (one.journal, one.generation) == (step.name, step.journal.generation)
        and (one.entry.key, one.entry.mark, one.entry.number) not in known
    )
    return JournalPage(entries=page.entries + new)


def _parts(key: RunKey, step: StepJournal) -> Sequence[JournalQuery]:
    """Return the queries for the journals that a step's journal consists of."""
    own = Source(run_id=key[1], journal=step.name, generation=step.journal.generation, version=0)
    return [
        JournalQuery(
            tenant_id=key[0],
            run_id=one.run_id,
            journal=one.journal,
            generation=one.generation,
            version=one.version,
            limit=_ENTRIES_PER_PAGE,
            bytes_limit=limits.JOURNAL_PAGE_BYTES_MAX,
        )
        for one in (*step.journal.sources, own)
    ]


def _opened(cursor: str, parts: int) -> tuple[int, str]:
    if not cursor:
        return 0, ""
    place, dot, after = cursor.partition(".")
    if not dot or not place.isascii() or not place.isdigit() or int(place[:9]) >= parts:
        what = "is none of this journal's; start with an empty one"
        raise InvalidArgument(
            f"page_token {what}", (Violation("page_token", what),), reason="PAGE_TOKEN_INVALID"
        )
    return int(place), after


async def _part(store: Store, query: JournalQuery, known: int) -> tuple[Page[StoredEntry], bool]:
    """Return a page that fits into a message, and whether there is more after it.

    `known` is the number of all entries from the journal's beginning, or 0.
    """
    page = await store.page(query)
    room = limits.JOURNAL_PAGE_BYTES_MAX
    for count, one in enumerate(page.items):
        room -= _other_bytes(one)
        if room < 0 and count:
            # Only the store knows the cursor after a shorter page.
            return await store.page(replace(query, limit=count)), True
    if len(page.items) == known and not query.cursor:
        return page, False
    # A short page ends where the next entry didn't fit, or at the end.
    return page, bool(page.items) and await is_more(store, query, page.cursor)


async def is_more(store: Store, query: JournalQuery, cursor: str) -> bool:
    """Return whether there are entries after a cursor of a query."""
    probe = replace(query, cursor=cursor, limit=1, names_only=True)
    return bool((await store.page(probe)).items)


def _other_bytes(one: StoredEntry) -> int:
    """Return the bytes of an entry without its value, as sent to its step's worker, or slightly more."""
    entry = one.entry
    size = _ENTRY_BYTES + text_bytes(entry.key) + text_bytes(entry.name)
    if entry.failure != _NO_FAILURE:
        size += min(failure_bytes(entry.failure), limits.ENTRY_FAILURE_BYTES_MAX)
    return size


def _held(one: StoredEntry, now_us: int) -> HeldEntry:
    """Return an entry for the step's worker, without messages, which are in the conversation."""
    entry = one.entry
    if entry.messages or entry.failure != _NO_FAILURE:
        failure = cut_failure(entry.failure, limits.ENTRY_FAILURE_BYTES_MAX)
        entry = replace(entry, messages=(), failure=failure)
    return HeldEntry(entry=entry, remaining_ms=remaining_ms(one.until_us, now_us))


def remaining_ms(until_us: int, now_us: int) -> int:
    """Return the rest of a sleep, rounded up; 0 if it is over, or there is none."""
    return max(0, -((now_us - until_us) // 1_000)) if until_us else 0


def page_bytes(page: JournalPage | None) -> int:
    """Return the bytes that a page takes in a message, or slightly more."""
    if page is None:
        return 0
    size = _ENTRY_BYTES
    for held in page.entries:
        entry = held.entry
        size += _ENTRY_BYTES + text_bytes(entry.key) + text_bytes(entry.name)
        size += text_bytes(entry.arguments)
        if entry.failure != _NO_FAILURE:
            size += failure_bytes(entry.failure)
        if entry.value is not None:
            size += _ENTRY_BYTES + len(entry.value.data) + text_bytes(entry.value.media_type)
    return size


# --- entries for the loop
# ---------------------------------------------------------------------------


async def entries_of(
    store: Store, key: RunKey, step: StepJournal, calls: Iterable[str]
) -> dict[str, list[EntryWrite]]:
    """Return all entries of each of these calls in a journal, without values."""
    query = JournalQuery(
        tenant_id=key[0],
        run_id=key[1],
        journal=step.name,
        generation=step.journal.generation,
        names_only=True,
    )
    found: dict[str, list[EntryWrite]] = {call: [] for call in calls}
    async for one in every_row(store, query):
        if (held := found.get(one.entry.key)) is not None:
            held.append(EntryWrite(journal=one.journal, generation=one.generation, entry=one.entry))
    return found


async def begun_of(
    store: Store, key: RunKey, step: StepJournal, call: str
) -> tuple[EntryWrite, ...]:
    """Return the BEGINs of a call with an unknown outcome."""
    entries = (await entries_of(store, key, step, (call,)))[call]
    marks = {(one.entry.mark, one.entry.number) for one in entries}
    if (JournalMark.END, 0) in marks:
        return ()
    return tuple(
        one
        for one in entries
        if one.entry.mark is JournalMark.BEGIN and (JournalMark.TRY, one.entry.number) not in marks
    )


async def first_entries(store: Store, query: JournalQuery) -> Sequence[StoredEntry]:
    """Return the first entries for a query, up to its limit, however many pages they take."""
    found: list[StoredEntry] = []
    cursor = query.cursor
    while (room := query.limit - len(found)) > 0:
        limit = min(room, _ENTRIES_PER_PAGE)
        page = await store.page(replace(query, cursor=cursor, limit=limit))
        if not page.items:
            break
        found += page.items
        cursor = page.cursor
    return found


async def signals_of(store: Store, key: RunKey, version: int = 0) -> Sequence[StoredEntry]:
    """Return the entries of the signals that a run keeps, oldest first; with a version, only those that it kept then."""
    query = JournalQuery(tenant_id=key[0], run_id=key[1], journal=signals.JOURNAL, version=version)
    return [one async for one in every_row(store, query)]


async def shown_signals(store: Store, key: RunKey, last: int) -> tuple[KeptSignal, ...]:
    """Return the signals up to this number that a run keeps, which a PLAN or REFLECT step is shown, oldest first."""
    query = JournalQuery(
        tenant_id=key[0], run_id=key[1], journal=signals.JOURNAL, limit=limits.SIGNALS_SHOWN_MAX
    )
    kept = [signals.kept_signal(one) for one in await first_entries(store, query)]
    return tuple(one for one in kept if one.number <= last)
