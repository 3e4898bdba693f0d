"""An agent whose tasks take a moment."""

from __future__ import annotations

import asyncio

from stepwell_client import Agent, TaskContext

agent = Agent("quick")


@agent.task("count")
async def count(ctx: TaskContext) -> dict[str, object]:
    await asyncio.sleep(0.02)
    return {"task": ctx.task_id, "attempt": ctx.attempt, "saw": sorted(ctx.results)}
