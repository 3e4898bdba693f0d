"""An agent with gates: each stage waits for a file, so that a test decides where a run stands."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from stepwell_client import (
    Agent,
    Continue,
    Finish,
    Plan,
    PlanContext,
    ReflectContext,
    SynthesizeContext,
    Task,
    TaskContext,
)

agent = Agent("system")


async def gate(name: str) -> None:
    """Wait until the test opens it."""
    path = Path(os.environ["SYSTEM_GATES"]) / name
    while not path.exists():  # noqa: ASYNC110 - a file is the one thing that outlives kills
        await asyncio.sleep(0.01)


@agent.plan
async def plan(ctx: PlanContext) -> Plan:
    await gate("plan")
    return Plan(
        [
            Task("left", type="count"),
            Task("right", type="count"),
            Task("sum", type="add", depends_on=["left", "right"]),
        ]
    )


@agent.task("count")
async def count(ctx: TaskContext) -> int:
    await gate(f"task-{ctx.task_id}")
    return len(ctx.task_id)


@agent.task("add")
async def add(ctx: TaskContext) -> int:
    return sum(int(ctx.results[name]) for name in ("left", "right"))


@agent.reflect
async def reflect(ctx: ReflectContext) -> Finish | Continue:
    await gate(f"reflect-{ctx.iteration}")
    if ctx.iteration == 1:
        return Continue(Plan([Task("more", type="count", depends_on=["sum"])]))
    return Finish("enough")


@agent.synthesize
async def synthesize(ctx: SynthesizeContext) -> dict[str, object]:
    await gate("synthesize")
    return {name: ctx.results[name] for name in sorted(ctx.results)}
