"""A program at the other end of a wire, as its test holds it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.chaos.faults.wire import Wire
from tests.support.patience import PATIENCE_S

TOP = Path(__file__).parents[3]


class Peer:
    """A running program that says a word at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, word: str) -> None:
        """Wait until it has said this."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := await self._process.stdout.readline():
                if line.decode().strip() == word:
                    return
        raise AssertionError(f"it ended before it said {word!r}")


@asynccontextmanager
async def peer(wire: Wire, *arguments: str) -> AsyncIterator[Peer]:
    """Run `far` over there until the block ends; then it is killed, and the wire is whole."""
    command = wire.over_there(sys.executable, "-m", "tests.chaos.faults.far", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, cwd=TOP
    )
    try:
        yield Peer(process)
    finally:
        # `ip netns exec` becomes the program: it has this very pid.
        process.kill()
        await process.wait()
