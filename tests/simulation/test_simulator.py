"""The simulator over many seeds: no invariant breaks, rare things happen, and it has teeth.

A failing seed prints itself, the invariant and how to replay it. What it finds gets a test of its own
in test_found.py, because a seed means another history as soon as the simulator changes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import subprocess
import sys

import pytest

from stepwell.testing.simulator import Failure, VirtualLoop, simulate
from stepwell.testing.simulator.loop import Spinning, Stalled
from stepwell.testing.simulator.planted import BUGS, planted

SEEDS = 500
CHUNK = 25
CAUGHT_BY = {
    "fence-dropped": {"S8"},
    "acknowledged-before-commit": {"S3"},
    "attempt-counted-late": {"S12"},
    "cursor-skips": {"E3"},
    "another-commit-id": {"S4"},
    "answers-without-looking": {"S8", "L2", "L3", "S16"},
}
MUST_HAPPEN = (
    "EXECUTION_RELEASED",
    "EXECUTION_TIMED_OUT",
    "INPUT_ANSWERED",
    "LEASE_LOST",
    "OUTCOME_UNKNOWN",
    "PLAN_REJECTED",
    "RUN_FAILED",
    "RUN_PAUSED",
    "RUN_RESUMED",
    "cancel in EXECUTING with leases",
    "commit:CONFLICT:r0",
    "commit:CONFLICT:r1",
    "commit:twice",
    "commit:unknown_applied",
    "commit:unknown_not_applied",
    "commit_id seen again",
    "run forked",
    "foreign delivery refused",
    "hint:lost",
    "stale result refused",
    "watcher left in mid-run",
)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_invariant_breaks(first: int) -> None:
    for seed in range(first, first + CHUNK):
        simulate(seed)


def test_rare_things_happen() -> None:
    missing = set(MUST_HAPPEN)
    for seed in range(1_000, 1_150):
        missing -= {name for name, count in simulate(seed).seen.items() if count}
        if not missing:
            return
    raise AssertionError(f"never seen in 150 seeds: {sorted(missing)}")


def test_the_same_seed_gives_the_same_history() -> None:
    for seed in range(20):
        once, again = simulate(seed), simulate(seed)
        assert once.lines == again.lines
        assert once.hash == again.hash


def test_the_same_seed_gives_the_same_history_in_another_process() -> None:
    command = [sys.executable, "-m", "stepwell.testing.simulator", "--seed", "6"]
    hashes = {simulate(6).hash}
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        hashes |= set(re.findall(r"^seed 6: (\w+)", told.stdout, re.MULTILINE))
    assert len(hashes) == 1


def first_failure(bug: str, seeds: range) -> Failure:
    for seed in seeds:
        try:
            with planted(bug):
                simulate(seed)
        except Failure as failure:
            return failure
    raise AssertionError(f"{bug} went unnoticed for {len(seeds)} seeds")


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught_by_a_named_invariant(bug: str) -> None:
    failure = first_failure(bug, range(60))

    assert failure.name in CAUGHT_BY[bug], failure
    assert f"--seed {failure.seed}\n" in str(failure)
    simulate(failure.seed)  # without the bug the same seed holds


def test_virtual_time_passes_at_once() -> None:
    loop = VirtualLoop()

    async def wait() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3_600):
                await asyncio.Event().wait()
        await asyncio.sleep(86_400)
        return loop.time()

    assert loop.run_until_complete(wait()) == pytest.approx(90_000)
    loop.close()


def test_a_stalled_simulation_says_so() -> None:
    loop = VirtualLoop()
    task = loop.create_task(asyncio.Event().wait())

    with pytest.raises(Stalled):
        loop.run_until_complete(task)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_a_spinning_simulation_says_so() -> None:
    loop = VirtualLoop()

    async def spin() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    task = loop.create_task(spin())
    with pytest.raises(Spinning):
        loop.run_until_complete(task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
