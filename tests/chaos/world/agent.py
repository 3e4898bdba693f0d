"""An agent whose tasks take a moment, or until the test opens a gate."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

from stepwell_client import Agent, Done, Effect, Failure, Retry, Task, TaskContext

GATES = "REPLICA_GATES"
CALLS = "calls"
"""The file beside the gates in which calls are noted."""

LETTERS = "letters"
"""The file in which the tasks of child runs and of threads note their calls."""
CHILDREN, SIGNALS, STEERS = 2, 3, 2
"""The numbers of child runs of a `lead`, of the signals to each, and of the steers that a `turn` waits for."""

BULKY_ATTEMPTS = 12
BULKY_CHARS = 60_000

agent = Agent("replicas")


class Notes:
    """Notes of a step, in a file beside the gates, on which functions run and which values are kept."""

    def __init__(self, ctx: TaskContext, file: str) -> None:
        self._ctx = ctx
        self._path = Path(os.environ[GATES]) / file

    def note(self, what: str, key: str, value: str = "-") -> None:
        ctx = self._ctx
        with self._path.open("a") as file:
            file.write(f"{ctx.run_id} {ctx.task_id} {ctx.attempt} {what} {key} {value}\n")

    async def make(self, key: str) -> str:
        self.note("ran", key)
        self._ctx.usage(input_tokens=1)
        await asyncio.sleep(0.03)
        return uuid4().hex

    async def call(self, key: str, **how: Any) -> None:
        self.note("kept", key, await self._ctx.call("make", self.make, key, key=key, **how))


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
    notes = Notes(ctx, CALLS)
    note, call = notes.note, notes.call
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


@agent.task("lead")
async def lead(ctx: TaskContext) -> list[list[int]]:
    """Start child runs, send signals to each, and return what each received."""
    retry = Retry(max_attempts=100, max_losses=100, initial_backoff=0.01, max_backoff=0.1)
    plan = [Task("t0", "follow", retry=retry)]
    children = [await ctx.start_child(plan=plan, key=f"child {n}") for n in range(CHILDREN)]
    for number in range(SIGNALS):
        for child in children:
            await child.signal("note", number)
    return [(await child.result())["t0"] for child in children]


@agent.task("follow")
async def follow(ctx: TaskContext) -> list[int]:
    """Receive signals, and make a call after each."""
    notes = Notes(ctx, LETTERS)
    received: list[int] = []
    for number in range(SIGNALS):
        received.append(await ctx.receive("note", as_=int))
        await notes.call(f"work{number}")
    return received


@agent.task("turn")
async def turn(ctx: TaskContext) -> list[str]:
    """Make two calls; return the goals of this run, and of the starts that a run with the goal `steered` waits for."""
    notes = Notes(ctx, LETTERS)
    goals: list[Any] = [ctx.goal]
    await notes.call("first")
    waited = STEERS if ctx.goal == "steered" else 0
    goals += [
        (await ctx.receive("steer", as_=dict[str, str | None]))["goal"] for _ in range(waited)
    ]
    await notes.call("last")
    return goals
