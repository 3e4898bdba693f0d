"""Health, per service: ready means that the store accepts commits.

A small write proves it: this replica's presence, under a tenant that nobody can have. The name
`liveness` is SERVING as long as the process answers at all, because a restart doesn't repair a
store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from grpc_health.v1 import health, health_pb2

from stepwell.core.port import Presence, Runtime, Store
from stepwell.core.records.errors import StoreError
from stepwell.logger import get_logger

log = get_logger(__name__)

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING

LIVENESS = "liveness"
"""The name for the process without its store."""

_MESSAGES: Any = health_pb2
"""The library's messages, whose type hints lack those of `List`."""


class _Servicer(health.aio.HealthServicer):
    """The library's servicer, with `List`, which it lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[str, Any] = {}

    async def set(self, service: str, status: Any) -> None:
        """Set the status of a name, and notify its watchers."""
        self.statuses[service] = _MESSAGES.HealthCheckResponse(status=status)
        await super().set(service, status)

    async def List(self, request: object, context: object) -> Any:  # noqa: N802 - the protocol's name
        """Return the status of each name."""
        del request, context
        return _MESSAGES.HealthListResponse(statuses=self.statuses)


class Health:
    """Keeps the health service's answer up to date."""

    def __init__(
        self, store: Store, runtime: Runtime, replica_id: str, *, interval_ms: int
    ) -> None:
        self.servicer = _Servicer()
        self._store = store
        self._runtime = runtime
        self._interval_ms = interval_ms
        self._presence = Presence(
            tenant_id="", worker_id="replica", instance_id=replica_id, replica_id=replica_id
        )
        self._names: tuple[str, ...] = ("",)
        self._serving: bool | None = None
        self._leaving = False

    def cover(self, services: Iterable[str]) -> None:
        """Set the services that depend on the store."""
        self._names = ("", *services)

    async def check(self) -> None:
        """Check once whether the store accepts writes, and set the answer."""
        await self._set(await self._trouble())

    async def watch(self) -> None:
        """Check repeatedly."""
        while True:
            await self._runtime.sleep(self._interval_ms / 1_000)
            await self.check()

    async def leave(self) -> None:
        """Answer that nothing is served any more, whatever the store's state; the process still lives."""
        self._leaving = True
        await self._answer(serving=False)

    async def _trouble(self) -> str:
        """Return why the store accepts no writes, or ""."""
        try:
            async with asyncio.timeout(self._interval_ms / 1_000):
                await self._store.put_presence([self._presence], ttl_ms=3 * self._interval_ms)
        except StoreError as error:
            return error.message
        except TimeoutError:
            return f"no answer within {self._interval_ms} ms"
        return ""

    async def _set(self, trouble: str) -> None:
        serving = not trouble
        if serving is self._serving:
            return
        if trouble and self._serving is not None:
            log.warning("the store takes no writes", why=trouble)
        elif self._serving is not None:
            log.warning("the store takes writes")
        self._serving = serving
        await self.servicer.set(LIVENESS, _SERVING)
        await self._answer(serving=serving)

    async def _answer(self, *, serving: bool) -> None:
        for name in self._names:
            # A check may be half-way through the names when the server begins to shut down.
            now = serving and not self._leaving
            await self.servicer.set(name, _SERVING if now else _NOT_SERVING)
