"""Waiting times between attempts, and the number of attempts."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell_client.link.runtime import Chance


@dataclass(slots=True)
class Backoff:
    """A back-off with full jitter: a random time from 0 to a bound that doubles with each failure.

    Full jitter spreads callers over the whole span after an outage.
    """

    base_seconds: float
    """The bound after the first failure."""
    cap_seconds: float
    """The highest bound."""
    attempts_max: int = 0
    """The most attempts; 0: no limit."""

    def seconds(self, runtime: Chance, failures: int) -> float:
        """Return how many seconds to wait after `failures` failures in a row."""
        doublings = min(max(failures, 1) - 1, 30)
        return runtime.random() * min(self.cap_seconds, self.base_seconds * 2.0**doublings)


CALLS = Backoff(0.1, 2.0, attempts_max=5)
"""Calls of the Orchestrator service, and watches that have not worked yet."""
SAVES = Backoff(0.1, 2.0, attempts_max=6)
"""Messages of a conversation that a step saves at once."""
READS = Backoff(0.1, 2.0)
"""Results that a step reads while it works."""
STREAMS = Backoff(0.05, 1.0)
"""A worker's streams."""
LOGS = Backoff(0.05, 2.0)
"""Log entries."""
