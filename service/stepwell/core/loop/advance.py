"""The loop: `advance(state, occurrences, context) -> Transition`, a pure function.

It reads no clock, draws no random number, waits for nothing and changes nothing that it was given.
The tables of `table.py` hold the legal moves; the other modules of this package hold the rules that
make them. The shell around it reads a state, calls `advance`, commits the transition, and only then
notifies anybody. A run is resumed by loading and advancing it, and there is no other recovery.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from stepwell.core.loop import (
    attempts,
    children,
    deliveries,
    expiries,
    leases,
    opening,
    questions,
    request_ids,
    resolution,
    run_commands,
    signals,
    task_commands,
    thread_messages,
    threads,
    unknown_calls,
)
from stepwell.core.loop.context import Context
from stepwell.core.loop.dispatch import settle, update_status
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.occurrences import (
    Answer,
    AnyCommand,
    AppendMessages,
    Begin,
    Cancel,
    ChildEnds,
    Delivery,
    Forget,
    Fork,
    GrantLease,
    LeaseExpired,
    LettersDelivered,
    Occurrence,
    Open,
    Pause,
    RaiseBudget,
    Resolve,
    Resume,
    RetryTask,
    SendSignal,
    SkipTask,
    Start,
    StartInThread,
    Stop,
    TimerDue,
    WriteToThread,
)
from stepwell.core.loop.state import RunState
from stepwell.core.loop.thread_occurrences import (
    ChangePlace,
    CopyMessages,
    ForkThread,
    LetGo,
    RunLeft,
    RunWrites,
)
from stepwell.core.loop.transition import Reply, ReplyStatus, Transition, refused
from stepwell.core.records.errors import VersionChanged, version_changed
from stepwell.core.records.model import Run


def advance(state: RunState, occurrences: Sequence[Occurrence], context: Context) -> Transition:
    """Decide on these occurrences, applied in their order.

    Steps that become ready are leased in the same commit, as far as `context.grants` goes. A transition
    without a commit changes nothing; its replies are true at once.

    At most one occurrence of a batch may carry a `request_id`.
    """
    draft = Draft(state, context)
    replies = tuple([_apply(draft, one) for one in occurrences])
    if draft.changed and not draft.run.spec.is_thread:
        settle(draft)
        update_status(draft)
    transition = draft.finish(replies)
    if draft.called:
        replies = tuple([_with_run(one, transition.run) for one in replies])
        return replace(transition, replies=replies)
    return transition


def _with_run(reply: Reply, run: Run) -> Reply:
    done = reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED)
    return replace(reply, run=run) if done else reply


def _apply(draft: Draft, occurrence: Occurrence) -> Reply:
    match occurrence:
        case Delivery():
            return deliveries.deliver(draft, occurrence)
        case GrantLease():
            return leases.grant_lease(draft, occurrence)
        case LeaseExpired():
            return expiries.lease_expired(draft, occurrence)
        case TimerDue():
            return expiries.timer_due(draft, occurrence)
        case AppendMessages():
            return attempts.append_messages(draft, occurrence)
        case Begin():
            return attempts.begin(draft, occurrence)
        case Forget():
            return unknown_calls.forget(draft, occurrence)
        case Open():
            return opening.open_waits(draft, occurrence)
        case ChildEnds():
            return opening.child_ends(draft, occurrence)
        case LetGo() | RunLeft() | RunWrites() | CopyMessages():
            return _apply_of_thread(draft, occurrence)
        case LettersDelivered():
            return opening.letters_delivered(draft, occurrence)
        case ChangePlace():
            return children.change_place(draft, occurrence)
        case _:
            with draft.called_by(occurrence):
                return _apply_called(draft, occurrence)


def _apply_of_thread(draft: Draft, one: LetGo | RunLeft | RunWrites | CopyMessages) -> Reply:
    match one:
        case LetGo():
            return threads.let_go(draft)
        case RunLeft():
            return threads.run_left(draft, one)
        case RunWrites():
            return thread_messages.run_writes(draft, one)
        case CopyMessages():
            return thread_messages.copy_messages(draft, one)


def _apply_called(draft: Draft, command: Start | StartInThread | Fork | AnyCommand) -> Reply:
    match command:
        case Start():
            return run_commands.start(draft, command)
        case StartInThread():
            return threads.start_in_thread(draft, command)
        case Fork():
            return run_commands.fork(draft, command)
        case _ if command.request_id:
            return _apply_once(draft, command)
        case _:
            return _apply_command(draft, command)


def _apply_command(draft: Draft, command: AnyCommand) -> Reply:
    expected = command.expected_version
    version = draft.version if draft.changed else draft.version - 1
    if expected and expected != version:
        return refused(
            VersionChanged.reason,
            version_changed(expected, version),
        )
    match command:
        case Cancel():
            return run_commands.cancel(draft, command)
        case Pause():
            return run_commands.pause(draft, command)
        case Resume():
            return run_commands.resume(draft, command)
        case Stop():
            return run_commands.stop(draft, command)
        case SendSignal():
            return signals.send_signal(draft, command)
        case WriteToThread():
            return thread_messages.write_to_thread(draft, command)
        case ForkThread():
            return thread_messages.fork_thread(draft, command)
        case RaiseBudget():
            return run_commands.raise_budget(draft, command)
        case RetryTask():
            return task_commands.retry_task(draft, command)
        case SkipTask():
            return task_commands.skip_task(draft, command)
        case Answer():
            return questions.answer(draft, command)
        case Resolve():
            return resolution.resolve(draft, command)
    assert_never(command)


def _apply_once(draft: Draft, command: AnyCommand) -> Reply:
    """Apply a command with a request id, unless the run has executed that request before."""
    if (known := request_ids.known(draft, command)) is not None:
        return known
    reply = _apply_command(draft, command)
    if reply.status is ReplyStatus.ACCEPTED:
        request_ids.note(draft, command)
    return reply
