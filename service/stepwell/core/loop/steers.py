"""Steers: starts in a thread that become signals to the run that works, in the place of runs of their own.

A steer is an open question of the thread until the run that works has ended, and its start is kept meanwhile in the
thread's journal `steers`. If that run ends, and no call of it has received the signal, the start becomes a run
after all, in its place in the thread's order. So a start that was accepted is never lost, and never done twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import msgspec
from msgspec.structs import replace

from stepwell.core.loop import letters
from stepwell.core.loop.child_outcomes import raw_of
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import SignalSent, StartInThread
from stepwell.core.loop.thread_occurrences import RunLeft
from stepwell.core.loop.transition import UNCHANGED, Reply, refused
from stepwell.core.port import EntryWrite, JournalQuery
from stepwell.core.records import limits
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Payload, Question
from stepwell.core.records.states import EventType, QuestionKind, QuestionStatus

SIGNAL = "steer"
"""The name of the signal."""
LAST = "last:"
"""The beginning of the questions that stand for runs in the order of their starts."""
_STEER = "steer:"
"""The beginning of a steer's question; its number in the order of starts and that of its letter follow."""
_STARTS = "steers"
"""The journal of the starts, by the ids of the runs that they may become."""
_STARTS_GENERATION = 1
_TAKEN_BY = "steered"
"""The journal by which a repeated request is recognized, also after the end of the run that it steered."""


def is_steer(question: Question) -> bool:
    """Return whether a question of a thread stands for a steer and not for a run."""
    return question.question_id.startswith(_STEER)


def known_steer(draft: Draft, one: StartInThread) -> Reply | None:
    """Return the reply to a start that steered a run before, or None."""
    if not draft.run.version:
        return None
    found = draft.read(_taken_by(draft, one.spec.run_id)) or ()
    for stored in found:
        if stored.entry.key != one.spec.run_id:
            continue  # Another id may have the same generation.
        if stored.entry.arguments == one.spec.request_fingerprint:
            return replace(UNCHANGED, steered=stored.entry.name)
        return refused(
            "REQUEST_ID_REUSED",
            "this request_id steered a run before; use a new one for a new start",
        )
    return None


def steer(draft: Draft, one: StartInThread, start: letters.StartRun) -> Reply:
    """Send the run that works a signal with the goal and the input of a start, and keep the start until it has ended."""
    size, most = letters.size_of(start), limits.THREAD_STEER_BYTES_MAX
    if size > most:
        return refused(
            "THREAD_START_TOO_LARGE",
            f"goal, input and plan have {size:,} bytes together; {most:,} are the most that steer a run",
        )
    if sum(map(is_steer, draft.open_questions())) >= limits.THREAD_STEERS_MAX:
        what = f"{limits.THREAD_STEERS_MAX} starts steer the run that works"
        return refused("THREAD_FULL", f"{what}; start another one when it has ended")
    thread, run_id = draft.run.thread, one.spec.run_id
    draft.event(EventType.RUN_STEERED, message=thread.working)
    number = thread.joined + 1
    question_id = f"{_STEER}{number:012}:{draft.run.letters.next}"
    _put(draft, question_id, run_id, one.spec.request_fingerprint)
    draft.change_run(thread=replace(thread, joined=number))
    kept = Payload(data=letters.encode(start), media_type="application/msgpack")
    taken_by = Entry(key=run_id, name=thread.working, arguments=one.spec.request_fingerprint)
    draft.entries += (
        EntryWrite(
            journal=_STARTS, generation=_STARTS_GENERATION, entry=Entry(key=run_id, value=kept)
        ),
        EntryWrite(journal=_TAKEN_BY, generation=_generation_of(run_id), entry=taken_by),
    )
    value = {"goal": one.spec.goal, "input": raw_of(one.input)}
    signal = letters.SignalRun(
        run_id=thread.working,
        question_id=question_id,
        name=SIGNAL,
        value=Payload(data=msgspec.json.encode(value)),
        actor=one.actor,
        on_behalf_of=one.on_behalf_of,
    )
    letters.write(draft, signal)
    return Reply(steered=thread.working)


def signals_sent(draft: Draft, sent: Iterable[SignalSent]) -> None:
    """Make runs of the steers whose signals were refused, within the current event."""
    refusals = {one.question_id for one in sent if one.failure.kind}
    if refusals:
        _become_runs(draft, [one for one in _steers(draft) if one.question_id in refusals])


def run_left(draft: Draft, one: RunLeft) -> None:
    """End all steers when the run that worked has ended: those that it didn't receive become runs."""
    left: list[Question] = []
    for question in _steers(draft):
        letter = int(question.question_id.rpartition(":")[2])
        if letter > one.taken or letter in one.kept:
            left.append(question)
        else:
            end(draft, question)
    _become_runs(draft, left)


def _become_runs(draft: Draft, steers: list[Question]) -> None:
    """Put the starts of steers into the order of the thread, each in its place."""
    if not steers:
        return
    spec = draft.run.spec
    query = JournalQuery(
        tenant_id=spec.tenant_id,
        run_id=spec.run_id,
        journal=_STARTS,
        generation=_STARTS_GENERATION,
        limit=limits.THREAD_STEERS_MAX,
    )
    starts = {one.entry.key: one.entry for one in draft.read(query) or ()}
    for question in steers:
        run_id = question.prompt
        end(draft, question)
        taken_by = EntryWrite(
            journal=_TAKEN_BY, generation=_generation_of(run_id), entry=Entry(key=run_id)
        )
        draft.forgotten += (taken_by,)
        place = question.question_id.split(":")[1]
        _put(draft, f"{LAST}{place}", run_id, question.arguments)
        # Until the journal is read, the decision isn't final.
        if (entry := starts.get(run_id)) is not None:
            letters.write(draft, letters.decode(entry))


def end(draft: Draft, question: Question) -> None:
    """End a steer, which then becomes no run, within the current event."""
    now_us = draft.context.now_us
    draft.put_question(replace(question, status=QuestionStatus.ANSWERED, ended_us=now_us))
    entry = Entry(key=question.prompt)
    draft.forgotten += (EntryWrite(journal=_STARTS, generation=_STARTS_GENERATION, entry=entry),)


def _steers(draft: Draft) -> list[Question]:
    return sorted(filter(is_steer, draft.open_questions()), key=lambda one: one.question_id)


def _put(draft: Draft, question_id: str, run_id: str, fingerprint: str) -> None:
    draft.put_question(
        Question(
            question_id=question_id,
            task_id="",
            kind=QuestionKind.CHILD,
            prompt=run_id,
            arguments=fingerprint,
            created_us=draft.context.now_us,
        )
    )


def _taken_by(draft: Draft, run_id: str) -> JournalQuery:
    spec = draft.run.spec
    return JournalQuery(
        tenant_id=spec.tenant_id,
        run_id=spec.run_id,
        journal=_TAKEN_BY,
        generation=_generation_of(run_id),
    )


def _generation_of(run_id: str) -> int:
    return crc32(run_id.encode()) >> 1 or 1
