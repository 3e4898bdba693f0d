"""Many streams that watch one run while events come at a steady rate.

`watch` measures a server that runs already:

    figures = await watch(server.target, token_file, server.pid)
    print(figures.line())

From the shell: `python -m bench.watching measure TARGET TOKEN_FILE SERVER_PID`.

The readers are processes of their own. They find the events' numbers by the lengths in a message and decode no event.
The delay of an event goes from the moment at which the server decided it, by the clock of the same machine, to
the moment at which a reader has the message.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc.aio
import msgspec

from bench.processes import cpu_seconds
from stepwell_client import Client
from stepwell_client.v1 import orchestrator_pb2 as pb

METHOD = "/stepwell.v1.Orchestrator/WatchRun"
STREAMS_PER_CONNECTION = 100
PATIENCE_S = 120
READY = b"ready\n"


class Arrival(NamedTuple):
    """Events that came to a reader in one message."""

    at: float
    first: int
    last: int


class Watched(NamedTuple):
    """Figures of so many streams."""

    streams: int
    events: int
    seconds: float
    wrong: int
    """Streams that lack an event, or got one twice."""
    delays: list[float]
    """Seconds from each event to each stream, the shortest first."""
    messages: int
    server_cpu: float
    server_mb: float
    """The most memory that the server had."""

    def line(self) -> str:
        """Return the figures in words."""
        p50, p99 = (self.delays[int(len(self.delays) * part)] * 1e3 for part in (0.5, 0.99))
        each = self.server_cpu / (self.events * self.streams) * 1e6
        return (
            f"{self.streams:,} streams, {self.events:,} events at {self.events / self.seconds:.0f}/s: "
            f"{self.wrong} streams with gaps or repeats, p50 {p50:.0f} ms, p99 {p99:.0f} ms, "
            f"max {self.delays[-1] * 1e3:.0f} ms, {self.messages / self.streams:.0f} messages a stream, "
            f"server: {each:.1f} µs CPU an event and stream, {self.server_mb:.0f} MB"
        )


async def watch(
    target: str,
    token_file: Path,
    server_pid: int,
    *,
    streams: int = 1_000,
    events: int = 2_000,
    per_second: int = 100,
    readers: int = 2,
) -> Watched:
    """Open streams from so many processes, have events happen, and look at what each stream got."""
    async with Client(target, token_file=token_file) as client:
        handle = await client.start(queue="nobody")
        after = (await handle.refresh()).last_event
        arguments = (target, str(token_file), handle.id, str(after), str(streams // readers))
        processes = [await _reading(*arguments) for _ in range(readers)]
        cpu, begun = cpu_seconds(server_pid), time.monotonic()
        for number in range(events):
            await asyncio.sleep(begun + number / per_second - time.monotonic())
            await (handle.resume() if number % 2 else handle.pause())
        seconds = time.monotonic() - begun
        await handle.cancel()
        async with asyncio.timeout(PATIENCE_S):
            outs = await asyncio.gather(*(one.communicate() for one in processes))
        cpu = cpu_seconds(server_pid) - cpu
        made: dict[int, float] = {}
        async with handle.watch(after) as watched:
            async for event in watched:
                made[event.number] = event.time.ToMicroseconds() / 1e6
    read = msgspec.json.Decoder(list[list[Arrival]])
    stories = [story for out, _ in outs for story in read.decode(out)]
    delays = [
        one.at - made[number]
        for story in stories
        for one in story
        for number in range(one.first, one.last + 1)
    ]
    return Watched(
        streams=len(stories),
        events=len(made),
        seconds=seconds,
        wrong=sum(_numbers(story) != list(made) for story in stories),
        delays=sorted(delays),
        messages=sum(map(len, stories)),
        server_cpu=cpu,
        server_mb=_peak_mb(server_pid),
    )


def _numbers(story: Sequence[Arrival]) -> list[int]:
    return [number for one in story for number in range(one.first, one.last + 1)]


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


async def _reading(*arguments: str) -> asyncio.subprocess.Process:
    """Start a reader; return when all of its streams stand."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.watching", "read", *arguments),
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
        limit=2**20,
    )
    assert child.stdout is not None
    if await child.stdout.readline() != READY:
        raise SystemExit("a reader could not begin")
    return child


# --- a reader, in a process of its own ---------------------------------------------------------------


async def _read_all(
    target: str, token: str, run_id: str, after: int, streams: int
) -> list[list[Arrival]]:
    """Read so many streams to their end; say when all of them stand."""
    metadata = (("authorization", f"Bearer {token}"),)
    request = pb.WatchRunRequest(run_id=run_id, after=after).SerializeToString()
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
    os.write(1, READY)
    await asyncio.gather(*reading)
    return stories


async def _read(call: Any, story: list[Arrival]) -> None:
    async for message in call:
        numbers = tuple(event_numbers(message))
        if numbers:
            if list(numbers) != list(range(numbers[0], numbers[-1] + 1)):
                raise SystemExit(f"a gap within a message: {numbers}")
            story.append(Arrival(time.time(), numbers[0], numbers[-1]))


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


def _main(kind: str, target: str, token_file: str, *rest: str) -> None:
    if kind == "measure":
        figures = asyncio.run(watch(target, Path(token_file), int(rest[0])))
        print(figures.line())
        return
    run_id, after, streams = rest
    token = Path(token_file).read_text().strip()
    stories = asyncio.run(_read_all(target, token, run_id, int(after), int(streams)))
    sys.stdout.buffer.write(msgspec.json.encode(stories))


if __name__ == "__main__":
    _main(*sys.argv[1:])
