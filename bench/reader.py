"""The bench's reader: many streams that watch one run, in a process of its own.

It finds the events' numbers by the lengths in a message and decodes no event. Once all streams stand it makes a
file; when they have ended it writes what came to each into another one.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import msgspec

from bench.processes import Arrival
from stepwell_client.v1 import orchestrator_pb2 as pb

METHOD = "/stepwell.v1.Orchestrator/WatchRun"
STREAMS_PER_CONNECTION = 100


def main(target: str, token_file: str, out: str, run_id: str, after: str, streams: str) -> None:
    """Read so many streams to their end."""
    # What it keeps would be gone through again and again, while others want the cores.
    gc.disable()
    token, path = Path(token_file).read_text().strip(), Path(out)
    standing = path.with_suffix(".standing").touch
    stories = asyncio.run(_read_all(target, token, run_id, int(after), int(streams), standing))
    path.write_bytes(msgspec.json.encode(stories))


async def _read_all(
    target: str, token: str, run_id: str, after: int, streams: int, standing: Callable[[], None]
) -> list[list[Arrival]]:
    """Read so many streams; say when all of them stand."""
    metadata = (("authorization", f"Bearer {token}"),)
    request = pb.WatchRunRequest(run_id=run_id, resume_token=str(after)).SerializeToString()
    count = -(-streams // STREAMS_PER_CONNECTION)
    # Channels of the same options would share one connection.
    channels = [grpc.aio.insecure_channel(target, [("bench.n", n)]) for n in range(count)]
    calls: list[Any] = [
        channels[number % count].unary_stream(METHOD)(request, metadata=metadata)
        for number in range(streams)
    ]
    stories: list[list[Arrival]] = [[] for _ in calls]
    reading = [asyncio.ensure_future(_read(*pair)) for pair in zip(calls, stories, strict=True)]
    for call in calls:
        await call.initial_metadata()
    standing()
    await asyncio.gather(*reading)
    return stories


async def _read(call: Any, story: list[Arrival]) -> None:
    async for message in call:
        numbers = tuple(event_numbers(message))
        if numbers:
            story.append(Arrival(time.time(), numbers))


def event_numbers(message: bytes) -> Iterator[int]:
    """Find the numbers of the events in a WatchRunResponse, skipping all else by its length.

    Field 1 is the batch, in it field 1 an event, in it field 1 the number: tags 0x0A, 0x0A and 0x08.
    """
    if not message.startswith(b"\x0a"):
        return
    _, at = _varint(message, 1)
    while at < len(message) and message[at] == 0x0A:
        length, at = _varint(message, at + 1)
        assert message[at] == 0x08
        yield _varint(message, at + 1)[0]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where what follows it begins."""
    value = shift = 0
    while message[at] >= 0x80:
        value |= (message[at] & 0x7F) << shift
        shift += 7
        at += 1
    return value | message[at] << shift, at + 1


if __name__ == "__main__":
    main(*sys.argv[1:])
