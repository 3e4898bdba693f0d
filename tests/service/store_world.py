"""Helpers of the Store service's tests: a store that fails when asked to, a wire that is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Self, cast

from stepwell.core.port import Commit, Store
from stepwell.core.records.errors import StepwellError
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from stepwell_drivers.memory.state import State
from stepwell_drivers.memory.store import MemoryStore
from tests.service.store_server import StoreServer
from tests.support.patience import insisting

COMMITTED = Verdict.COMMITTED
Step = Callable[[], Coroutine[Any, Any, None]]


class Faulty:
    """A store that does something of a test's before and after a commit, and is else as it is."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.before: Step | None = None
        self.after: Step | None = None
        self.asked: list[Commit] = []

    async def commit(self, commits: list[Commit]) -> Any:
        self.asked += commits
        before, self.before = self.before, None
        if before is not None:
            await before()
        results = await self.inner.commit(commits)
        after, self.after = self.after, None
        if after is not None:
            await after()
        return results

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class World:
    """A memory store, a server in front of it, and the doors that a test opens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.behind: Store = MemoryStore(State(SystemRuntime()))
        self.store = Faulty(self.behind)
        self.server = StoreServer(cast("Store", self.store), folder)
        self.doors: list[Store] = []

    async def open(self, more: str = "", *, port: int = 0) -> Store:
        address = self.server.url
        if port:
            address = address.replace(self.server.address, f"127.0.0.1:{port}")
        door = await open_store(address + more, runtime=SystemRuntime())
        self.doors.append(door)
        return door

    async def restart(self) -> None:
        """Start another server where the first one was."""
        address = self.server.address
        self.server = StoreServer(cast("Store", self.store), self.folder)
        await self.server.start(address)

    async def __aenter__(self) -> Self:
        await self.server.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for door in self.doors:
            await door.close()
        await self.server.close()
        await self.behind.close()


async def verdicts(store: Store, *commits: Commit) -> list[Verdict]:
    return [result.verdict for result in await store.commit(commits)]


def raises(error: StepwellError) -> Step:
    async def step() -> None:
        raise error

    return step


class Proxy:
    """Stands between a driver and a server; once told, it passes no reply on but cuts."""

    def __init__(self, target: str) -> None:
        self._host, _, self._port = target.rpartition(":")
        self.cuts = False
        self._server: asyncio.Server | None = None
        self._pumps: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        far, out = await asyncio.open_connection(self._host, int(self._port))
        pumps = [
            SystemRuntime().spawn(self._pump(near, out, back, reply=False), name="there"),
            SystemRuntime().spawn(self._pump(far, back, out, reply=True), name="back"),
        ]
        self._pumps.update(pumps)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        other: asyncio.StreamWriter,
        *,
        reply: bool,
    ) -> None:
        try:
            while data := await source.read(65_536):
                if reply and self.cuts:
                    break
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()
            other.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)


async def until_there(store: Store, commit: Commit) -> list[Verdict]:
    """Send the commit until the store answers."""
    return await insisting(lambda: verdicts(store, commit))
