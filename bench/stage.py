"""Stage of one round on one store: a server, a worker and a client that works share, or places of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple, Protocol

from bench.backends import Backend, Place
from bench.plans import chain
from bench.processes import ServerProcess, WorkerProcess
from bench.records import Record
from stepwell_client import Client


class World(NamedTuple):
    """A server, a worker and a client on one place."""

    backend: Backend
    place: Place
    server: ServerProcess
    worker: WorkerProcess
    client: Client


class Stage:
    """The place of one round on one store."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._stack = AsyncExitStack()
        self._shared: World | None = None

    async def shared(self) -> World:
        """Return the world that works of this round share; it is warm."""
        if self._shared is None:
            place = self._stack.enter_context(self.backend.fresh())
            self._shared = await self._stack.enter_async_context(running(self.backend, place))
        return self._shared

    async def close(self) -> None:
        """End the shared world. A work that needs a place of its own does so first."""
        self._shared = None
        await self._stack.aclose()

    @asynccontextmanager
    async def alone(self, *, lease_ms: int = 30_000) -> AsyncGenerator[World]:
        """Open another world, with nothing running beside it."""
        await self.close()
        with self.backend.fresh() as place:
            async with running(self.backend, place, lease_ms=lease_ms) as world:
                yield world


@asynccontextmanager
async def running(
    backend: Backend, place: Place, *, lease_ms: int = 30_000
) -> AsyncGenerator[World]:
    """A server, a worker and a client, after one run that warms them up; stopped at the end."""
    server = await asyncio.to_thread(ServerProcess, place, lease_ms=lease_ms)
    worker = WorkerProcess(server.target, place.folder)
    token = place.folder / "state/stepwell/token"
    try:
        async with Client(server.target, token_file=token) as client:
            await (await client.start(plan=chain(20))).wait()
            worker.seen()
            yield World(backend, place, server, worker, client)
    finally:
        worker.stop()
        server.stop()


class Work(Protocol):
    """Something that is measured. Its sizes are its fields, so that a test plays it in little."""

    @property
    def name(self) -> str:
        """Its name in the table."""
        ...

    @property
    def stores(self) -> Sequence[str]:
        """The stores that it is measured on unless others are named."""
        ...

    @property
    def once(self) -> bool:
        """It makes its rounds itself: what it sets up takes long."""
        ...

    async def measure(self, stage: Stage) -> Sequence[Record]:
        """Return what one round came to; from a work that makes its rounds itself, all of them."""
        ...
