"""Change hints within one process; every driver's `subscribe` uses them.

Used on the event loop only. A hint shortens a wait, and nothing depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from stepwell.core.port import Hint

RunKey = tuple[str, str]
"""Tenant and run."""

ANYTHING: Mapping[RunKey, int] = {("", ""): 0}
"""Any run may have changed."""


def newest(changes: Iterable[tuple[str, str, int]]) -> dict[RunKey, int]:
    """Merge (tenant, run, version) triples: each run once, with its newest version."""
    runs: dict[RunKey, int] = {}
    for tenant_id, run_id, version in changes:
        key = (tenant_id, run_id)
        if version >= runs.get(key, 0):
            runs[key] = version
    return runs


class HintBus:
    """The subscribers of one process."""

    def __init__(self) -> None:
        self._hints: list[Hint] = []

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        """Call `hint` on every change from now on; return a function that unsubscribes, safe to call twice."""
        self._hints.append(hint)

        def stop() -> None:
            if hint in self._hints:
                self._hints.remove(hint)

        return stop

    def publish(self, runs: Mapping[RunKey, int]) -> None:
        """Tell every subscriber soon that these runs have reached these versions (0: unknown)."""
        loop, news = asyncio.get_running_loop(), tuple(runs.items())
        for hint in self._hints if news else ():
            # One callback for each subscriber: if one raises, the others are still called.
            loop.call_soon(self._call, hint, news)

    def clear(self) -> None:
        """Drop all subscribers."""
        self._hints.clear()

    def _call(self, hint: Hint, news: tuple[tuple[RunKey, int], ...]) -> None:
        for (tenant_id, run_id), version in news:
            if hint in self._hints:
                hint(tenant_id, run_id, version)
