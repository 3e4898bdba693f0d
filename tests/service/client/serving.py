"""A worker that serves a scripted server for as long as a test lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from stepwell_client import Agent, Client, Worker
from tests.service.client.fakes import FakeServer, Stream


@asynccontextmanager
async def serving(agent: Agent, client: Client, **options: Any) -> AsyncIterator[Worker]:
    """A worker whose run() is ended by the test's end."""
    worker = Worker(agent, client, **options)
    task = asyncio.ensure_future(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def welcomed(server: FakeServer, **terms: Any) -> Stream:
    stream = await server.workers.stream()
    await stream.welcome(**terms)
    return stream
