"""Letters: what a run tells other runs, written by its own commits.

A letter is an entry of the sender's journal `letters`, so it is there exactly if its commit is. A timer
is due as long as any letter isn't delivered: the replica that committed delivers at once, and another
one does when the timer comes due (`engine/letters.py`). Letters to one receiver are delivered in their order. A
letter may be delivered twice, and each kind is recognized by its receiver: a START by the run's id, a CANCEL by the
run's status, a PAUSE and a RESUME by their numbers, as a SIGNAL, an ENDED by the question that it answers, a SIGNAL by its number, which the
receiver keeps, an APPEND by its number, too, a LET_GO by the run's waiting, a LEFT by the question that stands for the run
in its thread.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import Fork, LettersDelivered
from stepwell.core.loop.transition import UNCHANGED, Reply
from stepwell.core.port import Commit, EntryWrite, Timer
from stepwell.core.records import limits
from stepwell.core.records.family import CANCEL, PAUSE, RESUME
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Failure, Payload, Record, RunSpec, TaskSpec
from stepwell.core.records.states import EventType, StepKind
from stepwell.core.records.threads import ThreadWrite

JOURNAL = "letters"
"""The journal of a run's letters."""
TIMER = "letters"
"""Due while a letter isn't delivered."""
GENERATION = 1
APPEND = "APPEND"
"""The name of the entry of a letter that appends to a thread."""
PAGE = limits.LETTERS_PER_COMMIT_MAX // 2 - 20
"""Letters to all children of a step or a run in one commit, which leaves room for those of what else it decides."""
RETRY_MS = 2_000
"""The time after a commit with letters until another replica delivers them, too."""


class TaskResult(Record, frozen=True, kw_only=True):
    """The result of a task, or its failure, for the input of a child run that is another task."""

    task_id: str
    run_id: str = ""
    """The run of the result. Empty: the sender."""
    result_id: str = ""
    failure: Failure = Failure()


class StartRun(Record, tag="START", frozen=True, kw_only=True):
    """Start a child run, or a run of a thread."""

    spec: RunSpec
    input: Payload | None = None
    plan: tuple[TaskSpec, ...] | None = None
    results: tuple[TaskResult, ...] = ()
    """With any, the input is an object of `input`, `results` and `failures`."""
    stages: tuple[StepKind, ...] = ()
    waits: bool = False
    """It waits until its thread lets it go."""
    fork: Fork | None = None
    """The run of a thread is this fork. Its spec and its input are here."""
    actor: str = ""
    on_behalf_of: str = ""

    @property
    def receiver(self) -> str:
        """The run that receives it."""
        return self.spec.run_id


class CancelRun(Record, tag=CANCEL, frozen=True, kw_only=True):
    """Cancel a child run, because its step has ended, or the run of a thread that another one replaces."""

    run_id: str
    reason: str = ""

    @property
    def receiver(self) -> str:
        """The run that receives it."""
        return self.run_id


class PauseRun(Record, tag=PAUSE, frozen=True, kw_only=True):
    """Pause a child run, because its parent is paused."""

    run_id: str

    @property
    def receiver(self) -> str:
        """The run that receives it."""
        return self.run_id


class ResumeRun(Record, tag=RESUME, frozen=True, kw_only=True):
    """Let a child run go on that its parent has paused."""

    run_id: str

    @property
    def receiver(self) -> str:
        """The run that receives it."""
        return self.run_id


class RunEnded(Record, tag="ENDED", frozen=True, kw_only=True):
    """Report the end of a child run to its parent."""

    run_id: str
    """The parent."""
    question_id: str

    @property
    def receiver(self) -> str:
        """The run that receives it."""
        return self.run_id


class SignalRun(Record, tag="SIGNAL", frozen=True, kw_only=True):
    """Send a signal to a child run, or to the run of a thread that works."""

    run_id: str
    question_id: str
    """The sender's question: of a call, which ends when this is delivered, or of a thread's steer."""
    name: str
    value: Payload | None = None
    actor: str = ""
    on_behalf_of: str = ""
    """Empty: the sender."""

    @property
    def receiver(self) -> str:
        """The run that receives it."""
        return self.run_id


class LetRunGo(Record, tag="LET_GO", frozen=True, kw_only=True):
    """Let a run of the thread work."""

    run_id: str

    @property
    def receiver(self) -> str:
        """The run that receives it."""
        return self.run_id


class AppendToThread(Record, tag=APPEND, frozen=True, kw_only=True):
    """Append what a completed step wrote to the run's thread."""

    run_id: str
    """The id under which the thread is kept."""
    write: ThreadWrite

    @property
    def receiver(self) -> str:
        """The thread that receives it."""
        return self.run_id


class LeaveThread(Record, tag="LEFT", frozen=True, kw_only=True):
    """Report the end of a run to its thread."""

    run_id: str
    """The id under which the thread is kept."""

    @property
    def receiver(self) -> str:
        """The thread that receives it."""
        return self.run_id


Letter = (
    StartRun
    | CancelRun
    | PauseRun
    | ResumeRun
    | RunEnded
    | SignalRun
    | LetRunGo
    | AppendToThread
    | LeaveThread
)

encode = msgspec.msgpack.Encoder().encode
"""Encodes a letter."""
_decode = msgspec.msgpack.Decoder(Letter).decode


def write(draft: Draft, letter: Letter) -> None:
    """Write a letter, within the current event."""
    letters = draft.run.letters
    entry = Entry(
        key=str(letters.next),
        name=str(type(letter).__struct_config__.tag),
        value=Payload(data=encode(letter), media_type="application/msgpack"),
    )
    draft.entries += (EntryWrite(journal=JOURNAL, generation=GENERATION, entry=entry),)
    draft.change_run(letters=replace(letters, next=letters.next + 1))
    draft.timers[TIMER] = Timer(name=TIMER, delay_ms=RETRY_MS)


def size_of(letter: Letter) -> int:
    """Return the bytes of a letter."""
    return len(encode(letter))


def undelivered(draft: Draft) -> int:
    """Return the number of letters that aren't delivered."""
    return draft.run.letters.next - draft.run.letters.first


def read(entry: Entry) -> tuple[int, Letter]:
    """Return the number of a letter, and the letter."""
    return int(entry.key), decode(entry)


def decode(entry: Entry) -> Letter:
    """Return the letter that is an entry's value."""
    assert entry.value is not None, "a letter has a value"
    return _decode(entry.value.data)


def written(commit: Commit) -> list[tuple[int, Letter]]:
    """Return the letters that a commit writes, in order."""
    return [read(one.entry) for one in commit.entries if one.journal == JOURNAL]


def delivered(draft: Draft, one: LettersDelivered) -> Reply:
    """Remove letters that are delivered."""
    letters = draft.run.letters
    last = min(one.last, letters.next - 1)
    if last < letters.first:
        return UNCHANGED
    draft.event(EventType.LETTERS_DELIVERED)
    draft.forgotten += tuple(
        EntryWrite(journal=JOURNAL, generation=GENERATION, entry=Entry(key=str(number)))
        for number in range(letters.first, last + 1)
    )
    draft.change_run(letters=replace(letters, first=last + 1))
    if last + 1 == letters.next:
        draft.timers[TIMER] = Timer(name=TIMER, delay_ms=-1)
    return Reply()
