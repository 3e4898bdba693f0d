"""The waker: a crowd is woken in turns, each of it once."""

from __future__ import annotations

import asyncio

import pytest

from stepwell.watch.waker import PAUSE_S, TURN, Waker
from stepwell_testkit.runtime import ManualRuntime


class Crowd:
    """Events of a crowd of two turns and one more, and its waker."""

    def __init__(self) -> None:
        self.runtime = ManualRuntime()
        self.waker = Waker(self.runtime)
        self.events = [asyncio.Event() for _ in range(2 * TURN + 1)]

    def woken(self) -> list[int]:
        """Return the places of those that were woken since the last call."""
        woken = [place for place, event in enumerate(self.events) if event.is_set()]
        for event in self.events:
            event.clear()
        return woken

    async def next_turn(self) -> list[int]:
        """Let one pause pass; return whom it woke."""
        await self._settle()
        self.runtime.advance(PAUSE_S * 1_000)
        await self._settle()
        return self.woken()

    async def _settle(self) -> None:
        for _ in range(3):
            await self.runtime.sleep(0)


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def test_few_are_woken_at_once_and_without_an_event_loop(crowd: Crowd) -> None:
    crowd.waker.wake(crowd.events[:TURN])

    assert crowd.woken() == list(range(TURN))


async def test_crowd_is_woken_in_turns_with_a_pause_before_each(crowd: Crowd) -> None:
    crowd.waker.wake(crowd.events)

    assert crowd.woken() == list(range(TURN))
    assert await crowd.next_turn() == list(range(TURN, 2 * TURN))
    assert await crowd.next_turn() == [2 * TURN]
    assert await crowd.next_turn() == []


async def test_who_is_due_again_keeps_its_place_and_who_had_its_turn_comes_last(
    crowd: Crowd,
) -> None:
    crowd.waker.wake(crowd.events)
    crowd.woken()

    crowd.waker.wake(crowd.events)

    assert await crowd.next_turn() == list(range(TURN, 2 * TURN))
    assert await crowd.next_turn() == [*range(TURN - 1), 2 * TURN]
    assert await crowd.next_turn() == [TURN - 1]


async def test_after_the_last_turn_few_are_woken_at_once_again(crowd: Crowd) -> None:
    crowd.waker.wake(crowd.events)
    for _ in range(3):
        await crowd.next_turn()

    crowd.waker.wake(crowd.events[:1])

    assert crowd.woken() == [0]
