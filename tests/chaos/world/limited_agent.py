"""An agent whose steps write when they begin and end, so that a test sees how many of them ran at once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from stepwell_client import Agent, TaskContext

FILE = "LIMITED_FILE"
"""The variable that names the file."""
STEP_S = 0.05

agent = Agent("limited")


@agent.task("limited")
async def limited(ctx: TaskContext) -> None:
    def write(what: str) -> None:
        with Path(os.environ[FILE]).open("a") as file:
            file.write(f"{what} {os.getpid()}\n")

    write("begin")
    await asyncio.sleep(STEP_S)
    write("end")
