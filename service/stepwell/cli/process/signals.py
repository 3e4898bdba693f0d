"""SIGTERM and Ctrl-C: the first one asks a process to end, the second one ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

from stepwell.cli.exits import Exit

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping(*, with_input: bool = False) -> Generator[asyncio.Event]:
    """Return an event of the running loop that is set by the first signal; `with_input`: by the end of standard input, too.

    The second one ends the process at once, as `kill -9` would: nothing that was acknowledged is
    lost by that.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(Exit.INTERRUPTED)
        stop.set()

    def on_input() -> None:
        if not os.read(sys.stdin.fileno(), 4_096):
            loop.remove_reader(sys.stdin)
            on_signal()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)
    if with_input:
        loop.add_reader(sys.stdin, on_input)
    try:
        yield stop
    finally:
        if with_input:
            loop.remove_reader(sys.stdin)
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
