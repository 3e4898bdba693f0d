"""Batches of occurrences that one commit decides together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from stepwell.core.loop.occurrences import (
    AwaitChild,
    Command,
    Completed,
    Delivery,
    Failed,
    Forget,
    Fork,
    NeedsAnswer,
    Occurrence,
    Open,
    SignalChild,
    Start,
    StartInThread,
    Suspended,
    SuspendedCall,
)
from stepwell.core.loop.transition import Reply
from stepwell.core.records import limits
from stepwell.core.records.cuts import failure_bytes, text_bytes

_EVENTS_PER_SIGNAL = limits.EVENTS_PER_COMMIT_MAX // limits.INPUTS_PER_TRANSITION_MAX
_REQUEST_BYTES = 1_024
"""The size of a question and its event without texts: mainly ids."""


class Posted:
    """A queued occurrence, with the callback for its reply."""

    __slots__ = ("_answered", "occurrence")

    def __init__(
        self, occurrence: Occurrence, answered: Callable[[Reply | Exception], None]
    ) -> None:
        """`answered` is called once, and must not raise."""
        self.occurrence = occurrence
        self._answered: Callable[[Reply | Exception], None] | None = answered

    def settle(self, reply: Reply | Exception) -> None:
        """Answer the occurrence, unless it was answered before."""
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(reply)


def next_batch(inbox: deque[Posted]) -> list[Posted]:
    """Pop the occurrences that can be decided together; a command, a Forget, or a growth, is decided alone."""
    batch = [inbox.popleft()]
    extend(batch, inbox)
    return batch


def extend(batch: list[Posted], inbox: deque[Posted]) -> bool:
    """Add newly queued occurrences while their events stay within the limit; return whether any came."""
    known = len(batch)
    if not inbox or goes_alone(batch[-1].occurrence):
        return False
    room = limits.EVENT_BYTES_PER_COMMIT_MAX - sum(_event_bytes(one.occurrence) for one in batch)
    events = limits.EVENTS_PER_COMMIT_MAX - sum(_events(one.occurrence) for one in batch)
    letters = limits.LETTERS_PER_COMMIT_MAX // 2 - sum(_letters(one.occurrence) for one in batch)
    while (
        inbox
        and len(batch) < limits.INPUTS_PER_TRANSITION_MAX
        and not goes_alone(inbox[0].occurrence)
        and (room := room - _event_bytes(inbox[0].occurrence)) >= 0
        and (events := events - _events(inbox[0].occurrence)) >= 0
        and (letters := letters - _letters(inbox[0].occurrence)) >= 0
    ):
        batch.append(inbox.popleft())
    return len(batch) > known


def reject(batch: Sequence[Posted], error: Exception) -> None:
    """Answer the occurrences of a batch with an error."""
    for one in batch:
        one.settle(error)


def _events(occurrence: Occurrence) -> int:
    """Estimate an occurrence's number of events; a suspension has one more for each question of its calls."""
    asked = sum(isinstance(one.wait, NeedsAnswer) for one in _waits(occurrence))
    return _EVENTS_PER_SIGNAL + asked


def _letters(occurrence: Occurrence) -> int:
    """Estimate the letters that an occurrence writes, without those to all children of a step or a run."""
    kids = sum(isinstance(one.wait, AwaitChild | SignalChild) for one in _waits(occurrence))
    return 1 + 2 * kids  # A child that follows the pauses of a paused run has a second one.


def _waits(occurrence: Occurrence) -> Sequence[SuspendedCall]:
    if isinstance(occurrence, Open):
        return occurrence.calls
    if isinstance(occurrence, Delivery) and isinstance(occurrence.result, Suspended):
        return occurrence.result.waits
    return ()


def _event_bytes(occurrence: Occurrence) -> int:
    """Estimate an occurrence's share of the events' size: failures and questions can be large."""
    # A call's key is in the event's text, in the step's row and in its question.
    size = sum(
        3 * text_bytes(one.call)
        + (_question_bytes(one.wait) if isinstance(one.wait, NeedsAnswer) else _REQUEST_BYTES)
        for one in _waits(occurrence)
    )
    if not isinstance(occurrence, Delivery):
        return size
    if isinstance(occurrence.result, Failed):
        # Three copies: in the execution, in its task, and in the carryover to the next attempt.
        size += 3 * failure_bytes(occurrence.result.failure)
    elif isinstance(occurrence.result, NeedsAnswer):
        size += _question_bytes(occurrence.result)
    return size + (len(occurrence.progress.data) if occurrence.progress is not None else 0)


def _question_bytes(question: NeedsAnswer) -> int:
    # The event has the prompt, too.
    asked = (question.prompt, question.prompt, question.schema, *question.choices)
    return _REQUEST_BYTES + sum(text_bytes(text) for text in asked)


def goes_alone(occurrence: Occurrence) -> bool:
    """Return whether nothing else is decided in the same turn."""
    # A dropped call must be committed before the messages that its lease adds at its end are read.
    if isinstance(occurrence, Delivery):
        # A commit has one plan revision.
        return isinstance(occurrence.result, Completed) and bool(occurrence.result.tasks)
    return isinstance(occurrence, Command | Start | StartInThread | Fork | Forget)
