"""The bench's worker: each task answers 1 KiB that doesn't compress, and the times of every step are kept.

At SIGUSR1 it writes the times to a file, and starts over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from bench.plans import gated
from bench.processes import Seen, Step
from stepwell_client import (
    Agent,
    Continue,
    Finish,
    ReflectContext,
    Release,
    Task,
    TaskContext,
    Worker,
)


class _Bench:
    """The agent's functions, and what they have seen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._forget()
        self._paces: dict[str, float] = {}
        """When the first paced task of a run began."""
        self.agent = Agent("bench")
        self.agent.task(self.work)
        self.agent.task("gate")(self.gate)
        self.agent.task("paced")(self.paced)
        self._children: dict[str, list[float]] = {}
        """When the parent of child runs began each of them."""
        self.agent.task("calls")(self.calls)
        self.agent.task("receives")(self.receives)
        self.agent.task("parent")(self.parent)
        self.agent.task("children")(self.children)
        self.agent.reflect(self.reflect)

    async def work(self, ctx: TaskContext) -> bytes:
        """Answer 1 KiB."""
        begun = time.monotonic()
        result = os.urandom(1024)
        step = Step(ctx.run_id, ctx.task_id, ctx.attempt, begun, time.monotonic())
        self._steps.append(step)
        return result

    async def gate(self, ctx: TaskContext) -> bytes:
        """Wait until the bench has opened it."""
        (self._folder / f"at-{ctx.task_id}").touch()
        opened = self._folder / f"gate-{ctx.task_id}"
        while not opened.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.002)
        return b""

    async def paced(self, ctx: TaskContext) -> bytes:
        """End at the moment that the input names: seconds from the begin of the run's first paced task."""
        begun = self._paces.setdefault(ctx.run_id, time.monotonic())
        await asyncio.sleep(begun + ctx.input(float) - time.monotonic())
        return b""

    async def calls(self, ctx: TaskContext) -> bytes:
        """Make so many calls, one after another; where the input says so, hand the step back once, before its end."""
        count, returns = ctx.input(tuple[int, bool])
        for number in range(count):
            begun = time.monotonic()
            await ctx.call("read", _read, number)
            step = Step(ctx.run_id, f"call{number}", ctx.attempt, begun, time.monotonic())
            self._steps.append(step)
        if returns and ctx.attempt == 1:
            raise Release("to come back")
        return b""

    async def receives(self, ctx: TaskContext) -> bytes:
        """Receive so many signals, one after another; the beginning of each attempt is noted."""
        now = time.monotonic()
        self._steps.append(Step(ctx.run_id, ctx.task_id, ctx.attempt, now, now))
        for _ in range(ctx.input(int)):
            await ctx.receive("go")
        return b""

    async def parent(self, ctx: TaskContext) -> bytes:
        """Start so many child runs of one task, each when the one before has ended."""
        begun = self._children.setdefault(ctx.run_id, [])
        for number in range(ctx.input(int)):
            is_new = number >= len(begun)
            if is_new:
                begun.append(time.monotonic())
            await (await ctx.start_child(f"{number}", plan=[Task("t")])).wait()
            if is_new or number == len(begun) - 1:
                step = Step(
                    ctx.run_id, f"child{number}", ctx.attempt, begun[number], time.monotonic()
                )
                self._steps.append(step)
        return b""

    async def children(self, ctx: TaskContext) -> bytes:
        """Start so many child runs of one task at once, and wait for all."""
        numbers = range(ctx.input(int))
        starts = (ctx.start_child(f"{number}", plan=[Task("t")]) for number in numbers)
        for child in await asyncio.gather(*starts):
            await child.wait()
        return b""

    async def reflect(self, ctx: ReflectContext) -> Continue | Finish:
        """Go on, once, with the plan that the run's input describes."""
        return Continue(gated(**ctx.run_input())) if ctx.iteration == 1 else Finish()

    def welcomed(self) -> None:
        """Remember that a server has taken the worker in."""
        self._welcomed.append(time.monotonic())

    def write(self) -> None:
        """Write down what was seen, and forget it."""
        draft = self._folder / "seen.draft"
        seen = Seen(self._steps, self._welcomed, time.monotonic() - self._since)
        self._forget()
        draft.write_bytes(msgspec.json.encode(seen))
        draft.rename(self._folder / "seen.json")

    def _forget(self) -> None:
        self._steps: list[Step] = []
        self._welcomed: list[float] = []
        self._since = time.monotonic()


async def _read(_: int) -> bytes:
    return os.urandom(1024)


class _Welcomes(logging.Handler):
    def __init__(self, bench: _Bench) -> None:
        super().__init__()
        self._bench = bench

    def emit(self, record: logging.LogRecord) -> None:
        if "serves replica" in record.msg:
            self._bench.welcomed()


async def main(target: str, folder: Path) -> None:
    """Serve until SIGTERM."""
    bench = _Bench(folder)
    log = logging.getLogger("stepwell_client.worker")
    log.addHandler(_Welcomes(bench))
    log.setLevel(logging.INFO)
    worker = Worker(bench.agent, target, concurrency=256)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, bench.write)
    serving = asyncio.ensure_future(worker.run())
    loop.add_signal_handler(signal.SIGTERM, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
