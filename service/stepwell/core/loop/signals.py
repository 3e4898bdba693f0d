"""Signals to a run: a call that waits for the name takes one at once, else it is kept for the next that does.

Kept signals are entries of the run's journal `signals`, which are removed by the commit that gives one to a call. The
run's row only counts them, so a run whose signals are all taken reads nothing.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import SendSignal
from stepwell.core.loop.opening import SIGNALS, end_call
from stepwell.core.loop.transition import Reply, refused, run_ended
from stepwell.core.loop.waits import QUESTION_TIMER, drop_timer
from stepwell.core.port import EntryWrite
from stepwell.core.records import limits
from stepwell.core.records.journal import Entry, value_bytes
from stepwell.core.records.model import Question, Signals
from stepwell.core.records.states import EventType, QuestionKind, QuestionStatus


def send_signal(draft: Draft, command: SendSignal) -> Reply:
    """Give a signal to the call that has waited longest for its name, or keep it."""
    run, name = draft.run, command.name
    if run.ended:
        return run_ended(run, "nothing of it takes a signal")
    if (waiting := _waiting(draft, name)) is not None:
        draft.event(
            EventType.SIGNAL_RECEIVED,
            task_id=waiting.task_id,
            question_id=waiting.question_id,
            message=name,
        )
        now_us = draft.context.now_us
        draft.put_question(replace(waiting, status=QuestionStatus.ANSWERED, ended_us=now_us))
        if waiting.expires_ms:
            drop_timer(draft, QUESTION_TIMER + waiting.question_id)
        end_call(draft, waiting, command.value)
        return Reply()
    kept = run.signals
    entry = Entry(key=f"{kept.last + 1:012}", name=name, value=command.value)
    after = replace(
        kept, kept=kept.kept + 1, bytes=kept.bytes + value_bytes(entry), last=kept.last + 1
    )
    if after.kept > limits.SIGNALS_MAX or after.bytes > limits.SIGNALS_BYTES_MAX:
        return refused(
            "SIGNALS_FULL",
            f"the run keeps {kept.kept:,} signals of {kept.bytes:,} bytes that no call has taken; "
            f"{limits.SIGNALS_MAX:,} and {limits.SIGNALS_BYTES_MAX:,} are the most",
        )
    draft.event(EventType.SIGNAL_RECEIVED, message=name)
    draft.change_run(signals=after)
    draft.entries += (EntryWrite(journal=SIGNALS, generation=1, entry=entry),)
    return Reply()


def inherit_signals(draft: Draft, signals: tuple[EntryWrite, ...]) -> None:
    """Make a fork keep signals of its parent, under their numbers, within the current event."""
    if signals:
        size = sum(value_bytes(one.entry) for one in signals)
        last = int(signals[-1].entry.key)
        draft.change_run(signals=Signals(kept=len(signals), bytes=size, last=last))
        draft.entries += signals


def _waiting(draft: Draft, name: str) -> Question | None:
    """Return the open wait for this name that was opened first, or None."""
    waits = [
        one
        for one in draft.open_questions()
        if one.kind is QuestionKind.SIGNAL and one.prompt == name
    ]
    return min(waits, key=lambda one: one.created_us, default=None)
