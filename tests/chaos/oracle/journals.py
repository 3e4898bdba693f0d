"""Journals of a cluster's steps, checked (J1 to J5): the diaries and what functions noted, laid over the store.

Diaries have each journal write as it was sent and as the store answered it. A call's function notes outside of all that is
killed that it runs, and the step that the call's value was kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from stepwell.core.port import Commit, CommitResult, EntryWrite, JournalQuery, JournalWrite, Store
from stepwell.core.records.journal import Entry, StoredEntry
from stepwell.core.records.states import Effect, Verdict
from tests.chaos.world import observed
from tests.simulation.simulator.journals import JournalModel
from tests.simulation.simulator.run_model import RunModel
from tests.simulation.simulator.violation import holds

ONCE = "once"
"""The key of a call that is AT_MOST_ONCE; those of all others may run again."""
KEPT, REPLAYED, FORGOTTEN = "call kept", "call taken from the journal", "call forgotten"
ENTRY = "journal entry checked"
SEEN = (KEPT, REPLAYED, FORGOTTEN, ENTRY)
"""The counted things."""

Name = tuple[str, str, int, str, str, int]
"""An entry's run, journal, generation (0 where it is in all of them), key, mark and number."""
Attempt = tuple[str, str]
"""A run and the id of an execution."""


class Answered(NamedTuple):
    """The store's answer to an entry that an attempt sent."""

    name: Name
    entry: Entry
    accepted: bool
    asked: float


class Journals:
    """All that the store has of the runs' journals, all that it was sent, and all that it answered."""

    def __init__(self, diary: Sequence[observed.Entry]) -> None:
        self._sent: dict[Attempt, list[tuple[Name, Entry]]] = defaultdict(list)
        self._answers: dict[Attempt, list[Answered]] = defaultdict(list)
        self._stored: dict[Name, StoredEntry] = {}
        self._forgotten: set[Name] = set()
        for line in diary:
            if line.write is not None:
                self._take(line, line.write)

    def _take(self, line: observed.Entry, one: JournalWrite) -> None:
        attempt = (one.run_id, one.execution_id)
        pairs = [(_name(one.run_id, one, entry), entry) for entry in one.entries]
        if line.recorded is None:
            self._sent[attempt] += pairs
        elif line.recorded.live and not line.recorded.late:
            for (name, entry), written in zip(pairs, line.recorded.written, strict=True):
                answer = Answered(name, entry, written.accepted, line.asked)
                self._answers[attempt].append(answer)

    async def read(self, store: Store, tenant_id: str, run_ids: Iterable[str]) -> None:
        """Read what the store has."""
        for run_id in run_ids:
            query = JournalQuery(tenant_id=tenant_id, run_id=run_id)
            while (page := await store.page(query)).items:
                self._stored |= {_name(run_id, one, one.entry): one for one in page.items}
                query = JournalQuery(tenant_id=tenant_id, run_id=run_id, cursor=page.cursor)

    def count_in(self, model: JournalModel, tenant_id: str, commits: Iterable[Commit]) -> None:
        """Have the model know what each attempt has written, before it takes in the commits that count it."""
        known: dict[Attempt, int] = {}
        for commit in commits:
            self._forgotten |= {_name(commit.run_id, w, w.entry) for w in commit.forgotten}
            for row in commit.executions:
                known[commit.run_id, row.execution_id] = row.journal_entries
        for attempt, sent in self._sent.items():
            accepted = {(one.name, one.entry) for one in self._answers[attempt] if one.accepted}
            sure, unsure = list[Entry](), list[Entry]()
            for name, entry in dict.fromkeys(sent):
                stored = self._stored.get(name)
                own = stored is not None and (stored.execution_id, stored.entry) == (
                    attempt[1],
                    entry,
                )
                if own or (name, entry) in accepted:
                    sure.append(entry)
                elif name in self._forgotten:
                    # Its answer was lost with its replica, and a later attempt forgot it.
                    unsure.append(entry)
            if len(sure) + len(unsure) == known.get(attempt):
                sure += unsure
            model.wrote((tenant_id, attempt[0]), attempt[1], [one.usage for one in sure])

    def check(
        self, books: Mapping[str, RunModel], answered: Mapping[str, float], seen: Counter[str]
    ) -> None:
        """Check all answers; `answered`: when each commit was first acknowledged, by its id.

        Raises:
            InvariantViolation: something doesn't hold.
        """
        for (run_id, execution_id), answers in self._answers.items():
            closing = books[run_id].closed.get(execution_id)
            over = float("inf")
            if closing is not None:
                commit = books[run_id].applied[closing.version - 1].commit
                over = answered.get(commit.commit_id, over)
            for one in answers:
                holds(one.asked <= over, "J4", one, "was taken after", execution_id, "was over")
                stored = self._stored.get(one.name)
                seen[ENTRY] += 1
                if one.name in self._forgotten:
                    continue
                holds(stored is not None, "J1", one, "is not in the store")
                assert stored is not None
                same = stored.entry == one.entry
                holds(same is one.accepted, "J2", one, "was answered so, and there is", stored)


def first_answers(
    answers: Mapping[str, Sequence[tuple[float, CommitResult]]],
) -> dict[str, float]:
    """Return when each commit was first answered to be committed."""
    return {
        commit_id: min(at for at, _ in known)
        for commit_id, known in answers.items()
        if any(result.verdict is Verdict.COMMITTED for _, result in known)
    }


def _name(run_id: str, of: JournalWrite | StoredEntry | EntryWrite, entry: Entry) -> Name:
    generation = 0 if entry.effect is Effect.AT_MOST_ONCE else of.generation
    return (run_id, of.journal, generation, entry.key, entry.mark, entry.number)


def check_notes(lines: Iterable[str]) -> Counter[str]:
    """Check which functions ran and which values were kept, by their notes in the order in which these were made.

    A line is `RUN TASK ATTEMPT WHAT KEY VALUE`. What an attempt does after its step has gone on to the next one
    concerns nobody, but for a function that must not run again.

    Raises:
        InvariantViolation: something doesn't hold.
    """
    seen = Counter[str]()
    newest: Counter[tuple[str, str]] = Counter()
    kept: dict[tuple[str, str, str], tuple[int, str]] = {}
    gone: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    """Values that were forgotten for certain."""
    dropped: dict[tuple[str, str, str], str] = {}
    ran = Counter[tuple[str, str, str]]()
    for line in lines:
        run_id, task_id, number, what, key, value = line.split()
        call, attempt = (run_id, task_id, key), int(number)
        step = call[:2]
        newest[step] = max(newest[step], attempt)
        if what == "ran":
            ran[call] += 1
            by, _ = kept.get(call, (attempt + 1, ""))
            holds(by > attempt, "J3", line, "runs, and attempt", by, "was told that it is kept")
            holds(key != ONCE or ran[call] == 1, "J5", line, "runs again")
        elif attempt < newest[step]:
            continue
        elif what == "forgets":
            if call in kept:
                dropped[call] = kept.pop(call)[1]
        elif what == "forgot":
            gone[call].add(dropped[call])
            seen[FORGOTTEN] += 1
        else:
            _, before = kept.setdefault(call, (attempt, value))
            holds(value == before, "J2", line, "and was", before)
            holds(value not in gone[call], "J1", line, "was forgotten")
            seen[REPLAYED if kept[call][0] < attempt else KEPT] += 1
    return seen
