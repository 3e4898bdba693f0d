"""Rounds of the bench: in each, every store has its turn, so that a slow minute falls on all of them."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.backends import Backend, opened
from bench.machine import spin
from bench.processes import ProcessFailed
from bench.records import Sample, samples_of
from bench.stage import Stage, Work
from bench.works.calls import Calls
from bench.works.chains import Chains
from bench.works.limits import Limits
from bench.works.lone import Lone
from bench.works.long import Long
from bench.works.overload import Overload
from bench.works.parked import Parked
from bench.works.replicas import Replicas
from bench.works.starts import Starts
from bench.works.talks import Talks
from bench.works.threads import Threads
from bench.works.watch import Watch
from bench.works.wide import Wide
from stepwell_client import StepwellClientError

ROUNDS = 5
WORKS: tuple[Work, ...] = (
    Limits(),
    Chains(),
    Lone(),
    Calls(),
    Wide(),
    Starts(),
    Talks(),
    Long(),
    Watch(),
    Overload(),
    Parked(),
    Threads(),
    Replicas(),
)
"""All works. Those that share a stage's world come first, those that want none beside them after."""
WORK_SECONDS_MAX = 300
FAILURES = (
    *(AssertionError, OSError, TimeoutError, ValueError),
    *(ProcessFailed, StepwellClientError, subprocess.SubprocessError),
)
"""Errors that cost a round of a work, and not the whole bench."""
ON_REQUEST = frozenset({"replicas"})
"""Works that are measured only where they are named."""


def chosen(only: Sequence[str], stores: Sequence[str]) -> list[tuple[Work, Sequence[str]]]:
    """Return the works by their names, each with its stores; no names: those that have goals."""
    works = [
        work for work in WORKS if work.name in only or (not only and work.name not in ON_REQUEST)
    ]
    return [(work, stores or work.stores) for work in works]


async def measured(
    works: Sequence[tuple[Work, Sequence[str]]],
    rounds: int,
    progress: Callable[[str], None],
    failed: list[str],
) -> AsyncIterator[Sample]:
    """Yield the samples of all rounds, as they come; put into `failed` what came to none."""
    stores = list(dict.fromkeys(store for _, own in works for store in own))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-bench-"))
        backends = [stack.enter_context(opened(store, Path(folder))) for store in stores]
        for number in range(rounds):
            first = number % len(backends)
            for backend in [*backends[first:], *backends[:first]]:
                own = [
                    work
                    for work, stores in works
                    if backend.name in stores and not (work.once and number)
                ]
                progress(f"round {number + 1} of {rounds}: {backend.name}")
                async for sample in _round(backend, own, progress, failed):
                    yield sample


async def _round(
    backend: Backend, works: Sequence[Work], progress: Callable[[str], None], failed: list[str]
) -> AsyncIterator[Sample]:
    stage = Stage(backend)
    try:
        for work in works:
            before = spin()
            try:
                async with asyncio.timeout(WORK_SECONDS_MAX):
                    records = await work.measure(stage)
            except FAILURES as failure:
                progress(f"    {work.name:<10}FAILED: {failure!r}")
                failed.append(f"{work.name} on {backend.name}")
                await stage.close()
                continue
            spin_ms = (before + spin()) / 2
            for sample in samples_of(work.name, backend.name, records, spin_ms):
                figures = ", ".join(f"{name} {value:.4g}" for name, value in sample.figures.items())
                progress(f"    {work.name:<10}{figures}  (spin {spin_ms:.1f} ms)")
                yield sample
    finally:
        await stage.close()
