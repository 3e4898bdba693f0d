"""Hints from a Store service: one stream for all who want them, opened again whenever it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from grpc.aio import AioRpcError

from stepwell.core.ports import Runtime
from stepwell_drivers.remote.link import Link

Hint = Callable[[str, str], None]

ANYTHING = ("", "")
"""Any run may have changed."""


class Hints:
    """Who wants to know when a run may have changed. Used on the event loop alone."""

    def __init__(self, link: Link, runtime: Runtime) -> None:
        self._link = link
        self._runtime = runtime
        self._hints: list[Hint] = []
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        """Call it from now on; returns how to stop."""
        self._hints.append(hint)
        if self._following is None and not self._closed:
            self._following = self._runtime.spawn(self._follow(), name="stepwell-store-hints")

        def stop() -> None:
            if hint in self._hints:
                self._hints.remove(hint)

        return stop

    async def close(self) -> None:
        """End the stream. Safe to call twice."""
        self._closed = True
        self._hints.clear()
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait((self._following,))

    async def _follow(self) -> None:
        """Read the stream; when it ends, wait a little and open it again. Never ends by itself."""
        failures = 0
        while True:
            call = self._link.subscribe()
            try:
                async for message in call:
                    failures = 0
                    # Without a run: hints are sent from now on, so some may have been missed.
                    runs = [(hint.tenant_id, hint.run_id) for hint in message.hints] or [ANYTHING]
                    self._tell(runs)
            except AioRpcError as error:
                if self._link.fault_of(error).refused:
                    self._link.new_token()
            finally:
                # A stream that is only dropped would stay on the server.
                call.cancel()
            failures += 1
            await self._runtime.sleep(self._link.backoff(failures))

    def _tell(self, runs: Sequence[tuple[str, str]]) -> None:
        loop = asyncio.get_running_loop()
        for hint in self._hints:
            # One call each: a hint that raises keeps nothing from the others.
            loop.call_soon(self._call, hint, runs)

    def _call(self, hint: Hint, runs: Sequence[tuple[str, str]]) -> None:
        for tenant_id, run_id in runs:
            if hint in self._hints:
                hint(tenant_id, run_id)
