"""The bench's worker: each task answers 1 KiB that doesn't compress.

For every run it times how long a step takes to come: from the moment one step's outcome was made to
the start of the next step of the same run, durable commit and lease included.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from stepwell_client import Agent, TaskContext, Worker

agent = Agent("bench")
_ended: dict[str, float] = {}
_times: list[float] = []


@agent.task
async def work(ctx: TaskContext) -> bytes:
    before = _ended.get(ctx.run_id)
    if before is not None:
        _times.append(time.perf_counter() - before)
    result = os.urandom(1024)
    _ended[ctx.run_id] = time.perf_counter()
    return result


async def main(target: str, out: Path) -> None:
    worker = Worker(agent, target, concurrency=256)
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGUSR1, lambda: (out.write_text(json.dumps(_times)), _times.clear())
    )
    serving = asyncio.ensure_future(worker.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
