"""Journals of all runs (J1 to J5): what was acknowledged is read, has one value, and is not done again.

It sees what the store answered to journal writes and what workers were answered, read and ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepwell.core.loop.children import CANCELLED
from stepwell.core.loop.letters import JOURNAL as LETTERS
from stepwell.core.loop.signals import JOURNAL as SIGNALS
from stepwell.core.port import EntryWrite, JournalAck, JournalWrite
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Usage
from stepwell.core.records.states import OPEN, Effect, EventType, ExecutionStatus, JournalMark
from tests.simulation.simulator.history import History
from tests.simulation.simulator.run_model import Applied, RunModel
from tests.simulation.simulator.violation import holds

REPLAYED = "recorded call was not made again"
STALE_ENTRY = "stale entry refused"
LATE_ENTRY = "late copy of a dropped entry refused"


_NO_STEP = (LETTERS, SIGNALS, CANCELLED)
"""Journals that are no step's."""


class Place(NamedTuple):
    """A journal of a run, in one generation; 0 for what is in all of them."""

    run: tuple[str, str]
    journal: str
    generation: int

    def of(self, entry: Entry) -> Place:
        """Return the place of an entry that was written here."""
        once = entry.effect is Effect.AT_MOST_ONCE
        return self._replace(generation=0) if once else self


Name = tuple[Place, str, JournalMark, int]


class JournalModel:
    """The entries of all journals."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._seen = history.seen
        self._orders: dict[Name, int] = {}
        """The entry of the history at which each name was written, or told to be."""
        self._leased: dict[tuple[tuple[str, str], str], int] = {}
        """The entry of the history at which each execution was leased."""
        self._stored: dict[Name, Entry] = {}
        """Entries that the store has accepted, and still has."""
        self._dropped: set[tuple[Name, bytes]] = set()
        """Values that were dropped, each as a call's run made it: no other run makes the same."""
        self._known: dict[Name, int] = {}
        """Names that a worker was told to be kept, or a commit has written, with the attempt that wrote each."""
        self._counted: dict[tuple[tuple[str, str], str], list[Usage]] = {}
        """The usage of the entries of each execution, those that were dropped since included."""
        self._generations: dict[tuple[tuple[str, str], str, int], int] = {}
        """The generation of each task's journal, by the plan revision that defined it."""

    # --- what the store answered ---

    def recorded(self, model: RunModel, write: JournalWrite, recorded: JournalAck) -> None:
        """Take in what the store answered to a journal write (J2, J4)."""
        execution = model.executions.get(write.execution_id)
        lease = model.leases.get(write.execution_id)
        own = lease is not None and lease.token == write.token
        live = own and execution is not None and execution.status is ExecutionStatus.LEASED
        self._seen[STALE_ENTRY] += not recorded.live
        holds(live or not recorded.live, "J4", model.key, write.execution_id, "had no lease")
        if not recorded.live or recorded.late:
            self._seen[LATE_ENTRY] += recorded.late
            return
        place = Place(model.key, write.journal, write.generation)
        for entry, written in zip(write.entries, recorded.written, strict=True):
            name = _name(place, entry)
            before = self._stored.get(name)
            right = written.accepted is (before in (None, entry))
            holds(right, "J2", model.key, name, "was answered", written, "and is", before)
            if before is None:
                is_back = (name, _value(entry)) in self._dropped
                holds(not is_back, "J3", model.key, name, "was dropped, and is back:", entry)
                self._stored[name] = entry
                self._orders[name] = self._history.order
                counted = self._counted.setdefault((model.key, write.execution_id), [])
                counted.append(entry.usage)

    def wrote(self, run: tuple[str, str], execution_id: str, usages: Sequence[Usage]) -> None:
        """Take in the usage of all entries of an attempt, where nobody saw when each was written."""
        self._counted[run, execution_id] = [*usages]

    def applied(self, model: RunModel, applied: Applied) -> None:
        """Take in the entries of a commit that the run's model has taken in already."""
        self._begins_anew_by_an_event(model, applied)
        kinds = {event.type for event in applied.commit.events}
        for write in applied.commit.forgotten:
            if write.journal in _NO_STEP or applied.commit.run.spec.is_thread:
                continue
            begin = write.entry.mark is JournalMark.BEGIN
            lawful = not begin and EventType.JOURNAL_FORGOTTEN in kinds
            lawful = lawful or EventType.OUTCOME_RESOLVED in kinds
            holds(lawful, "J5" if begin else "J3", applied, "drops", write, "by itself")
            name = _name(_place(model, write), write.entry)
            dropped = self._stored.pop(name, None)
            if dropped is not None and _value(dropped):
                self._dropped.add((name, _value(dropped)))
            self._known.pop(name, None)
            self._orders.pop(name, None)
        for write in applied.commit.entries:
            if write.journal in _NO_STEP:
                continue
            name = _name(_place(model, write), write.entry)
            self._stored.setdefault(name, write.entry)
            self._known.setdefault(name, 0)
            self._orders.setdefault(name, applied.order)
        for lease in applied.commit.leases:
            self._leased[model.key, lease.execution_id] = applied.order
        for execution in applied.commit.executions:
            if execution.status in OPEN:
                continue
            counted = self._counted.get((model.key, execution.execution_id), [])
            all_known = execution.journal_entries == len(counted)
            details = (
                applied,
                execution.execution_id,
                "counts",
                execution.journal_entries,
                counted,
            )
            holds(all_known, "J1", *details)
            tokens = sum(one.input_tokens for one in counted)
            holds(execution.usage.input_tokens - tokens in (0, 1), "S17", *details)

    def _begins_anew_by_an_event(self, model: RunModel, applied: Applied) -> None:
        """Check that a journal's generation is what its events made it (J3)."""
        renewed = Counter(
            event.task_id
            for event in applied.commit.events
            if event.type is EventType.JOURNAL_RENEWED
        )
        for task in applied.commit.tasks:
            place = (model.key, task.task_id, task.revision)
            before = self._generations.get(place, 1)
            after = self._generations[place] = task.journal.generation
            by_event = after == before + renewed[task.task_id]
            holds(by_event, "J3", applied, task.task_id, "is in generation", after, "by no event")

    # --- what workers were answered, read and ran ---

    def acknowledged(self, place: Place, attempt: int, entries: Iterable[Entry]) -> None:
        """Note entries of which a worker was told that they are kept."""
        for entry in entries:
            self._known.setdefault(_name(place, entry), attempt)
            self._orders.setdefault(_name(place, entry), self._history.order)

    def known(self, place: Place, execution_id: str) -> list[Name]:
        """Return what an attempt must find in its journal: what was written before its lease."""
        leased = self._leased[place.run, execution_id]
        return [
            name for name in self._known if _is_in(name[0], place) and self._orders[name] < leased
        ]

    def read(self, place: Place, expected: Sequence[Name], entries: Iterable[Entry]) -> None:
        """Check what a worker has read of its step's journal (J1, J2)."""
        found = {_name(place, entry): entry for entry in entries}
        missing = [name for name in expected if name in self._known and name not in found]
        holds(not missing, "J1", place, "was read without", missing)
        for name, entry in found.items():
            # Its messages are in the conversation, and not in what its worker reads.
            stored = replace(self._stored.get(name, entry), messages=())
            holds(stored == entry, "J2", place, name, "was read as", entry, "and is", stored)

    def ran(self, place: Place, attempt: int, entry: Entry) -> None:
        """Check that a call may run now; `entry` is its BEGIN, or its END-to-be (J3, J5)."""
        end = self._known.get(_name(place, Entry(key=entry.key, effect=entry.effect)), attempt + 1)
        holds(end > attempt, "J3", place, entry.key, "runs in attempt", attempt, "and has ended")
        if entry.effect is not Effect.AT_MOST_ONCE:
            return
        for where, key, mark, number in tuple(self._known):
            if (where, key, mark) == (place.of(entry), entry.key, JournalMark.BEGIN):
                # Its worker may have died before it was told that the try is kept: the next one reads it all the same.
                tried = (where, key, JournalMark.TRY, number) in self._stored
                open_one = number != entry.number and not tried
                holds(not open_one, "J5", place, key, "runs, and begin", number, "has no end")

    def replayed(self) -> None:
        """Note that a worker took a call's value from the journal."""
        self._seen[REPLAYED] += 1

    def has_at_most_once(self, run: tuple[str, str]) -> bool:
        """Return whether a run has an entry of an AT_MOST_ONCE call."""
        return any(name[0].run == run and not name[0].generation for name in self._stored)


def _value(entry: Entry) -> bytes:
    return entry.value.data if entry.value is not None else b""


def _name(place: Place, entry: Entry) -> Name:
    return (place.of(entry), entry.key, entry.mark, entry.number)


def _place(model: RunModel, write: EntryWrite) -> Place:
    return Place(model.key, write.journal, write.generation)


def _is_in(where: Place, place: Place) -> bool:
    same = (where.run, where.journal) == (place.run, place.journal)
    return same and where.generation in (0, place.generation)
