"""An agent whose tasks take a moment, or until the test opens a gate."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

from stepwell_client import Agent, Done, Effect, Failure, TaskContext

GATES = "REPLICA_GATES"
CALLS = "calls"
"""The file beside the gates in which calls are noted."""

BULKY_ATTEMPTS = 12
BULKY_CHARS = 60_000

agent = Agent("replicas")


@agent.task("quick")
async def quick(ctx: TaskContext) -> dict[str, object]:
    await asyncio.sleep(0.02)
    return {"task": ctx.task_id, "attempt": ctx.attempt, "saw": sorted(ctx.results)}


@agent.task("alone")
async def alone(ctx: TaskContext) -> None:
    """Note the run of another such step that runs at the same time, in any process; a killed process has none."""
    gates = Path(os.environ[GATES])
    with (gates / "alone").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(ctx.run_id)
            lock.flush()
        except BlockingIOError:
            other = (gates / "alone").read_text()
            (gates / f"overlap {other} {ctx.run_id}").touch()
        await asyncio.sleep(0.05)


@agent.task("signed")
async def signed(ctx: TaskContext) -> dict[str, object]:
    """Tell who did it: nobody else's result is the same."""
    await asyncio.sleep(0.1)
    return {"run": ctx.run_id, "task": ctx.task_id, "attempt": ctx.attempt}


@agent.task("refused")
async def refused(ctx: TaskContext) -> None:
    await asyncio.sleep(0.1)
    raise Failure(f"{ctx.task_id} can't be done", retryable=False)


@agent.task("gated")
async def gated(ctx: TaskContext) -> dict[str, object]:
    gate = Path(os.environ[GATES]) / "gate"
    while not gate.exists():  # noqa: ASYNC110 - a file is the one thing that outlives kills
        await asyncio.sleep(0.05)
    return {"task": ctx.task_id, "attempt": ctx.attempt}


@agent.task("together")
async def together(ctx: TaskContext) -> None:
    """Wait until another worker has a task of this run, too."""
    gates = Path(os.environ[GATES])
    (gates / f"{ctx.run_id}.{os.getpid()}").touch()
    while len([*gates.glob(f"{ctx.run_id}.*")]) < 2:  # noqa: ASYNC110, ASYNC240 - as above
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.02)


@agent.task("instant")
async def instant(ctx: TaskContext) -> bytes:
    return os.urandom(1024)


@agent.task("bulky")
async def bulky(ctx: TaskContext) -> None:
    """Fail again and again, with as much to say as is kept."""
    if ctx.attempt < BULKY_ATTEMPTS:
        raise Failure(f"{ctx.attempt} " + "x" * BULKY_CHARS)


@agent.task("fragile")
async def fragile(ctx: TaskContext) -> int:
    """Fail as often as the run is resumed before its third time."""
    if ctx.attempt < 3:
        raise Failure(f"not at attempt {ctx.attempt}")
    return ctx.attempt


@agent.task("calls")
async def calls(ctx: TaskContext) -> str:
    """Make calls of all kinds, forget one, sleep and ask; note which functions run, and what was kept."""

    def note(what: str, key: str, value: str = "-") -> None:
        with (Path(os.environ[GATES]) / CALLS).open("a") as file:
            file.write(f"{ctx.run_id} {ctx.task_id} {ctx.attempt} {what} {key} {value}\n")

    async def make(key: str) -> str:
        note("ran", key)
        ctx.usage(input_tokens=1)
        await asyncio.sleep(0.03)
        return uuid4().hex

    async def call(key: str, **how: Any) -> None:
        note("kept", key, await ctx.call("make", make, key, key=key, **how))

    await call("first")
    await call(
        "once", effect=Effect.AT_MOST_ONCE, reconcile=lambda _begin: Done("found-by-reconcile")
    )
    await call("dropped")
    note("forgets", "dropped")
    await ctx.forget("dropped")
    note("forgot", "dropped")
    await call("dropped")
    await ctx.sleep(2.5)
    await call("rested")
    answer = await ctx.ask("Who?", as_=str)
    await call("last")
    return answer
