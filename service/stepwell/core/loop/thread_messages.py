"""Messages and the state of a thread: what completed steps of its runs write, by letters, and what comes from outside.

A message is an entry of the thread's journal `messages`, and the state one of its journal `state`. The thread's row counts
them. So nothing of them is loaded with the thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.json import Decoder, encode
from msgspec.structs import replace

from stepwell.core.loop import letters
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import (
    Completed,
    Delivery,
    Planned,
    Reflected,
)
from stepwell.core.loop.thread_occurrences import CopyMessages, ForkThread, RunWrites, WriteToThread
from stepwell.core.loop.transition import UNCHANGED, Reply, refused
from stepwell.core.port import EntryWrite
from stepwell.core.records import limits
from stepwell.core.records.aggregates import id_of
from stepwell.core.records.errors import INVALID_OUTCOME, VersionChanged
from stepwell.core.records.journal import Entry, StoredEntry, value_bytes
from stepwell.core.records.model import Execution, Failure, Run, RunSpec
from stepwell.core.records.states import EventType, StepKind
from stepwell.core.records.threads import ThreadMessage, ThreadWrite

MESSAGES = "messages"
"""The journal of a thread's messages."""
STATE = "state"
"""The journal of its state: one entry, whose key is the state's version."""
BLOCK_MESSAGES = 50
"""Messages in one generation of the journal."""
_origin_of = Decoder(tuple[str, int]).decode
"""Reads an entry's `arguments`: the run that appended the message, and the time."""


def begin_event(draft: Draft, kind: EventType, message: str, thread_id: str) -> None:
    """Begin an event of the thread, which is made where it is missing."""
    is_new = not draft.run.version
    if is_new:
        own = draft.run.spec
        own = RunSpec(
            tenant_id=own.tenant_id, run_id=own.run_id, thread_id=thread_id, is_thread=True
        )
        draft.run = Run(spec=own)
    draft.event(kind, message=message)
    if is_new:
        draft.change_run(created_us=draft.context.now_us)


def send(draft: Draft, execution: Execution, delivery: Delivery) -> None:
    """Send what an accepted outcome writes to the run's thread; before anything that may end the run."""
    if delivery.thread is None:
        return
    spec = draft.run.spec
    draft.event(
        EventType.THREAD_WRITTEN,
        task_id=execution.task_id,
        execution_id=execution.execution_id,
        message=_described(delivery.thread),
    )
    receiver = id_of(spec.tenant_id, spec.thread_id)
    letters.write(draft, letters.AppendToThread(run_id=receiver, write=delivery.thread))


def refusal(draft: Draft, execution: Execution, delivery: Delivery) -> Failure | None:
    """Return why an outcome can't write to a thread, or None; one that completes no step writes nothing."""
    if delivery.thread is None or not isinstance(delivery.result, Completed | Planned | Reflected):
        return None
    if not draft.run.spec.thread_id or execution.kind is StepKind.RECONCILE:
        what = "the run is in no thread" if not draft.run.spec.thread_id else "a RECONCILE step"
        return Failure(kind=INVALID_OUTCOME, message=f"thread: {what}", retryable=False)
    if (waiting := letters.undelivered(draft)) >= limits.LETTERS_MAX:
        message = f"{waiting:,} letters of the run are not delivered yet"
        return Failure(kind="TOO_MANY_LETTERS", message=message)
    return None


def write_to_thread(draft: Draft, command: WriteToThread) -> Reply:
    """Append messages from outside, set the state if it is at the version that the caller knows, or set the labels."""
    if (incomplete := fork_refusal(draft.run)) is not None:
        return incomplete
    version, expected = draft.run.thread.state, command.expected_state
    if expected not in (-1, version):
        return refused(
            VersionChanged.reason,
            f"the state of thread {command.thread_id!r} is at version {version}, not {expected}",
        )
    message = _described(command.write) if command.labels is None else "its labels"
    begin_event(draft, EventType.THREAD_WRITTEN, message, command.thread_id)
    _put(draft, command.write)
    if command.labels is not None:
        draft.change_run(thread=replace(draft.run.thread, labels=command.labels))
    return Reply()


def run_writes(draft: Draft, one: RunWrites) -> Reply:
    """Take what a run wrote, once, as long as it works.

    A run's letters come in their order, and the last one says that it left: one that comes later was taken before.
    """
    thread = draft.run.thread
    if one.run_id != thread.working or one.letter <= thread.taken:
        return UNCHANGED
    draft.event(EventType.THREAD_WRITTEN, message=_described(one.write))
    _put(draft, one.write, run_id=one.run_id)
    draft.change_run(thread=replace(draft.run.thread, taken=one.letter))
    return Reply()


def fork_thread(draft: Draft, command: ForkThread) -> Reply:
    """Make the thread as a fork: note how far it is copied, and set its state. It is complete once it has its messages.

    Until then nothing else is done in it. The same fork, asked for again, changes nothing: its copying may go on.
    """
    thread = draft.run.thread
    if draft.run.version:
        is_same = thread.forked_from == command.forked_from and command.at in (
            None,
            thread.forked_at,
        )
        if is_same and fork_refusal(draft.run) is not None:
            return UNCHANGED
        return refused("THREAD_EXISTS", f"there is a thread {command.thread_id!r} already")
    if command.at is None:
        return refused("THREAD_DELETED", "the thread was deleted while it was made")
    message = f"forked from {command.forked_from} at message {command.at}"
    begin_event(draft, EventType.THREAD_WRITTEN, message, command.thread_id)
    forked = {"forked_from": command.forked_from, "forked_at": command.at}
    draft.change_run(thread=replace(thread, **forked, labels=command.labels))
    _put(draft, ThreadWrite(state=command.state))
    return Reply()


def fork_refusal(run: Run) -> Reply | None:
    """Return the reply with which a fork that isn't complete refuses all else, or None if it is complete."""
    thread = run.thread
    if thread.messages >= thread.forked_at:
        return None
    what = f"thread {run.spec.thread_id!r} has {thread.messages} of {thread.forked_at} messages"
    again = f"fork {thread.forked_from!r} again, which completes it, or delete it"
    return refused("THREAD_INCOMPLETE", f"{what} that it is forked with; {again}")


def copy_messages(draft: Draft, one: CopyMessages) -> Reply:
    """Take messages of the thread that this one is forked from, each once."""
    thread = draft.run.thread
    if one.messages[0].number != thread.messages + 1 or thread.messages >= thread.forked_at:
        return UNCHANGED
    draft.event(EventType.THREAD_WRITTEN, message=f"{len(one.messages)} messages copied")
    _append(draft, one.messages)
    return Reply()


def _append(draft: Draft, messages: Sequence[ThreadMessage]) -> None:
    """Append messages that have the next numbers, within the current event."""
    thread = draft.run.thread
    written: list[EntryWrite] = []
    for message in messages:
        entry = Entry(
            key=f"{message.number:012}",
            name=message.role,
            arguments=encode((message.run_id, message.time_us)).decode(),
            value=message.content,
        )
        block = block_of(message.number)
        written.append(EntryWrite(journal=MESSAGES, generation=block, entry=entry))
    size = sum(value_bytes(one.entry) for one in written)
    draft.entries += tuple(written)
    draft.change_run(
        thread=replace(thread, messages=thread.messages + len(written), bytes=thread.bytes + size)
    )


def _put(draft: Draft, write: ThreadWrite, run_id: str = "") -> None:
    """Append messages and set the state, within the current event."""
    now_us = draft.context.now_us
    _append(
        draft,
        [
            ThreadMessage(
                number=number, role=one.role, content=one.content, run_id=run_id, time_us=now_us
            )
            for number, one in enumerate(write.messages, draft.run.thread.messages + 1)
        ],
    )
    if write.state is not None:
        thread = draft.run.thread
        _drop_state(draft, thread.state)
        version = thread.state + 1
        entry = Entry(key=str(version), value=write.state)
        draft.entries += (EntryWrite(journal=STATE, generation=letters.GENERATION, entry=entry),)
        draft.change_run(thread=replace(thread, state=version))


def _drop_state(draft: Draft, version: int) -> None:
    """Remove the state of this version, which may have been set within this same transition."""
    if version == draft.state.run.thread.state:
        if version:
            entry = Entry(key=str(version))
            old = EntryWrite(journal=STATE, generation=letters.GENERATION, entry=entry)
            draft.forgotten += (old,)
    else:
        draft.entries = tuple(one for one in draft.entries if one.journal != STATE)


def _described(write: ThreadWrite) -> str:
    count = len(write.messages)
    parts = [f"{count} message{'s' * (count != 1)}"] if count else []
    return " and ".join([*parts, "its state"] if write.state is not None else parts)


def block_of(number: int) -> int:
    """Return the generation of the journal in which a message is kept, so that the newest are found at once."""
    return 1 + (number - 1) // BLOCK_MESSAGES


def thread_message(stored: StoredEntry) -> ThreadMessage:
    """Return the message that an entry of a thread's journal keeps."""
    entry = stored.entry
    run_id, time_us = _origin_of(entry.arguments)
    return ThreadMessage(
        number=int(entry.key),
        role=entry.name,
        content=entry.value,
        run_id=run_id,
        time_us=time_us,
    )
