"""The store of an environment, whose claims tell when the next item is due."""

from __future__ import annotations

import asyncio

from stepwell.core.port import Claim, Claimed, Store
from stepwell_testkit.proxy import StoreProxy


class WatchedStore(StoreProxy):
    """Notes the result of each claim."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.last = Claimed()
        self._claimed = asyncio.Event()

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self.inner.claim(claim)
        self.last = claimed
        self._claimed.set()
        return claimed

    async def next_claim(self) -> Claimed:
        """Wait for a claim that begins after this call, and return its result."""
        # One claim may be running; the second from now began later.
        for _ in range(2):
            self._claimed.clear()
            await self._claimed.wait()
        return self.last
