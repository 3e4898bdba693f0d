"""An agent that makes calls within its steps, and notes in files which functions ran."""

from __future__ import annotations

from stepwell_client import Agent, Effect, TaskContext
from tests.chaos.world.gates import noted

CALLS = 6

agent = Agent("journaling")


def think(number: int) -> str:
    with noted(f"think-{number}"):
        return f"thought {number}"


@agent.task("think")
async def thinking(ctx: TaskContext) -> list[str]:
    return [await ctx.call("think", think, number) for number in range(CALLS)]


@agent.task("think-in-thread")
def thinking_in_thread(ctx: TaskContext) -> list[str]:
    return [ctx.call_sync("think", think, number) for number in range(CALLS)]


@agent.task("charge")
async def charging(ctx: TaskContext) -> str:
    def charge() -> str:
        with noted("charge"):
            return "paid"

    thought = await ctx.call("think", think, 0)
    paid = await ctx.call("charge", charge, key="charge", effect=Effect.AT_MOST_ONCE)
    return f"{thought}, {paid}"


@agent.task("rest")
async def resting(ctx: TaskContext) -> str:
    thought = await ctx.call("think", think, 0)
    await ctx.sleep(3)
    name = await ctx.ask("Whose?", as_=str)
    return f"{thought} of {name}"
