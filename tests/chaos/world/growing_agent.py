"""An agent whose tasks are what servers and workers must live with: large results, hangs, sudden ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from stepwell_client import Agent, TaskContext

RESULT_BYTES = 128 * 1024
LINES = 5

agent = Agent("growing")


@agent.task("ordinary")
async def ordinary(ctx: TaskContext) -> bytes:
    for number in range(LINES):
        ctx.log(f"line {number} of attempt {ctx.attempt}")
    ctx.stream("a piece of the answer")
    await asyncio.sleep(0.01)
    return os.urandom(RESULT_BYTES)


@agent.task("hanging")
async def hanging(ctx: TaskContext) -> None:
    """Do nothing until cancelled."""
    await asyncio.sleep(3_600)


@agent.task("stuck")
def stuck(ctx: TaskContext) -> None:
    """Keep a thread busy for longer than the task may idle."""
    time.sleep(1.5)


@agent.task("deadly")
async def deadly(ctx: TaskContext) -> None:
    """End the worker."""
    os.kill(os.getpid(), signal.SIGKILL)
