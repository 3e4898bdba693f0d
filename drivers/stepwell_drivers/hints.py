"""Who wants to know when a run may have changed: what every driver's `subscribe` stands on.

Used on the event loop alone. Nothing rests on a hint: it shortens a wait.
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
    """Put (tenant, run, version) together: each run once, with its newest version."""
    runs: dict[RunKey, int] = {}
    for tenant_id, run_id, version in changes:
        key = (tenant_id, run_id)
        runs[key] = max(runs.get(key, 0), version)
    return runs


class Hints:
    """Those who subscribed."""

    def __init__(self) -> None:
        self._hints: list[Hint] = []

    def subscribe(self, hint: Hint) -> Callable[[], None]:
        """Call it from now on; returns how to stop, which may be called twice."""
        self._hints.append(hint)

        def stop() -> None:
            if hint in self._hints:
                self._hints.remove(hint)

        return stop

    def tell(self, runs: Mapping[RunKey, int]) -> None:
        """Tell everyone, soon, of these runs and the versions that they have reached (0: unknown)."""
        loop, news = asyncio.get_running_loop(), tuple(runs.items())
        for hint in self._hints if news else ():
            # One call each: a hint that raises keeps nothing from the others.
            loop.call_soon(self._call, hint, news)

    def clear(self) -> None:
        """Tell nobody any more."""
        self._hints.clear()

    def _call(self, hint: Hint, news: tuple[tuple[RunKey, int], ...]) -> None:
        for (tenant_id, run_id), version in news:
            if hint in self._hints:
                hint(tenant_id, run_id, version)
