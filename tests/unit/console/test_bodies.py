"""Bodies of requests to the console's port: those under way share a room, and small ones need none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.console import calls
from stepwell.console.calls import Bodies, ClientGone
from stepwell.core.records.errors import ResourceExhausted
from stepwell.rpc.status import TooManyCalls

LIMIT = 4 * 1024 * 1024
LARGE = b"x" * 100_000


class Sender:
    """A body that comes as the test sends it; it is whole at its first empty part."""

    def __init__(self, bodies: Bodies) -> None:
        self._parts = asyncio.Queue[dict[str, Any]]()
        self.read = asyncio.ensure_future(bodies.read(self._parts.get, LIMIT))

    async def send(self, *parts: bytes) -> None:
        """Send parts, and return when they have been read or the body is refused."""
        for part in parts:
            self._parts.put_nowait({"type": "http.request", "body": part, "more_body": bool(part)})
        for _ in (*parts, b"its end"):
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def leave(self) -> None:
        self._parts.put_nowait({"type": "http.disconnect"})
        with pytest.raises(ClientGone):
            await self.read


@pytest.fixture
def bodies(monkeypatch: pytest.MonkeyPatch) -> Bodies:
    monkeypatch.setattr(calls, "BODIES_BYTES_MAX", 250_000)
    return Bodies(stall_s=60)


async def test_body_that_finds_no_room_is_refused_and_one_after_it_taken(bodies: Bodies) -> None:
    first, second, third = Sender(bodies), Sender(bodies), Sender(bodies)
    await first.send(LARGE)
    await second.send(LARGE)
    await third.send(LARGE)
    with pytest.raises(TooManyCalls):
        await third.read
    await first.send(LARGE[:50_000], b"")
    assert len(await first.read) == 150_000

    again = Sender(bodies)
    await again.send(LARGE, b"")
    assert await again.read == LARGE
    await second.send(b"")
    assert await second.read == LARGE


async def test_body_that_is_left_unfinished_or_refused_gives_its_room_back(bodies: Bodies) -> None:
    for _ in range(4):
        left = Sender(bodies)
        await left.send(LARGE, LARGE)
        await left.leave()
        refused = Sender(bodies)
        await refused.send(LARGE, LARGE, LARGE)
        with pytest.raises(TooManyCalls):
            await refused.read
        impatient = Bodies(stall_s=0)
        with pytest.raises(ClientGone):
            await Sender(impatient).read
    whole = Sender(bodies)
    await whole.send(LARGE, LARGE, b"")
    assert len(await whole.read) == 200_000


async def test_small_bodies_are_taken_while_the_room_is_full(bodies: Bodies) -> None:
    full = Sender(bodies)
    await full.send(LARGE, LARGE, b"x" * 50_000)
    for _ in range(10):
        small = Sender(bodies)
        await small.send(b"x" * calls.SMALL_BYTES_MAX, b"")
        assert len(await small.read) == calls.SMALL_BYTES_MAX
    await full.leave()


async def test_body_larger_than_a_message_may_be_is_refused(
    bodies: Bodies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "BODIES_BYTES_MAX", 2 * LIMIT)
    large = Sender(bodies)
    await large.send(b"x" * LIMIT, b"x" * 6)
    with pytest.raises(ResourceExhausted, match="more than 4,194,304 bytes"):
        await large.read
