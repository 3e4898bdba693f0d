"""The wait of a worker that lost its stream, before it opens the next one."""

from __future__ import annotations

import asyncio

import grpc

from stepwell_client.calls.client import Client
from stepwell_client.link.backoff import STREAMS

LOOK_SECONDS = 0.02
"""The time between two looks at a connection that was lost."""


async def wait_to_return(client: Client, stopping: asyncio.Event, failures: int) -> None:
    """Back off, but no longer than until a connection stands again that was lost, or the worker stops."""
    now = client.runtime.monotonic
    until = now() + STREAMS.seconds(client.runtime, failures)
    was_lost = not _is_connected(client)
    while (left := until - now()) > 0:
        if was_lost and _is_connected(client):
            return
        try:
            async with asyncio.timeout(min(left, LOOK_SECONDS) if was_lost else left):
                await stopping.wait()
                return
        except TimeoutError:
            pass


def _is_connected(client: Client) -> bool:
    """Return whether the channel has a connection; it begins to make one otherwise."""
    state = client.channel.get_state(try_to_connect=True)
    return state is grpc.ChannelConnectivity.READY
