"""A worker as a process of its own beside a server: started again when it ends, ended before the server does."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine, Sequence
from typing import Any

from stepwell.cli.exits import Exit
from stepwell.cli.view.text import note
from stepwell.core.port import Runtime

PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 30.0
"""A process that has lived for longer is started again after the shortest pause."""
_SLACK_S = 5.0
"""The time that a draining process gets over its own before it is killed."""
_HOPELESS = (Exit.USAGE, Exit.UNREACHABLE)
"""Exit codes of a worker that a new start doesn't change: its module is not there, its token is refused."""


async def keep_running(
    command: Sequence[str], runtime: Runtime, stop: asyncio.Event, *, drain_seconds: float
) -> int:
    """Run a worker until `stop` is set, then drain it. Started again when it ends by itself, ever later.

    Returns DONE, or the exit code of a first process that could not work.
    """
    pause = PAUSE_MIN_S
    has_lived = False
    while not stop.is_set():
        began = runtime.monotonic()
        # Its own session: a terminal's Ctrl-C must not reach it before the server has asked it to drain. Its standard
        # input ends with this process, however that ends.
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, start_new_session=True)
        await _first_of(runtime, process.wait(), stop.wait())
        if process.returncode is None:
            await _drain(process, drain_seconds)
            break
        if not has_lived and process.returncode in _HOPELESS:
            return process.returncode
        has_lived = True
        if runtime.monotonic() - began > PAUSE_MAX_S:
            pause = PAUSE_MIN_S
        note(f"the worker {_ending(process.returncode)}; it is started again in {pause:g} s")
        await _first_of(runtime, runtime.sleep(pause), stop.wait())
        pause = min(2 * pause, PAUSE_MAX_S)
    return Exit.DONE


async def _drain(process: Process, seconds: float) -> None:
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), seconds + _SLACK_S)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _first_of(runtime: Runtime, *waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first one ends; the others are given up."""
    tasks = [runtime.spawn(one, name="a worker's process") for one in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


def _ending(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
