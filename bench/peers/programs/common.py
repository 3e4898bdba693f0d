"""The work that every peer does, and how it is timed.

Only the standard library is used: the programs here run in `.venv-peers`, which has no part of Stepwell.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import NamedTuple

WARM_RUNS, WARM_STEPS = 4, 10


class Asked(NamedTuple):
    """The sizes, and where the state goes."""

    url: str
    folder: str
    runs: int
    steps: int
    lone: int


class Book:
    """Times of the steps that this process has done."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float]] = []
        self.ended: list[float] = []

    def work(self) -> str:
        """Do a step: its result is 1 KiB of text that hardly compresses."""
        begun = time.monotonic()
        result = base64.b64encode(os.urandom(768)).decode()
        self.steps.append((begun, time.monotonic()))
        return result

    def end(self) -> None:
        """Note that a run has done its last step, with all that the peer commits for it."""
        self.ended.append(time.monotonic())


Play = Callable[[int, int], Awaitable[None]]
"""Starts so many runs of so many steps at once, and returns when all have ended."""


def asked() -> Asked:
    """Return what the bench asks for."""
    return Asked(**json.loads(sys.argv[1]))


async def timed(size: Asked, book: Book, play: Play) -> None:
    """Play both works after a small one to warm up, and print the figures."""
    await play(WARM_RUNS, WARM_STEPS)
    book.ended.clear()
    begun = time.monotonic()
    await play(size.runs, size.steps)
    seconds = max(book.ended) - begun
    book.steps.clear()
    await play(1, size.lone)
    between = sorted(after[0] - before[1] for before, after in pairwise(book.steps))
    figures = {
        "steps_per_second": size.runs * size.steps / seconds,
        "p50_ms": between[len(between) // 2] * 1e3,
        "p99_ms": between[int(len(between) * 0.99)] * 1e3,
    }
    print(json.dumps(figures), flush=True)
