"""A worker as a whole program, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
from functools import partial
from typing import Any

from stepwell_client.link.runtime import Runtime
from stepwell_client.worker.worker import Worker

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger("stepwell_client.worker")


async def serve(worker: Worker, *, grace_seconds: float = 30.0) -> None:
    """Run a worker until SIGTERM or Ctrl-C, then drain it: `asyncio.run(serve(Worker(agent)))`.

    Running steps have `grace_seconds` to end; others are then handed back, which spends no attempt.
    A signal that the host program has a handler for is left to it, and so are all signals in another
    thread than the main one, and on Windows: the host calls `Worker.drain`, or cancels this.
    Raises what `Worker.run` raises.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    taken = _take_signals(loop, stop)
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
        for number, handler in taken.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _take_signals(
    loop: asyncio.AbstractEventLoop, stop: asyncio.Event
) -> dict[signal.Signals, Any]:
    """Have the free signals set the event; return them with their handlers before."""
    taken: dict[signal.Signals, Any] = {}
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        # `asyncio.run` has one for SIGINT, which cancels.
        is_free = handler in (signal.SIG_DFL, signal.default_int_handler)
        if is_free or (isinstance(handler, partial) and "Runner." in str(handler.func)):
            try:
                loop.add_signal_handler(number, stop.set)
            except (NotImplementedError, RuntimeError, ValueError):
                continue
            taken[number] = handler
    if len(taken) < len(_SIGNALS):
        left = ", ".join(number.name for number in _SIGNALS if number not in taken)
        _log.info("%s: left to the host program, which ends this worker by drain", left)
    return taken
