"""The loop: `advance(state, inputs, context) -> Transition`, a pure function.

It reads no clock, draws no chance of its own, waits for nothing and changes nothing that it was
given. Which moves there are stands in `table.py`; here stands what makes each of them happen. The
shell around it reads a state, calls `advance`, commits what comes back, and only then tells anybody.
Resuming is loading and advancing: there is no other recovery.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from stepwell.core.fork import fork
from stepwell.core.loop import (
    attempts,
    deliveries,
    failures,
    questions,
    resolution,
    run_commands,
    task_commands,
    timers,
)
from stepwell.core.loop.dispatch import say_status, settle
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.signals import (
    Answer,
    AppendMessages,
    Begin,
    Cancel,
    Command,
    Context,
    Delivery,
    Fork,
    GrantLease,
    LeaseExpired,
    Pause,
    RaiseBudget,
    Reply,
    ReplyStatus,
    Resolve,
    Resume,
    RetryTask,
    Signal,
    SkipTask,
    Start,
    Stop,
    TimerDue,
    Transition,
)
from stepwell.core.loop.state import RunState
from stepwell.core.records.model import RequestRecord, Run

_HANDLERS: dict[type[Any], Callable[[Draft, Any], Reply]] = {
    Start: run_commands.start,
    Fork: fork.start_fork,
    Cancel: run_commands.cancel,
    Pause: run_commands.pause,
    Resume: run_commands.resume,
    Stop: task_commands.stop,
    RaiseBudget: task_commands.raise_budget,
    RetryTask: task_commands.retry_task,
    SkipTask: task_commands.skip_task,
    Answer: questions.answer,
    Delivery: deliveries.deliver,
    Begin: attempts.begin,
    AppendMessages: attempts.say,
    LeaseExpired: failures.expire,
    TimerDue: timers.timer_due,
    GrantLease: attempts.take_lease,
    Resolve: resolution.resolve,
}


def advance(
    state: RunState,
    inputs: Sequence[Signal],
    context: Context,
    *,
    after: Transition | None = None,
) -> Transition:
    """Decide what these inputs, taken in their order, make of the run.

    `after` is a transition of the same state that isn't committed yet: the answer then holds both,
    so that a lease is taken in the commit that made its step ready; then `inputs` are leases and
    nothing else. A transition without events
    changes nothing and needs no commit; its replies are true at once.

    At most one input of a batch may carry a `request_id`.
    """
    draft = Draft(state, context, after)
    replies = tuple(_reply(draft, one) for one in inputs)
    if draft.changed and after is None:
        settle(draft)
    elif draft.changed:
        say_status(draft)
    transition = draft.finish(replies if after is None else after.replies + replies)
    if any(isinstance(one, Command | Start | Fork) for one in inputs):
        replies = tuple(_with_run(one, transition.run) for one in transition.replies)
        return replace(transition, replies=replies)
    return transition


def _with_run(reply: Reply, run: Run) -> Reply:
    done = reply.status in (ReplyStatus.ACCEPTED, ReplyStatus.UNCHANGED)
    return replace(reply, run=run) if done else reply


def _reply(draft: Draft, one: Signal) -> Reply:
    if isinstance(one, Command) and one.request_id:
        return _once(draft, one)
    return _HANDLERS[type(one)](draft, one)


def _once(draft: Draft, command: Command) -> Reply:
    """Carry out a command with a request id: the first time only."""
    known = draft.state.requests.get(command.request_id)
    if known is not None:
        if hmac.compare_digest(known.fingerprint, command.fingerprint):
            return Reply(status=ReplyStatus.UNCHANGED)
        return Reply(
            status=ReplyStatus.REFUSED,
            reason="REQUEST_ID_REUSED",
            message=f"request_id {command.request_id!r} was used before for another request; "
            "use a new one for a new request",
        )
    reply = _HANDLERS[type(command)](draft, command)
    if reply.status is ReplyStatus.ACCEPTED:
        draft.request = RequestRecord(
            request_id=command.request_id,
            fingerprint=command.fingerprint,
            version=draft.version,
        )
    return reply
