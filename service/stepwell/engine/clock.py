"""Estimates the store's time between its answers, for the moments that people read."""

from __future__ import annotations

from stepwell.core.port import Runtime


class StoreTime:
    """The store's clock, continued by this process's clock between two answers of the store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._observed_us = runtime.now_us()
        self._at = runtime.monotonic()
        self._was_observed = False

    def observe(self, now_us: int) -> None:
        """Note the time of an answer of the store; 0: the answer had none."""
        if self._was_observed and now_us <= self._observed_us:
            return  # One answer has the same time for many writes.
        if now_us:
            # The store's first time is taken, however far ahead this machine's own clock is.
            self._observed_us = max(now_us, self.now_us()) if self._was_observed else now_us
            self._at = self._runtime.monotonic()
            self._was_observed = True

    def now_us(self) -> int:
        """Return the store's time; once observed, it never goes back."""
        return self._observed_us + int((self._runtime.monotonic() - self._at) * 1_000_000)
