"""Hints from a Store service: one stream for all subscribers, reopened whenever it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpc.aio import AioRpcError

from stepwell.core.port import Hint, Runtime
from stepwell_drivers.hints import ANYTHING, HintBus, newest
from stepwell_drivers.remote.link import Link


class RemoteHints:
    """The subscribers, and a stream that is open while there are any."""

    def __init__(self, link: Link, runtime: Runtime) -> None:
        self._link = link
        self._runtime = runtime
        self._hints = HintBus()
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        """Call `hint` on every change from now on; return a function that unsubscribes."""
        stop = self._hints.subscribe(hint)
        if self._following is None and not self._closed:
            self._following = self._runtime.spawn(self._follow(), name="stepwell-store-hints")
        return stop

    async def close(self) -> None:
        """End the stream. Safe to call twice."""
        self._closed = True
        self._hints.clear()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))

    async def _follow(self) -> None:
        """Read the stream, and reopen it a little later whenever it ends. Never ends by itself."""
        failures = 0
        while True:
            call = self._link.subscribe()
            try:
                async for message in call:
                    failures = 0
                    # A message without hints means that hints start now, so earlier ones may have
                    # been missed.
                    changes = [(one.tenant_id, one.run_id, one.version) for one in message.hints]
                    self._hints.publish(newest(changes) or ANYTHING)
            except AioRpcError as error:
                if self._link.fault_of(error).refused:
                    self._link.new_token()
            finally:
                # Cancelled explicitly, because the server keeps a stream that is only dropped.
                call.cancel()
            failures += 1
            await self._runtime.sleep(self._link.backoff(failures))
