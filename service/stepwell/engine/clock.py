"""What time the store has, as far as this replica knows: for the moments that people read."""

from __future__ import annotations

from stepwell.core.port import Runtime


class StoreTime:
    """The store's clock, carried on by this process's own between two answers of the store."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._told_us = runtime.now_us()
        self._at = runtime.monotonic()
        self._was_told = False

    def tell(self, now_us: int) -> None:
        """Take over what the store said; 0 says nothing."""
        if now_us:
            # The first word of the store counts, however far ahead this machine's own clock is.
            self._told_us = max(now_us, self.now_us()) if self._was_told else now_us
            self._at = self._runtime.monotonic()
            self._was_told = True

    def now_us(self) -> int:
        """Return the store's time; once the store has told it, never earlier than before."""
        return self._told_us + int((self._runtime.monotonic() - self._at) * 1_000_000)
