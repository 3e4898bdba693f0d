"""An agent with a function that holds its interpreter, as one long call in C does."""

from __future__ import annotations

import ctypes

from stepwell_client import Agent, TaskContext
from tests.chaos.world.gates import noted

agent = Agent("holding")


@agent.task("hold")
def hold(ctx: TaskContext, seconds: float) -> str:
    # `PyDLL` keeps the interpreter's lock during the call.
    with noted(f"hold-{ctx.attempt}"):
        if ctx.attempt == 1:
            ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return "held"


@agent.task("quick")
def quick(ctx: TaskContext) -> str:
    with noted("quick"):
        return "done"
