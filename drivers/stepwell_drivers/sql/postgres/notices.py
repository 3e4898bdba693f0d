"""Notifies the other replicas of changes after a commit, by a hint in a separate transaction.

A NOTIFY inside the commit costs half of the throughput, because the server queues such transactions
one at a time. Here at most one NOTIFY runs, and later changes go into the next. A payload names its
sender, which ignores its own, and the runs with their versions; if there are too many, it says
"anything may have changed".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from stepwell.core.port import Runtime
from stepwell.logger import get_logger
from stepwell_drivers.hints import ANYTHING, RunKey
from stepwell_drivers.sql.postgres.readers import Readers

log = get_logger(__name__)

BYTES_MAX = 7_900
"""A notification's payload must be shorter than 8,000 bytes."""
PAUSE_S = 0.02
"""The pause between notifications: fifty a second are enough, and each wakes every replica."""
NOTIFY = "SELECT pg_notify($1, $2)"


class _Notice(msgspec.Struct, array_like=True):
    """A payload: its sender, and runs with the versions they reached. No runs: anything may have changed."""

    origin: str
    runs: list[tuple[str, str, int]] = []


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Notice).decode


class Notices:
    """Collects and sends changes, and passes on those of other replicas."""

    def __init__(
        self,
        readers: Readers,
        channel: str,
        runtime: Runtime,
        on_change: Callable[[Mapping[RunKey, int]], None],
    ) -> None:
        self._readers = readers
        self._channel = channel
        self._runtime = runtime
        self._on_change = on_change
        self._origin = runtime.new_id()
        self._runs: dict[RunKey, int] = {}
        self._telling: asyncio.Task[None] | None = None
        self._closed = False

    def publish(self, runs: Mapping[RunKey, int]) -> None:
        """Notify the other replicas soon."""
        for run, version in runs.items():
            self._runs[run] = max(version, self._runs.get(run, 0))
        if self._runs and self._telling is None and not self._closed:
            self._telling = self._runtime.spawn(self._send_all(), name="stepwell-postgres-notify")

    def receive(self, payload: str) -> None:
        """Pass on another replica's notification."""
        try:
            notice = _decode(payload)
        except msgspec.DecodeError:
            self.missed()
            return
        if notice.origin != self._origin:
            self._on_change({(one[0], one[1]): one[2] for one in notice.runs} or ANYTHING)

    def missed(self) -> None:
        """Report a gap, in which anything may have changed."""
        self._on_change(ANYTHING)

    async def close(self) -> None:
        """Send pending changes, and stop."""
        self._closed = True
        if self._telling is not None:
            await asyncio.wait((self._telling,))

    async def _send_all(self) -> None:
        try:
            while self._runs:
                runs, self._runs = self._runs, {}
                await self._readers.execute(NOTIFY, self._channel, payload_of(self._origin, runs))
                if not self._closed:
                    await self._runtime.sleep(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - a lost hint costs the others a moment
            log.warning("the other replicas were not told of a change", why=str(error))
        finally:
            self._telling = None


def payload_of(origin: str, runs: Mapping[RunKey, int]) -> str:
    """Return a notification's payload."""
    named = [(tenant_id, run_id, version) for (tenant_id, run_id), version in runs.items()]
    payload = _encode(_Notice(origin, named))
    return (payload if len(payload) <= BYTES_MAX else _encode(_Notice(origin))).decode()
