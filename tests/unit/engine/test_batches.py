"""Occurrences that are decided together keep a commit's events within their limits."""

from __future__ import annotations

from collections import deque

from stepwell.core.loop.occurrences import (
    AwaitChild,
    Delivery,
    Forget,
    NeedsAnswer,
    Open,
    Suspended,
    SuspendedCall,
)
from stepwell.core.records import limits
from stepwell.engine.batches import Posted, next_batch


def suspensions(count: int, *, asks: int = limits.WAITS_MAX, prompt: str = "?") -> deque[Posted]:
    """Return the ends of attempts whose calls ask so many questions each."""
    calls = [SuspendedCall(call=f"k{n}", wait=NeedsAnswer(prompt=prompt)) for n in range(asks)]
    result = Suspended(waits=tuple(calls))
    one = Delivery(execution_id="task:a#1", token="t", result=result)
    return deque(Posted(one, lambda _: None) for _ in range(count))


def test_questions_of_many_calls_are_so_many_events() -> None:
    inbox = suspensions(64)
    batch = next_batch(inbox)

    assert 1 < len(batch) <= limits.EVENTS_PER_COMMIT_MAX // (limits.WAITS_MAX + 1)
    assert len(batch) + len(inbox) == 64


def test_an_outcome_goes_alone_though_it_is_larger_than_a_commit_should_be() -> None:
    inbox = suspensions(2, prompt="x" * 64_000)

    assert [len(next_batch(inbox)), len(next_batch(inbox))] == [1, 1]


def test_starts_of_children_in_one_commit_are_within_its_letters() -> None:
    child = AwaitChild(goal="find out", follow_pauses=True)
    calls = tuple(SuspendedCall(call=f"k{at}", wait=child) for at in range(100))
    one = Open(execution_id="task:a#1", token="t", number=1, calls=calls)
    batch = next_batch(deque(Posted(one, lambda _: None) for _ in range(64)))

    assert 1 < len(batch) <= limits.LETTERS_PER_COMMIT_MAX // 2 // (2 * len(calls))


def test_a_call_is_dropped_by_a_commit_of_its_own() -> None:
    drop = Posted(
        Forget(execution_id="task:a#1", token="t", number=1, calls=("k",)), lambda _: None
    )
    inbox = deque([*suspensions(1, asks=1), drop, *suspensions(2, asks=1)])

    assert [len(next_batch(inbox)) for _ in range(3)] == [1, 1, 2]


def test_keys_of_calls_and_what_surrounds_a_question_count_as_bytes() -> None:
    assert len(next_batch(suspensions(64, asks=1))) > 50

    long = SuspendedCall(call="k" * limits.CALL_KEY_CHARS_MAX, wait=NeedsAnswer(prompt="?"))
    result = Suspended(waits=(long,) * 30)
    one = Delivery(execution_id="task:a#1", token="t", result=result)
    batch = next_batch(deque(Posted(one, lambda _: None) for _ in range(64)))
    # Of each, its text, its step's row and its request have the key.
    size = 3 * limits.CALL_KEY_CHARS_MAX * 30
    assert len(batch) * size <= limits.EVENT_BYTES_PER_COMMIT_MAX
