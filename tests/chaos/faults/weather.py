"""Mishaps of a network, one after another, each on a proxy drawn by chance, each with its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random

from tests.support.backends.proxy import Proxy

PAUSE_S = (0.02, 0.2)
LASTS_S = (0.02, 0.15)
CUT_AFTER_BYTES = 8_000
DELAY_S = 0.01
JITTER_S = 0.02


class Weather:
    """Breaks things until it is stopped; `met` says how often each way."""

    def __init__(self, proxies: Sequence[Proxy], chance: Random, committing: bytes = b"") -> None:
        """`committing`: what only a request has in it that commits; empty: there is no such thing."""
        self._proxies = proxies
        self._committing = committing
        self._chance = chance
        self.met: Counter[str] = Counter()

    async def blow(self) -> None:
        """Go on until cancelled; then all is well again."""
        try:
            while True:
                await asyncio.sleep(self._chance.uniform(*PAUSE_S))
                proxy = self._chance.choice(self._proxies)
                mishap = self._chance.choice(_MISHAPS)
                fired = proxy.fired
                await mishap(self, proxy)
                # Some need their moment, and may have waited for it in vain.
                if mishap not in _AWAITED or proxy.fired > fired:
                    self.met[mishap.__name__.replace("_", " ")] += 1
                proxy.heal()
        finally:
            for proxy in self._proxies:
                proxy.heal()
                await proxy.accept()

    async def _a_while(self) -> None:
        await asyncio.sleep(self._chance.uniform(*LASTS_S))

    async def cut(self, proxy: Proxy) -> None:
        """All connections break at once; half of the time by a reset."""
        proxy.reset = self._chance.random() < 0.5
        proxy.cut()

    async def cut_after_sent(self, proxy: Proxy) -> None:
        """A connection breaks in the middle of a request."""
        proxy.cut_after_sent(self._chance.randrange(CUT_AFTER_BYTES))
        await self._a_while()

    async def cut_after_received(self, proxy: Proxy) -> None:
        """A connection breaks in the middle of an answer."""
        proxy.cut_after_received(self._chance.randrange(CUT_AFTER_BYTES))
        await self._a_while()

    async def lose_a_verdict(self, proxy: Proxy) -> None:
        """A commit is done, and at its answer the connection breaks."""
        if self._committing:
            proxy.lose_reply_to(self._committing)
        await self._a_while()

    async def swallow_replies(self, proxy: Proxy) -> None:
        """Requests are done, and their answers vanish."""
        proxy.swallow_replies()
        await self._a_while()
        proxy.lose_lines()

    async def swallow_requests(self, proxy: Proxy) -> None:
        """Requests never arrive."""
        proxy.swallow_requests()
        await self._a_while()
        proxy.lose_lines()

    async def stand_still(self, proxy: Proxy) -> None:
        """Nothing moves for a while; then all of it does."""
        proxy.freeze()
        await self._a_while()
        proxy.thaw()

    async def delay(self, proxy: Proxy) -> None:
        """All is late."""
        proxy.delay_s = DELAY_S
        await self._a_while()

    async def overtake(self, proxy: Proxy) -> None:
        """Bytes of one connection overtake those of another."""
        proxy.jitter_s = JITTER_S
        await self._a_while()

    async def trickle(self, proxy: Proxy) -> None:
        """It comes byte by byte."""
        proxy.trickles = True
        await self._a_while()

    async def refuse(self, proxy: Proxy) -> None:
        """The connections break, and nobody listens for a while."""
        await proxy.refuse()
        proxy.cut()
        await self._a_while()
        await proxy.accept()


_MISHAPS: tuple[Callable[[Weather, Proxy], Awaitable[None]], ...] = (
    Weather.cut,
    Weather.cut_after_sent,
    Weather.cut_after_received,
    Weather.lose_a_verdict,
    Weather.swallow_replies,
    Weather.swallow_requests,
    Weather.stand_still,
    Weather.delay,
    Weather.overtake,
    Weather.trickle,
    Weather.refuse,
)
_AWAITED = (Weather.cut_after_sent, Weather.cut_after_received, Weather.lose_a_verdict)
MISHAPS = tuple(one.__name__.replace("_", " ") for one in _MISHAPS)
