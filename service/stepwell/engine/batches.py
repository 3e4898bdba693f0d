"""Batches of signals that one commit decides together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from stepwell.core.loop.signals import (
    Command,
    Delivery,
    Failed,
    Forget,
    Fork,
    NeedsAnswer,
    Signal,
    Start,
    Suspended,
)
from stepwell.core.loop.transition import Reply
from stepwell.core.records import limits
from stepwell.core.records.cuts import failure_bytes, text_bytes

_EVENTS_PER_SIGNAL = limits.EVENTS_PER_COMMIT_MAX // limits.INPUTS_PER_TRANSITION_MAX
_REQUEST_BYTES = 1_024
"""The size of a question and its event without texts: mainly ids."""


class Posted:
    """A queued signal, with the callback for its reply."""

    __slots__ = ("_answered", "signal")

    def __init__(self, signal: Signal, answered: Callable[[Reply | Exception], None]) -> None:
        """`answered` is called once, and must not raise."""
        self.signal = signal
        self._answered: Callable[[Reply | Exception], None] | None = answered

    def settle(self, reply: Reply | Exception) -> None:
        """Answer the signal, unless it was answered before."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(reply)


def next_batch(inbox: deque[Posted]) -> list[Posted]:
    """Pop the signals that can be decided together; a command, or a Forget, is decided alone."""
    batch = [inbox.popleft()]
    extend(batch, inbox)
    return batch


def extend(batch: list[Posted], inbox: deque[Posted]) -> bool:
    """Add newly queued signals while their events stay within the limit; return whether any came."""
    known = len(batch)
    if not inbox or _goes_alone(batch[-1].signal):
        return False
    room = limits.EVENT_BYTES_PER_COMMIT_MAX - sum(_event_bytes(one.signal) for one in batch)
    events = limits.EVENTS_PER_COMMIT_MAX - sum(_events(one.signal) for one in batch)
    while (
        inbox
        and len(batch) < limits.INPUTS_PER_TRANSITION_MAX
        and not _goes_alone(inbox[0].signal)
        and (room := room - _event_bytes(inbox[0].signal)) >= 0
        and (events := events - _events(inbox[0].signal)) >= 0
    ):
        batch.append(inbox.popleft())
    return len(batch) > known


def reject(batch: Sequence[Posted], error: Exception) -> None:
    """Answer the signals of a batch with an error."""
    for one in batch:
        one.settle(error)


def _events(signal: Signal) -> int:
    """Estimate a signal's number of events; a suspension has one more for each question of its calls."""
    if not isinstance(signal, Delivery) or not isinstance(signal.result, Suspended):
        return _EVENTS_PER_SIGNAL
    asked = sum(isinstance(one.wait, NeedsAnswer) for one in signal.result.waits)
    return _EVENTS_PER_SIGNAL + asked


def _event_bytes(signal: Signal) -> int:
    """Estimate a signal's share of the events' size: failures and questions can be large."""
    if not isinstance(signal, Delivery):
        return 0
    size = 0
    if isinstance(signal.result, Failed):
        # Three copies: in the execution, in its task, and in the carryover to the next attempt.
        size = 3 * failure_bytes(signal.result.failure)
    elif isinstance(signal.result, NeedsAnswer):
        size = _question_bytes(signal.result)
    elif isinstance(signal.result, Suspended):
        # A call's key is in the event's text, in the step's row and in its question.
        size = sum(
            3 * text_bytes(one.call)
            + (_question_bytes(one.wait) if isinstance(one.wait, NeedsAnswer) else 0)
            for one in signal.result.waits
        )
    return size + (len(signal.progress.data) if signal.progress is not None else 0)


def _question_bytes(question: NeedsAnswer) -> int:
    # The event has the prompt, too.
    asked = (question.prompt, question.prompt, question.schema, *question.choices)
    return _REQUEST_BYTES + sum(text_bytes(text) for text in asked)


def _goes_alone(signal: Signal) -> bool:
    # A dropped call must be committed before the messages that its lease adds at its end are read.
    return isinstance(signal, Command | Start | Fork | Forget)
