"""Signals of all runs (G1 to G3) and the ends of calls that wait (W1), by commits and acknowledgements alone."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from stepwell.core.loop.journals import name_of
from stepwell.core.loop.signals import JOURNAL as SIGNALS
from stepwell.core.port import JournalQuery, Store
from stepwell.core.records.journal import Entry
from stepwell.core.records.states import (
    NO_PERSON,
    EventType,
    JournalMark,
    Phase,
    QuestionKind,
    QuestionStatus,
    RunStatus,
    StepKind,
)
from tests.simulation.simulator.reading import every
from tests.simulation.simulator.run_model import Applied, RunModel
from tests.simulation.simulator.violation import holds

RunKey = tuple[str, str]
SENT = "end of a call sent to its running step"
KEPT = "signal kept before a call waited for it"
REFLECTED = "signal taken by a reflection that began early"
SEEN = (SENT, KEPT, REFLECTED)
"""The counted things."""


class Call(NamedTuple):
    """A call that waits, in its step's journal."""

    run: RunKey
    journal: str
    generation: int
    key: str


class SignalModel:
    """The signals that runs keep and have given away, and the calls that wait."""

    def __init__(self, seen: Counter[str]) -> None:
        self._seen = seen
        self._kept: dict[RunKey, dict[str, Entry]] = {}
        """The kept signals of each run, by key, in their order."""
        self._known: dict[RunKey, set[bytes]] = {}
        """The values of all signals of each run: no two are equal."""
        self._given: set[tuple[RunKey, bytes]] = set()
        """The signals that calls have taken."""
        self._ended: set[Call] = set()
        """The calls of which an END is written."""
        self._open: dict[Call, str] = {}
        """The questions of the calls that wait."""

    def applied(self, model: RunModel, applied: Applied) -> None:
        """Take in a commit that the run's model has taken in already.

        Raises:
            InvariantViolation: a signal is lost, out of its order or there twice; a wait is lost.
        """
        commit = applied.commit
        kept = self._kept.setdefault(model.key, {})
        before = list(kept.values())
        for write in commit.entries:
            if write.journal == SIGNALS:
                self._comes(model, applied, write.entry)
                kept[write.entry.key] = write.entry
                self._seen[KEPT] += 1
        names = [one.entry.key for one in commit.forgotten if one.journal == SIGNALS]
        for name in names:
            holds(name in kept, "G2", applied, "gives away again signal", name)
        gone = [kept[name] for name in names]
        ends = [
            write.entry
            for write in commit.entries
            if write.entry.name == "receive" and write.entry.value is not None
        ]
        self._taken_in_order(model, applied, gone, ends)
        self._passed_over(applied, [one for one in before if one not in gone])
        count = commit.run.signals.kept
        holds(count == len(kept), "G1", applied, "counts", count, "signals, not", len(kept))
        if commit.run.spec.reflect_on:
            self._reflects(model, applied, before)
        self._waits(model, applied)

    def _comes(self, model: RunModel, applied: Applied, entry: Entry) -> None:
        """Check that a signal has not come before (G2)."""
        known = self._known.setdefault(model.key, set())
        value = _value(entry)
        holds(value not in known, "G2", applied, value, "is there again")
        known.add(value)

    def _taken_in_order(
        self, model: RunModel, applied: Applied, gone: list[Entry], ends: list[Entry]
    ) -> None:
        """Check that calls get what came first by its name, once, and that nothing else is removed (G1, G2)."""
        kept = self._kept[model.key]
        for entry in gone:
            first = next(one for one in kept.values() if one.name == entry.name)
            holds(first == entry, "G2", applied, "gives away", entry, "before", first)
            del kept[entry.key]
        values = [_value(one) for one in gone]
        for end in ends:
            value = _value(end)
            self._given.add((model.key, value))
            if value in values:
                values.remove(value)
                continue
            # It goes past the kept ones: no signal of its name may be among them.
            self._comes(model, applied, end)
            # The value of a steer is an object.
            name = "steer" if value.startswith(b"{") else value.decode().partition("/")[0]
            waiting = [one for one in kept.values() if one.name == name]
            holds(not waiting, "G2", applied, "gives away", value, "before", waiting)
        if _has_reflected(applied):
            names = applied.commit.run.spec.reflect_on
            values = [one for one in values if one.decode().partition("/")[0] not in names]
        holds(not values, "G1", applied, "removes signals that no call has taken:", values)

    def _reflects(self, model: RunModel, applied: Applied, before: list[Entry]) -> None:
        """Check that no task begins while a signal of `reflect_on` is kept, and that a reflection takes those shown (G3)."""
        commit, run = applied.commit, applied.commit.run
        kept = [one for one in self._kept[model.key].values() if one.name in run.spec.reflect_on]
        steering = run.signals.steering
        holds(steering == len(kept), "G3", applied, "counts", steering, "and keeps", kept)
        last = model.applied[-2].commit.run if model.version > 1 else run
        if _has_reflected(applied):
            left = [one for one in kept if int(one.key) <= last.signals.shown]
            holds(not left, "G3", applied, "has reflected, and keeps", left)
            steered = [one for one in before if one.name in run.spec.reflect_on]
            unseen = [
                one for one in steered if one not in kept and int(one.key) > last.signals.shown
            ]
            holds(not unseen, "G3", applied, "takes what it was not shown:", unseen)
            self._seen[REFLECTED] += last.signals.early and len(before) > len(kept)
        elif last.phase is Phase.EXECUTING and StepKind.REFLECT in last.stages:
            steered = [one for one in before if one.name in run.spec.reflect_on]
            begun = [one.execution_id for one in commit.leases if one.execution_id[:5] == "task:"]
            holds(not (steered and begun), "G3", applied, "begins", begun, "and keeps", steered)
        if kept and run.phase is Phase.EXECUTING and StepKind.REFLECT in run.stages:
            stands = run.ended or run.status is RunStatus.PAUSED or run.waits_for_thread
            stands = stands or bool(model.leased())
            holds(stands, "G3", applied, "does not reflect, and keeps", kept)

    def _passed_over(self, applied: Applied, kept: list[Entry]) -> None:
        """Check that a call that takes what is there has found nothing only where nothing is kept (G2)."""
        for write in applied.commit.entries:
            if write.entry.failure.kind == "NO_SIGNAL":
                message = write.entry.failure.message
                there = [one for one in kept if repr(one.name) in message]
                holds(not there, "G2", applied, message, "and keeps", there)

    def _waits(self, model: RunModel, applied: Applied) -> None:
        """Check that a call's wait ends with its value written, and isn't opened again (W1)."""
        commit = applied.commit
        written = {(one.journal, one.entry.key) for one in commit.entries}
        for write in commit.entries:
            if write.entry.mark is JournalMark.END:
                call = Call(model.key, write.journal, write.generation, write.entry.key)
                self._ended.add(call)
                self._open.pop(call, None)
        for write in commit.forgotten:
            call = Call(model.key, write.journal, write.generation, write.entry.key)
            self._ended.discard(call)
        for question in commit.questions:
            task = model.tasks.get(question.task_id)
            if not question.call or task is None:
                continue
            where = name_of(commit.run, task)
            call = Call(model.key, where, task.journal.generation, question.call)
            if question.status is QuestionStatus.OPEN:
                known = self._open.setdefault(call, question.question_id)
                once = known == question.question_id
                what = "F1" if question.kind is QuestionKind.CHILD else "W1"
                holds(once, what, applied, call, "waits twice:", known, question)
                fine = call not in self._ended
                holds(fine, "W1", applied, call, "waits again, and has ended", question)
            else:
                self._open.pop(call, None)
                over = question.status is QuestionStatus.CANCELLED
                over = over or question.kind not in NO_PERSON or (where, call.key) in written
                holds(over, "W1", applied, call, "ends without a value:", question)

    def is_taken(self, key: RunKey, value: bytes) -> bool:
        """Return whether a call has taken the signal of a value."""
        return (key, value) in self._given

    def acknowledged(self, key: RunKey, value: bytes) -> None:
        """Check that a signal that was acknowledged to its sender has come (G1)."""
        known = self._known.get(key, set())
        holds(value in known, "G1", key, value, "was acknowledged and isn't there")

    def sent(self, key: RunKey, journal: str, generation: int, entry: Entry) -> None:
        """Check that the end of a call that a running step is sent is in its journal (W1)."""
        self._seen[SENT] += 1
        call = Call(key, journal, generation, entry.key)
        holds(call in self._ended, "W1", call, "was sent as ended, and isn't:", entry)

    async def audit(self, store: Store) -> None:
        """Check that the store keeps the signals that no call has taken (G1).

        Raises:
            InvariantViolation: it doesn't.
        """
        for (tenant_id, run_id), kept in self._kept.items():
            query = JournalQuery(tenant_id=tenant_id, run_id=run_id, journal=SIGNALS)
            left = [one.entry for one in await every(store, query)]
            holds(left == [*kept.values()], "G1", run_id, "keeps", left, "and not", kept)


def has_signals(model: RunModel) -> list[str]:
    """Return the names of the signals for which calls of a run wait."""
    return [
        one.prompt
        for one in model.questions.values()
        if one.kind is QuestionKind.SIGNAL and one.status is QuestionStatus.OPEN
    ]


def _has_reflected(applied: Applied) -> bool:
    return any(one.type is EventType.REFLECTION_ACCEPTED for one in applied.commit.events)


def _value(entry: Entry) -> bytes:
    assert entry.value is not None
    return entry.value.data
