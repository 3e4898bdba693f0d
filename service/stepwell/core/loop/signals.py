"""Signals to a run: a call that waits for the name takes one at once, else it is kept for the next that does.

Kept signals are entries of the run's journal `signals`, which are removed by the commit that gives one to a call. There,
each name has a generation of its own, so that a call reads the first of its name and not those of others. The run's row
only counts them: a run whose signals are all taken reads nothing.
"""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct
from msgspec.json import Decoder, encode
from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import SendSignal
from stepwell.core.loop.transition import UNCHANGED, Reply, refused, run_ended
from stepwell.core.loop.waits import QUESTION_TIMER, drop_timer, end_call
from stepwell.core.port import EntryWrite, JournalQuery
from stepwell.core.records import limits
from stepwell.core.records.journal import Entry, KeptSignal, StoredEntry, value_bytes
from stepwell.core.records.model import Execution, Question, Run, Signals
from stepwell.core.records.states import EventType, Phase, QuestionKind, QuestionStatus, StepKind

JOURNAL = "signals"
"""The journal of a run's kept signals."""


class _Sent(Struct, array_like=True):
    """The origin of a kept signal, which is its entry's `arguments`."""

    actor: str
    on_behalf_of: str
    sent_us: int
    letter: int = 0
    """The number of the letter that it came by; 0: none."""


_origin_of = Decoder(_Sent).decode


def generation_of(name: str) -> int:
    """Return the generation in which signals of a name are kept; few other names have the same."""
    return crc32(name.encode()) >> 1 or 1


def send_signal(draft: Draft, command: SendSignal) -> Reply:
    """Give a signal to the call that has waited longest for its name, or keep it."""
    run, name, sender = draft.run, command.name, command.sender
    signals = run.signals
    if sender and command.letter <= signals.taken.get(sender, 0):
        return UNCHANGED
    if sender:
        signals = replace(signals, taken={**signals.taken, sender: command.letter})
    if run.ended:
        return run_ended(run, "nothing of it takes a signal")
    if (waiting := _waiting(draft, name)) is not None:
        draft.event(
            EventType.SIGNAL_RECEIVED,
            task_id=waiting.task_id,
            question_id=waiting.question_id,
            message=name,
        )
        if sender:
            draft.change_run(signals=signals)
        now_us = draft.context.now_us
        draft.put_question(replace(waiting, status=QuestionStatus.ANSWERED, ended_us=now_us))
        if waiting.expires_ms:
            drop_timer(draft, QUESTION_TIMER + waiting.question_id)
        end_call(draft, waiting, command.value)
        return Reply()
    kept = signals
    sent = _Sent(command.actor, command.on_behalf_of, draft.context.now_us, command.letter)
    entry = Entry(
        key=f"{kept.last + 1:012}",
        name=name,
        arguments=encode(sent).decode(),
        value=command.value,
    )
    after = replace(
        kept,
        kept=kept.kept + 1,
        bytes=kept.bytes + value_bytes(entry),
        last=kept.last + 1,
        steering=kept.steering + (name in run.spec.reflect_on),
    )
    if after.kept > limits.SIGNALS_MAX or after.bytes > limits.SIGNALS_BYTES_MAX:
        return refused(
            "SIGNALS_FULL",
            f"the run keeps {kept.kept:,} signals of {kept.bytes:,} bytes that no call has taken; "
            f"{limits.SIGNALS_MAX:,} and {limits.SIGNALS_BYTES_MAX:,} are the most",
        )
    draft.event(EventType.SIGNAL_RECEIVED, message=name)
    draft.change_run(signals=after)
    draft.entries += (EntryWrite(journal=JOURNAL, generation=generation_of(name), entry=entry),)
    return Reply()


def take(draft: Draft, question: Question) -> bool:
    """Give the first kept signal of a name to the call of a question that waits for it; return False if none is kept."""
    kept = draft.run.signals
    found = _first(draft, question.prompt) if kept.kept else None
    if found is None:
        return False
    # One that came within this same transition isn't in the store yet.
    entries = tuple(one for one in draft.entries if one is not found)
    if entries == draft.entries:
        draft.forgotten += (replace(found, entry=replace(found.entry, value=None)),)
    draft.entries = entries
    draft.event(
        EventType.SIGNAL_TAKEN,
        task_id=question.task_id,
        execution_id=question.execution_id,
        message=question.prompt,
    )
    _put_without(draft, question.prompt, value_bytes(found.entry))
    end_call(draft, question, found.entry.value)
    return True


def _put_without(draft: Draft, name: str, size: int) -> None:
    """Count a signal as taken, within the current event."""
    kept = draft.run.signals
    after = replace(
        kept,
        kept=kept.kept - 1,
        bytes=kept.bytes - size,
        steering=kept.steering - (name in draft.run.spec.reflect_on),
    )
    draft.change_run(signals=after)


def steers(run: Run) -> bool:
    """Return whether a kept signal makes the run reflect before anything else is dispatched."""
    is_under_way = run.phase is Phase.EXECUTING and run.counts.unsettled > 0
    return run.signals.steering > 0 and is_under_way and StepKind.REFLECT in run.stages


def show(draft: Draft) -> None:
    """Fix the signals that an attempt at a PLAN or REFLECT step is shown, as it is leased: the oldest, as many as fit."""
    kept = draft.run.signals
    shown = kept.last
    if kept.kept > limits.SIGNALS_SHOWN_MAX or kept.bytes > limits.SIGNALS_SHOWN_BYTES_MAX:
        size, shown = 0, 0
        for one in draft.read(_all(draft, limits.SIGNALS_SHOWN_MAX)) or ():
            size += one.size
            if size > limits.SIGNALS_SHOWN_BYTES_MAX:
                break
            shown = int(one.entry.key)
    if shown != kept.shown:
        draft.change_run(signals=replace(kept, shown=shown))


def take_shown(draft: Draft, execution: Execution) -> None:
    """Take the signals of `reflect_on` that a reflection was shown, with an event for each."""
    names, kept = draft.run.spec.reflect_on, draft.run.signals
    if not kept.steering or not draft.state.run.signals.kept:
        return
    taken = {one.entry.key for one in draft.forgotten if one.journal == JOURNAL}
    for one in draft.read(_all(draft, draft.state.run.signals.kept)) or ():
        key, name = one.entry.key, one.entry.name
        if int(key) > kept.shown or name not in names or key in taken:
            continue
        entry = EntryWrite(journal=JOURNAL, generation=one.generation, entry=one.entry)
        draft.forgotten += (entry,)
        draft.event(EventType.SIGNAL_TAKEN, execution_id=execution.execution_id, message=name)
        _put_without(draft, name, one.size)


def _all(draft: Draft, limit: int) -> JournalQuery:
    """Return the question for the first kept signals of all names, without their values."""
    spec = draft.run.spec
    return JournalQuery(
        tenant_id=spec.tenant_id,
        run_id=spec.run_id,
        journal=JOURNAL,
        names_only=True,
        limit=limit,
    )


def _first(draft: Draft, name: str) -> EntryWrite | None:
    """Return the first kept signal of a name that no call has taken; None if there is none, or it isn't read yet."""
    spec, generation = draft.run.spec, generation_of(name)
    taken = {one.entry.key for one in draft.forgotten if one.journal == JOURNAL}
    wanted = draft.wanted_signals[name] = draft.wanted_signals.get(name, 0) + 1
    # Calls that want the same name in one transition read a page together.
    limit = 1 << (wanted - 1).bit_length()
    while draft.state.run.signals.kept > len(taken):
        query = JournalQuery(
            tenant_id=spec.tenant_id,
            run_id=spec.run_id,
            journal=JOURNAL,
            generation=generation,
            limit=limit,
        )
        stored = draft.read(query)
        if stored is None:
            return None
        for one in stored:
            if one.entry.name == name and one.entry.key not in taken:
                return EntryWrite(journal=JOURNAL, generation=generation, entry=one.entry)
        if len(stored) < limit:
            break
        limit *= 2  # Another name has the same generation.
    return next(
        (one for one in draft.entries if one.journal == JOURNAL and one.entry.name == name), None
    )


def kept_signal(stored: StoredEntry) -> KeptSignal:
    """Return the signal that an entry of the run's journal of signals keeps."""
    entry = stored.entry
    sent = _origin_of(entry.arguments)
    return KeptSignal(
        number=int(entry.key),
        name=entry.name,
        value=entry.value,
        size=stored.size,
        actor=sent.actor,
        on_behalf_of=sent.on_behalf_of,
        sent_us=sent.sent_us,
    )


def letter_of(stored: StoredEntry) -> int:
    """Return the number of the letter that a kept signal came by; 0: it came by none."""
    return _origin_of(stored.entry.arguments).letter


def inherit_signals(draft: Draft, signals: tuple[EntryWrite, ...]) -> None:
    """Make a fork keep signals of its parent, under their numbers, within the current event."""
    if signals:
        size = sum(value_bytes(one.entry) for one in signals)
        last = int(signals[-1].entry.key)
        steering = sum(one.entry.name in draft.run.spec.reflect_on for one in signals)
        kept = Signals(kept=len(signals), bytes=size, last=last, steering=steering)
        draft.change_run(signals=kept)
        draft.entries += signals


def _waiting(draft: Draft, name: str) -> Question | None:
    """Return the open wait for this name that was opened first, or None."""
    waits = [
        one
        for one in draft.open_questions(children=False)
        if one.kind is QuestionKind.SIGNAL and one.prompt == name
    ]
    return min(waits, key=lambda one: one.created_us, default=None)
