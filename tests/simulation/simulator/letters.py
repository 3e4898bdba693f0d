"""Letters between runs (M1 to M4) and families of runs (F1 to F4), by the commits of all runs alone.

A letter is written by a commit of its sender and seen in commits of its receiver: a child's first one, its
cancellation without a caller, a signal of its parent's, and the end of the parent's call; that of a run which
its thread starts or lets go, and of the thread which that run leaves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product

from stepwell.core.loop import letters
from stepwell.core.loop.letters import (
    AppendToThread,
    CancelRun,
    LeaveThread,
    LetRunGo,
    Letter,
    PauseRun,
    ResumeRun,
    RunEnded,
    SignalRun,
    StartRun,
)
from stepwell.core.loop.thread_messages import MESSAGES
from stepwell.core.records.aggregates import runs_of
from stepwell.core.records.events import Event
from stepwell.core.records.states import (
    EventType,
    PauseReason,
    QuestionKind,
    QuestionStatus,
    RunStatus,
)
from stepwell.core.records.threads import key_of, threads_of
from tests.simulation.simulator.run_model import Applied, RunModel
from tests.simulation.simulator.violation import holds

RunKey = tuple[str, str]

_BY_LETTER: Mapping[EventType, type[Letter]] = {
    EventType.RUN_STARTED: StartRun,
    EventType.RUN_CANCELLED: CancelRun,
    EventType.RUN_LET_GO: LetRunGo,
}
"""The letter that makes a run do something which no caller has commanded."""


class LetterModel:
    """The letters of all runs, and the runs that they have started and ended."""

    def __init__(self, models: Mapping[RunKey, RunModel]) -> None:
        self._models = models
        self._written: dict[RunKey, dict[int, Letter]] = {}
        """All letters by sender and number."""
        self._first: dict[RunKey, int] = {}
        """The number of each sender's first letter that isn't removed."""
        self._taken: dict[tuple[RunKey, str], int] = {}
        """The number of the letter that a receiver has taken last, by sender."""
        self._over: set[tuple[RunKey, str]] = set()
        """The questions of parents that a child's end has answered."""
        self._left: set[tuple[RunKey, str]] = set()
        """The questions of parents whose children may outlive their steps."""
        self._opened: set[tuple[RunKey, str]] = set()
        """The questions of parents for children."""

    def applied(self, model: RunModel, applied: Applied, used_before: int) -> None:
        """Take in a commit that the run's model has taken in already.

        Raises:
            InvariantViolation: a letter is lost, out of its order, taken again or of nobody; a family is wrong.
        """
        run = applied.commit.run
        mine = self._written.setdefault(model.key, {})
        for number, letter in letters.written(applied.commit):
            mine[number] = letter
            if isinstance(letter, StartRun):
                self._starts_once(model, applied, letter)
        ended: list[str] = []
        written = 0
        for event in applied.commit.events:
            if event.type is EventType.CHILD_ENDED:
                ended.append(self._ended(model, applied, event))
            elif event.type is EventType.SIGNAL_RECEIVED and event.on_behalf_of:
                self._signalled(model, applied, event)
            elif event.type is EventType.THREAD_WRITTEN and run.spec.is_thread:
                written += 1
            elif event.type is EventType.RUN_LEFT:
                self._leaves(model, applied, event.message)
            elif event.type in _BY_LETTER and (run.spec.child_of.run_id or run.spec.thread_id):
                self._commanded(model, applied, event)
        self._written_to(model, applied, written)
        self._steered(model, applied)
        self._usage_goes_up(model, applied, ended, used_before)
        self._children_are_cancelled(model, applied)
        self._followers_get_letters(model, applied)
        self._follows(model, applied)
        for write in applied.commit.forgotten:
            if write.journal == letters.JOURNAL:
                self._removed(model, applied, int(write.entry.key))

    def letter(self, key: RunKey, number: int) -> Letter:
        """Return a letter by its sender and number."""
        return self._written[key][number]

    # --- letters ---

    def _commanded(self, model: RunModel, applied: Applied, event: Event) -> None:
        """Check what a run did without a caller: a letter of its parent's or its thread's said so (M3)."""
        spec = applied.commit.run.spec
        if event.actor and not (spec.thread_id and event.type is EventType.RUN_STARTED):
            return
        parent = (model.key[0], spec.child_of.run_id)
        if spec.thread_id:
            parent = key_of(model.key[0], spec.thread_id)
        number, letter = self._take(parent, model.key[1], _BY_LETTER[event.type])
        right = letter.spec == spec if isinstance(letter, StartRun) else letter is not None
        holds(right, "M3", applied, event.type, "by no letter of", parent, number)
        self._in_order(parent, model.key[1], number, applied)

    def _signalled(self, model: RunModel, applied: Applied, event: Event) -> None:
        """Check a signal that a run has taken of a letter: it was sent, is the next, and not taken before (M2 to M4)."""
        sender = (model.key[0], event.on_behalf_of)
        number, _ = self._take(sender, model.key[1], SignalRun)
        letters_to = (one.receiver for one in self._written.get(sender, {}).values())
        again = not number and model.key[1] in letters_to
        holds(not again, "M2", applied, "takes a signal of", sender, "again")
        holds(number, "M3", applied, "takes a signal, and none was sent by", sender)
        others = [one for one in applied.commit.events if one.on_behalf_of == event.on_behalf_of]
        if event is others[-1]:
            said = applied.commit.run.signals.taken[event.on_behalf_of]
            between = self._written.get(sender, {})
            others = [between.get(one) for one in range(number + 1, said + 1)]
            right = said >= number and not any(isinstance(one, SignalRun) for one in others)
            holds(right, "M4", applied, "takes letter", said, "of", sender, "not", number)
        self._in_order(sender, model.key[1], number, applied)

    def _steered(self, model: RunModel, applied: Applied) -> None:
        """Check the signals that a run has taken of its thread: they are the next ones (M3, M4)."""
        spec = applied.commit.run.spec
        if not spec.thread_id or spec.is_thread:
            return
        thread = key_of(model.key[0], spec.thread_id)
        until = applied.commit.run.signals.taken.get(thread[1], 0)
        while True:
            number, _ = self._take(thread, model.key[1], SignalRun)
            if not 0 < number <= until:
                break
            self._in_order(thread, model.key[1], number, applied)
        sent = self._written.get(thread, {}).get(until)
        right = not until or (isinstance(sent, SignalRun) and sent.run_id == model.key[1])
        holds(right, "M3", applied, "takes as a signal of its thread", until, sent)

    def _ended(self, model: RunModel, applied: Applied, event: Event) -> str:
        """Check the end of a call for a child; return the child (M2, M3)."""
        question = (model.key, event.question_id)
        holds(question not in self._over, "M2", applied, event.question_id, "ends again")
        self._over.add(question)
        child = (model.key[0], model.questions[event.question_id].prompt)
        if child in self._models and self._models[child].run is not None:
            number, letter = self._take(child, model.key[1], RunEnded)
            wrote = isinstance(letter, RunEnded) and letter.question_id == event.question_id
            holds(wrote, "M3", applied, child, "has written of no end")
            self._in_order(child, model.key[1], number, applied)
        else:
            # It could not be started.
            number, _ = self._take(model.key, child[1], StartRun)
            holds(number, "M3", applied, child, "was never to start")
        return child[1]

    def _written_to(self, model: RunModel, applied: Applied, count: int) -> None:
        """Check that each message of a thread is that of the next letter of the run that wrote it (M2 to M4)."""
        messages = [one.entry for one in applied.commit.entries if one.journal == MESSAGES]
        holds(len(messages) == count, "M2", applied, "writes", messages)
        for entry in messages:
            run_id, _ = json.loads(entry.arguments)
            sender = (runs_of(model.key[0]), run_id)
            number, letter = self._take(sender, model.key[1], AppendToThread)
            holds(number, "M3", applied, "has a message that no letter of", sender, "brought")
            assert isinstance(letter, AppendToThread)
            same = [one.content for one in letter.write.messages] == [entry.value]
            holds(same, "M2", applied, entry, "is not the next one of", sender, letter)
            self._in_order(sender, model.key[1], number, applied)

    def _leaves(self, model: RunModel, applied: Applied, run_id: str) -> None:
        """Check that a run leaves its thread once, and has ended (M2, M3)."""
        place = (model.key, run_id)
        holds(place not in self._over, "M2", applied, run_id, "leaves again")
        self._over.add(place)
        sender = (runs_of(model.key[0]), run_id)
        run = self._models[sender].run if sender in self._models else None
        holds(run is None or run.ended, "M3", applied, run_id, "leaves, and goes on")
        number, _ = self._take(sender, model.key[1], LeaveThread)
        if number:
            self._in_order(sender, model.key[1], number, applied)

    def _take(self, sender: RunKey, receiver: str, kind: type[Letter]) -> tuple[int, Letter | None]:
        """Return the first letter of a kind that a receiver has not taken, and its number."""
        after = self._taken.get((sender, receiver), 0)
        for number, letter in self._written.get(sender, {}).items():
            if number > after and letter.receiver == receiver and isinstance(letter, kind):
                return number, letter
        return 0, None

    def _in_order(self, sender: RunKey, receiver: str, number: int, applied: Applied) -> None:
        """Check that a receiver takes a letter before none that was sent earlier (M4)."""
        after = self._taken.get((sender, receiver), 0)
        for before, letter in self._written[sender].items():
            if after < before < number and letter.receiver == receiver:
                over = self._is_taken(sender, before, letter)
                holds(over, "M4", applied, "takes letter", number, "of", sender, "before", letter)
        holds(number > after, "M4", applied, "takes letter", number, "after", after)
        self._taken[sender, receiver] = number

    def _removed(self, model: RunModel, applied: Applied, number: int) -> None:
        """Check that a letter that its sender keeps no longer is with its receiver (M1, M4)."""
        first = self._first.get(model.key, 1)
        holds(number == first, "M4", applied, "removes letter", number, "before", first)
        self._first[model.key] = number + 1
        letter = self._written[model.key][number]
        holds(self._is_taken(model.key, number, letter), "M1", applied, "removes untaken", letter)

    def _is_taken(self, sender: RunKey, number: int, letter: Letter) -> bool:
        """Return whether a letter has done what it was to do, or has nothing to do any more."""
        if isinstance(letter, AppendToThread):
            return number <= self._taken.get((sender, letter.receiver), 0)
        if isinstance(letter, LeaveThread):
            return not self._is_in_thread((threads_of(sender[0]), letter.receiver), sender[1])
        to = self._models.get((runs_of(sender[0]), letter.receiver))
        run = to.run if to is not None else None
        match letter:
            case StartRun() if letter.spec.thread_id:
                return run is not None or not self._is_in_thread(sender, letter.receiver)
            case StartRun():
                place = letter.spec.child_of
                return run is not None or not self._waits(sender, place.question_id)
            case CancelRun():
                return run is None or run.ended
            case PauseRun() | SignalRun():
                taken = run.signals.taken.get(sender[1], 0) if run is not None else number
                return taken >= number or (run is not None and run.ended)
            case ResumeRun():
                taken = run.signals.taken.get(sender[1], 0) if run is not None else number
                return taken >= number or run is None or run.pause_reason is not PauseReason.PARENT
            case RunEnded():
                resumed = self._models[sender].events[-1].number > self._end_of(sender)
                waits = self._waits((sender[0], letter.receiver), letter.question_id)
                return not waits or resumed
            case LetRunGo():
                return run is None or run.ended or not run.waits_for_thread

    def _waits(self, key: RunKey, question_id: str) -> bool:
        """Return whether a parent's question is open."""
        parent = self._models.get(key)
        question = parent.questions.get(question_id) if parent is not None else None
        return question is not None and question.status is QuestionStatus.OPEN

    def _is_in_thread(self, key: RunKey, run_id: str) -> bool:
        """Return whether a run has joined a thread, and not left."""
        thread = self._models.get(key)
        questions = thread.questions.values() if thread is not None else ()
        return any(one.prompt == run_id and one.status is QuestionStatus.OPEN for one in questions)

    def _end_of(self, key: RunKey) -> int:
        """Return the number of a run's last event if it has not been resumed since its first end."""
        events = self._models[key].events
        resumed = [one.number for one in events if one.type is EventType.RUN_RESUMED]
        failed = [one.number for one in events if one.type is EventType.RUN_FAILED]
        again = bool(resumed and failed and max(resumed) > min(failed))
        return 0 if again else events[-1].number

    def pending(self, key: RunKey) -> int:
        """Return the number of letters that a run has still to deliver."""
        return len(self._written.get(key, {})) + 1 - self._first.get(key, 1)

    # --- families ---

    def _starts_once(self, model: RunModel, applied: Applied, letter: StartRun) -> None:
        """Check that a call starts one child, whatever attempt makes it (F1)."""
        place = letter.spec.child_of
        for sender, written in self._written.items():
            same = [
                one
                for one in written.values()
                if isinstance(one, StartRun) and one.receiver == letter.receiver
            ]
            fine = sender[0] != model.key[0] or len(same) == (sender == model.key)
            holds(fine, "F1", applied, letter.receiver, "is started again")
        parent = model.run
        assert parent is not None
        if parent.spec.is_thread:
            return
        right = place.depth == parent.spec.child_of.depth + 1
        right = right and place.root_run_id == (parent.spec.child_of.root_run_id or model.key[1])
        holds(right, "F1", applied, letter.receiver, "is in another place:", place)

    def _usage_goes_up(
        self, model: RunModel, applied: Applied, ended: list[str], used_before: int
    ) -> None:
        """Check that the usage of a child is added by the commit that takes its end, and by no other (F2)."""
        if not applied.commit.run.children:
            return
        own = sum(
            one.usage.input_tokens
            for one in applied.commit.executions
            if (closing := model.closed.get(one.execution_id)) is not None
            and closing.version == applied.commit.version
        )
        children = [self._used(model.key[0], run_id) for run_id in ended]
        grew = applied.commit.run.usage.input_tokens - used_before - own
        sums = {sum(each) for each in product(*children)}
        holds(grew in sums, "F2", applied, "adds", grew, "of", ended, "which used one of", sums)

    def _used(self, tenant_id: str, run_id: str) -> set[int]:
        """Return what a child had used at each of its ends."""
        child = self._models.get((tenant_id, run_id))
        if child is None or child.run is None:
            return {0}
        runs = [one.commit.run for one in child.applied]
        return {one.usage.input_tokens for one in runs if one.ended}

    def _children_are_cancelled(self, model: RunModel, applied: Applied) -> None:
        """Check that the commit which ends a step cancels its children, but those that are left (F3)."""
        wrote = [one for _, one in letters.written(applied.commit) if isinstance(one, CancelRun)]
        for question in applied.commit.questions:
            place = (model.key, question.question_id)
            if question.kind is not QuestionKind.CHILD or place in self._left:
                continue
            # As it was opened, which is also how it ends where one commit does both.
            if place not in self._opened and question.leave:
                self._left.add(place)
            self._opened.add(place)
            if question.status is QuestionStatus.CANCELLED and place not in self._left:
                cancels = any(one.run_id == question.prompt for one in wrote)
                holds(cancels, "F3", applied, "leaves", question.prompt, "behind")

    def _followers_get_letters(self, model: RunModel, applied: Applied) -> None:
        """Check that each child that follows a run was last sent that this is paused, or goes on (F4)."""
        mine = self._written[model.key]
        for question in model.questions.values():
            if not question.follow_pauses:
                continue
            said = _last_pause(mine, question.prompt, len(mine))
            follows = question.status is QuestionStatus.OPEN
            paused = follows and applied.commit.run.status is RunStatus.PAUSED
            # Nothing is sent to one that has ended or is cancelled.
            left = question.status is QuestionStatus.CANCELLED
            left = left and (model.key, question.question_id) in self._left
            right = isinstance(said, PauseRun) is paused or not (follows or left)
            holds(right, "F4", applied, "has sent", question.prompt, "last", said)

    def _follows(self, model: RunModel, applied: Applied) -> None:
        """Check that a child is paused as its parent's last letter says, unless a caller had it go on (F4)."""
        run = applied.commit.run
        parent = (model.key[0], run.spec.child_of.run_id)
        if not parent[1]:
            return
        written, taken = self._written.get(parent, {}), run.signals.taken.get(parent[1], 0)
        before = model.applied[-2].commit.run if model.version > 1 else run
        new = range(before.signals.taken.get(parent[1], 0) + 1, taken + 1)
        said = [_last_pause({one: written[one]}, model.key[1], one) for one in new]
        resumed = [one for one in model.events if one.type is EventType.RUN_RESUMED]
        own = [one for one in resumed if one.version == run.version and not one.actor]
        paused = any(one.type is EventType.RUN_PAUSED for one in applied.commit.events)
        by_letter = sum(isinstance(one, ResumeRun) for one in said) >= len(own)
        by_letter = by_letter and (paused or before.pause_reason is PauseReason.PARENT)
        holds(by_letter or not own, "F4", applied, "goes on without a caller:", before, said)
        last = _last_pause(written, model.key[1], taken)
        if isinstance(last, PauseRun):
            went_on = run.ended or bool(resumed and resumed[-1].actor)
            stays = went_on or run.status is RunStatus.PAUSED
            holds(stays, "F4", applied, "goes on, and its parent is paused")
        else:
            fine = run.pause_reason is not PauseReason.PARENT
            holds(fine, "F4", applied, "is paused for its parent, which goes on")

    def audit(self) -> None:
        """Check, at the end of all, that no letter is left and no child has outlived its step (M1, F3).

        Raises:
            InvariantViolation: something is left.
        """
        for key in self._written:
            holds(not self.pending(key), "M1", key, "has letters left:", self.pending(key))
        for key, model in self._models.items():
            place = model.run.spec.child_of if model.run is not None else None
            if place is None or not place.run_id:
                continue
            question = self._models[key[0], place.run_id].questions[place.question_id]
            left = ((key[0], place.run_id), place.question_id) in self._left
            over = left or question.status is QuestionStatus.OPEN
            over = over or any(isinstance(one, RunEnded) for one in self._written[key].values())
            holds(over, "F3", key, "goes on, and its step has ended:", question)


def _last_pause(written: Mapping[int, Letter], run_id: str, until: int) -> Letter | None:
    """Return the last letter up to a number that pauses a child or has it go on, or None."""
    kinds = (PauseRun, ResumeRun)
    sent = [
        one
        for number, one in written.items()
        if number <= until and one.receiver == run_id and isinstance(one, kinds)
    ]
    return sent[-1] if sent else None
