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

from stepwell.core.fork import fork
from stepwell.core.loop import (
    attempts,
    commands,
    control,
    effects,
    failures,
    outcomes,
    questions,
    timers,
)
from stepwell.core.loop.dispatch import say_status, settle
from stepwell.core.loop.draft import Draft
from stepwell.core.loop.inputs import (
    Answer,
    Begin,
    Cancel,
    Command,
    Context,
    Delivery,
    Expired,
    Fork,
    Input,
    Pause,
    RaiseBudget,
    Reply,
    ReplyStatus,
    Resolve,
    Resume,
    RetryTask,
    Say,
    SkipTask,
    Start,
    Stop,
    TakeLease,
    TimerDue,
    Transition,
)
from stepwell.core.loop.state import RunState
from stepwell.core.records.model import RequestRecord

_HANDLERS: dict[type[Any], Callable[[Draft, Any], Reply]] = {
    Start: commands.start,
    Fork: fork.start_fork,
    Cancel: commands.cancel,
    Pause: commands.pause,
    Resume: commands.resume,
    Stop: control.stop,
    RaiseBudget: control.raise_budget,
    RetryTask: control.retry_task,
    SkipTask: control.skip_task,
    Answer: questions.answer,
    Delivery: outcomes.deliver,
    Begin: attempts.begin,
    Say: attempts.say,
    Expired: failures.expire,
    TimerDue: timers.timer_due,
    TakeLease: attempts.take_lease,
    Resolve: effects.resolve,
}


def advance(
    state: RunState,
    inputs: Sequence[Input],
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
    return draft.finish(replies if after is None else after.replies + replies)


def _reply(draft: Draft, one: Input) -> Reply:
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
