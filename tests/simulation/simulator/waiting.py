"""Calls that wait while their step runs: for signals, people and child runs.

A task of behaviour `waits:3` makes three. They are opened together, or only by the suspension. The attempt goes on if
the ends of all come in time; else it is suspended, and the next attempt finds in its journal what has ended.
"""

from __future__ import annotations

import asyncio
import zlib
from contextlib import suppress

from stepwell.core.loop.occurrences import (
    AwaitChild,
    AwaitSignal,
    Failed,
    NeedsAnswer,
    Result,
    SignalChild,
    Suspended,
    SuspendedCall,
)
from stepwell.core.records.journal import Entry
from stepwell.core.records.model import Budget, Payload, TaskSpec
from stepwell.core.records.states import JournalMark
from tests.simulation.simulator.calls import Calls
from tests.simulation.simulator.workloads import SIGNALS, task

DEPTH_MAX = 3
QUIET_S_MAX = 1.5
TIMEOUT_MS = 2_500
KINDS = ("", "flaky:1", "reject", "slow", "waits:1", "waits:1", "waits:2")
"""The behaviours of the tasks of children."""


class Waiting(Calls):
    """The calls of one attempt at a step that waits."""

    _news: asyncio.Event
    _opens = 0

    async def make(self, count: int) -> Result | None:
        """Make the calls; return an outcome that ends the attempt early, None: they are done.

        Raises:
            LeaseGone: the step is another's by now.
        """
        self._news = asyncio.Event()
        await self._read()
        calls = {one.call: one for number in range(count) for one in self._drawn(number)}
        left = self._left(calls)
        if not left or (failed := await self._open_some(left)) is None:
            return await self._wait(calls)
        return failed

    def ended(self, entry: Entry) -> None:
        """Take in the end of a call that the service sends while the step runs."""
        place = self._place
        self.signals.sent(place.run, place.journal, place.generation, entry)
        self._entries[entry.key, entry.mark, entry.number] = entry
        self._news.set()

    async def _open_some(self, left: tuple[SuspendedCall, ...]) -> Result | None:
        """Open the calls, all at once or one after the other; return how that failed, or None."""
        if self._rng.happens(0.15):
            return None
        groups = (left,) if self._rng.happens(0.6) else tuple((one,) for one in left)
        cancelled = tuple(
            (SuspendedCall(call=one.call, wait=AwaitChild(cancel=True)),)
            for one in left
            if isinstance(one.wait, AwaitChild) and self._rng.happens(0.15)
        )
        for calls in (*groups, *cancelled):
            if (failed := await self._open(calls)) is not None:
                return failed
        return None

    async def _open(self, calls: tuple[SuspendedCall, ...]) -> Result | None:
        # Some may have ended since they were chosen: an earlier attempt had opened them.
        calls = self._left({one.call: one for one in calls})
        if not calls:
            return None
        self._opens += 1
        known = tuple(key for key, mark, _ in self._entries if mark is JournalMark.END)
        answer = await self._send(opens=calls, open_number=self._opens, known=known)
        return Failed(failure=answer.failure) if answer.failure is not None else None

    async def _wait(self, calls: dict[str, SuspendedCall]) -> Result | None:
        """Wait for all ends for a while; return a suspension if some are missing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._rng.random() * QUIET_S_MAX):
                while self._left(calls):
                    self._news.clear()
                    await self._news.wait()
        await self._work()
        left = self._left(calls)
        if not left:
            return None
        others = [one for one in left if isinstance(one.wait, NeedsAnswer)]
        if self._opens and len(left) - len(others) > 1 and self._rng.happens(0.3):
            # Of the waits for signals and children that are open it names only the first.
            named = next(one for one in left if one not in others)
            return Suspended(waits=(*others, named), more=True)
        return Suspended(waits=left)

    def _left(self, calls: dict[str, SuspendedCall]) -> tuple[SuspendedCall, ...]:
        ended = {key for key, mark, _ in self._entries if mark is JournalMark.END}
        return tuple(one for key, one in calls.items() if key not in ended)

    def _drawn(self, number: int) -> tuple[SuspendedCall, ...]:
        """Return a call, and a signal to the child that it starts: the same in each attempt."""
        key = f"c{number}"
        draw = zlib.crc32(f"{self._place.run[1]} {self._place.journal} {key}".encode())
        names = (*SIGNALS, "steer", "steer") if self.run.spec.thread_id else SIGNALS
        name = names[draw // 8 % len(names)]
        match draw % 8:
            case 0 | 1:
                return (SuspendedCall(call=key, wait=AwaitSignal(name=name)),)
            case 2:
                at_once = draw // 16 % 2 == 0
                wait = AwaitSignal(
                    name=name, expires_ms=0 if at_once else TIMEOUT_MS, at_once=at_once
                )
                return (SuspendedCall(call=key, wait=wait),)
            case 3:
                return (SuspendedCall(call=key, wait=NeedsAnswer(prompt=key)),)
            case _ if self.run.spec.child_of.depth >= DEPTH_MAX:
                return (SuspendedCall(call=key, wait=AwaitSignal(name=name)),)
            case _:
                child = SuspendedCall(call=key, wait=self._child(key, draw // 8))
                signals = [
                    SuspendedCall(
                        call=f"{key}/{n}",
                        wait=SignalChild(
                            child=key, name=name, value=Payload(data=f"{name}/{key}.{n}".encode())
                        ),
                    )
                    for n in range(draw // 16 % 3)
                ]
                return (child, *signals)

    def _child(self, key: str, draw: int) -> AwaitChild:
        limited = self.run.budget.input_tokens
        return AwaitChild(
            goal=key,
            tasks=() if draw % 5 == 0 else _plan(draw // 5),
            leave=draw % 7 == 0,
            follow_pauses=draw % 3 > 0,
            budget=Budget(input_tokens=1 + draw % 6 if limited and draw % 2 else 0),
        )


def _plan(draw: int) -> tuple[TaskSpec, ...]:
    first = task("k0", behaviour=KINDS[draw % len(KINDS)])
    if draw // 7 % 3:
        return (first,)
    return first, task("k1", "k0", behaviour=KINDS[draw // 21 % len(KINDS)])
