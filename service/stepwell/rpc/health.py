"""Health, per service: ready means that the store takes commits.

A small write proves that it does: the presence of this replica, under a tenant that nobody can have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog
from grpc_health.v1 import health, health_pb2

from stepwell.core.port import Presence, Runtime, Store
from stepwell.core.records.errors import StoreError

log = structlog.get_logger(__name__)

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Health:
    """Keeps the health service's answer up to date."""

    def __init__(
        self, store: Store, runtime: Runtime, replica_id: str, *, interval_ms: int
    ) -> None:
        self.servicer = health.aio.HealthServicer()
        self._store = store
        self._runtime = runtime
        self._interval_ms = interval_ms
        self._presence = Presence(
            tenant_id="", worker_id="replica", instance_id=replica_id, replica_id=replica_id
        )
        self._names: tuple[str, ...] = ("",)
        self._serving: bool | None = None

    def cover(self, services: Iterable[str]) -> None:
        """Set the services that depend on the store."""
        self._names = ("", *services)

    async def check(self) -> None:
        """Check once whether the store takes writes, and set the answer."""
        await self._set(await self._trouble())

    async def watch(self) -> None:
        """Check again and again."""
        while True:
            await self._runtime.sleep(self._interval_ms / 1_000)
            await self.check()

    async def leave(self) -> None:
        """Answer that nothing is served any more, whatever the store can."""
        await self.servicer.enter_graceful_shutdown()

    async def _trouble(self) -> str:
        """Return why the store takes no writes; empty: it does."""
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
        for name in self._names:
            await self.servicer.set(name, _SERVING if serving else _NOT_SERVING)
