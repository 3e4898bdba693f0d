"""A worker as a whole program, until a signal ends it."""

from __future__ import annotations

import asyncio
import signal

from stepwell_client.link.runtime import Runtime
from stepwell_client.worker.worker import Worker

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(worker: Worker, *, grace_seconds: float = 30.0) -> None:
    """Run a worker until SIGTERM or Ctrl-C, then drain it: `asyncio.run(serve(Worker(agent)))`.

    Running steps have `grace_seconds` to end; others are then handed back, which spends no attempt.
    Call it in the main thread. Raises what `Worker.run` raises.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stop.set)
    runtime = Runtime()
    running = runtime.spawn(worker.run(), name="worker")
    stopped = runtime.spawn(stop.wait(), name="signals")
    try:
        await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await worker.drain(grace_seconds)
        await running
    finally:
        stopped.cancel()
        running.cancel()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
