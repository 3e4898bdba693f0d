"""A client that was made before a fork answers in the child, or says at once that it can't; the parent goes on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chaos.world.processes import Place
from tests.support.patience import PATIENCE_S

REFUSED = "Misconfigured: gRPC stands still in this process: it was forked"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="gRPC supports forks on Linux")


@pytest.fixture
async def place(backends: None, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    try:
        await place.start_server()
        yield place
    finally:
        place.close()


async def forked(place: Place, order: str) -> list[str]:
    """Return the results of the children's calls, after the parent's own last call."""
    settings = {**place.environment, "STEPWELL_TARGET": place.target}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.world.forking", order),
        env=settings,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(2 * PATIENCE_S):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-2_000:]
    found = json.loads(out)
    assert found["parent"] == "ok"
    return found["children"]


@pytest.mark.parametrize("order", ["used", "unused", "closed"])
async def test_client_made_before_a_fork_answers_in_the_child(place: Place, order: str) -> None:
    assert await forked(place, order) == ["ok"]


async def test_fork_with_an_asyncio_client_open_is_refused_another(place: Place) -> None:
    of_asyncio, blocking = await forked(place, "aio")
    assert of_asyncio.startswith(REFUSED)
    assert blocking == "ok"
