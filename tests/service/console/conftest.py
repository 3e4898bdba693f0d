"""A server with its console's port."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from stepwell.config import ConsoleSettings
from stepwell.console.serving import Place, serving_server
from stepwell.core.port import Runtime
from stepwell.rpc.server import Server
from tests.service.conftest import ME, Client, World
from tests.service.console.http import Http


@asynccontextmanager
async def console_of(server: Server, runtime: Runtime) -> AsyncIterator[str]:
    """Serve a started server's console on a free port; yield its URL."""
    place = Place.bind(ConsoleSettings(port=0, hosts=("console.test",)), runtime.now_us)
    # What a client doesn't read stays with the server, and not with the system.
    place.taken.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
    async with serving_server(place, server, runtime):
        yield place.address


class Console:
    """A server, and clients of both of its ports, with the same token."""

    def __init__(self, world: World, server: Server, client: Client, http: Http) -> None:
        self.world = world
        self.server = server
        self.client = client
        self.http = http

    def streams(self, method: str) -> float:
        """Return how many streams of a method are open."""
        labels = {"method": f"/stepwell.v1.Orchestrator/{method}"}
        value = self.server.metrics.registry.get_sample_value("stepwell_rpc_streams", labels)
        return value or 0.0


@pytest.fixture
async def console(world: World) -> AsyncIterator[Console]:
    async with AsyncExitStack() as stack:
        yield await new_console(world, stack)


async def new_console(world: World, stack: AsyncExitStack, **groups: Any) -> Console:
    """Start a server with these groups of settings, and its console."""
    server = await world.server(**groups)
    url = await stack.enter_async_context(console_of(server, world.runtime))
    http = Http(url, ME)
    stack.push_async_callback(http.client.aclose)
    return Console(world, server, await world.client(server), http)
