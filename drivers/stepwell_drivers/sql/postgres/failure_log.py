"""Logs failed writes, and what to do about them, once a minute for each reason."""

from __future__ import annotations

from stepwell.core.port import Runtime
from stepwell.core.records.errors import StepwellError, StoreError
from stepwell.logger import get_logger

log = get_logger(__name__)

QUIET_S = 60.0


class Alarm:
    """Logs a reason once a minute."""

    def __init__(self, shown: str, runtime: Runtime) -> None:
        self._shown = shown
        self._runtime = runtime
        self._said: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def ring(self, error: StepwellError) -> None:
        """Log the error, unless its reason was logged within the last minute or the caller made the mistake."""
        if not isinstance(error, StoreError):
            return
        now = self._runtime.monotonic()
        if now - self._said.get(error.reason, -QUIET_S) < QUIET_S:
            self._unsaid[error.reason] = self._unsaid.get(error.reason, 0) + 1
            return
        self._said[error.reason] = now
        log.warning(
            "the store could not write",
            store=self._shown,
            reason=error.reason,
            why=error.message,
            unsaid=self._unsaid.pop(error.reason, 0),
        )
