"""Servers that don't answer: when to retry, when to log, when to give up."""

from __future__ import annotations

import logging

from stepwell_client.errors import NotSecured, StepwellClientError, Unavailable
from stepwell_client.link.backoff import CALLS
from stepwell_client.link.connect import Access, Connection
from stepwell_client.link.runtime import Runtime

LOG_AFTER_SECONDS = 1.0
"""A shorter outage counts as a restart and isn't logged."""
LASTING_SECONDS = 5.0
"""A worker's stream that was shorter than this did not end an outage."""
GAP_SECONDS = 5.0
GAP_SECONDS_MAX = 600.0

_log = logging.getLogger("stepwell_client")


class Notices:
    """The moments at which one outage is logged, ever more rarely."""

    def __init__(self, first_seconds: float) -> None:
        self._next = first_seconds
        self._gap = GAP_SECONDS

    def due(self, seconds: float) -> bool:
        """Return whether to log an outage that has lasted this long; True counts as logged."""
        if seconds < self._next:
            return False
        self._next = seconds + self._gap
        self._gap = min(GAP_SECONDS_MAX, 2 * self._gap)
        return True


class StreamLosses:
    """The moments at which the loss of a worker's server, and its return, are logged.

    A stream that ends soon after its welcome doesn't end the loss: a server with a full disk
    welcomes workers, but can't acknowledge what they report.
    """

    def __init__(self) -> None:
        self._notices = Notices(0.0)
        self._lost_at: float | None = None
        self._welcomed_at = 0.0
        self._is_end_due = True

    def due(self, now: float, *, first: bool) -> bool:
        """Return whether to log a stream's loss; True counts as logged. `first`: the stream had been welcomed."""
        if self._lost_at is None or (first and now - self._welcomed_at >= LASTING_SECONDS):
            self._lost_at, self._notices = now, Notices(0.0)
        is_due = self._notices.due(now - self._lost_at)
        self._is_end_due = self._is_end_due or is_due
        return is_due

    def end(self, now: float) -> bool:
        """Note a welcome; return whether to log it: it is the first one, or the loss before it was logged."""
        self._welcomed_at = now
        is_due, self._is_end_due = self._is_end_due, False
        return is_due


class Retries:
    """The inputs of retry decisions: clock, target, token, patience."""

    def __init__(
        self, runtime: Runtime, connection: Connection, *, reconnect_seconds: float | None
    ) -> None:
        """`reconnect_seconds` is the patience of watches, waits, starts and commands; None: never give up."""
        self.runtime = runtime
        self.access: Access = connection.access
        self.target = connection.target
        self.reconnect_seconds = reconnect_seconds

    def outage(self, patience_seconds: float | None) -> Outage:
        """Return a new outage for a call with this patience (None: without limit)."""
        return Outage(self, patience_seconds)


class Outage:
    """A server that doesn't answer, as seen by one call, wait or watch."""

    def __init__(self, retries: Retries, patience_seconds: float | None) -> None:
        self._retries = retries
        self._patience = patience_seconds
        self._failures = 0
        self._since = 0.0
        self._unsecured: NotSecured | None = None
        self._notices = Notices(LOG_AFTER_SECONDS)

    def end(self) -> None:
        """Start over, because the server has answered."""
        if self._failures:
            self._failures, self._notices = 0, Notices(LOG_AFTER_SECONDS)
            self._unsecured = None

    def pause(self, error: StepwellClientError, *, patient: bool = True) -> float:
        """Count a failure; return how many seconds to wait before the next attempt.

        Raises the error after five attempts; with `patient`, only once the patience is over, too.
        """
        # With several addresses gRPC reports any one error. A refused connection must not hide a
        # bad certificate.
        if isinstance(error, NotSecured):
            self._unsecured = error
        elif self._unsecured is not None and error.reason == Unavailable.reason:
            error = self._unsecured
        runtime = self._retries.runtime
        now = runtime.monotonic()
        if not self._failures:
            self._since = now
        self._failures += 1
        lasted = now - self._since
        if self._failures >= CALLS.attempts_max and not (patient and self._waits(lasted)):
            raise error
        seconds = CALLS.seconds(runtime, self._failures)
        if patient and self._waits(lasted) and self._notices.due(lasted + seconds):
            self._log_outage(error, lasted)
        return seconds

    def _waits(self, lasted: float) -> bool:
        return self._patience is None or lasted < self._patience

    def _log_outage(self, error: StepwellClientError, lasted: float) -> None:
        cause = error.explain(self._retries.target)
        left = "" if self._patience is None else f" for {self._patience - lasted:.0f} s"
        _log.warning("%s; trying again%s", cause, left)
