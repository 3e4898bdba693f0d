"""The simulator over many seeds: no invariant breaks, and rare things happen.

A failing seed prints itself, the invariant and how to replay it. What it finds gets a test of its own
in test_regressions.py, because a seed means another history as soon as the simulator changes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from time import perf_counter

import pytest

from tests.simulation.simulator import VirtualLoop, simulate
from tests.simulation.simulator.journals import LATE_ENTRY, REPLAYED, STALE_ENTRY
from tests.simulation.simulator.loop import Spinning, Stalled
from tests.simulation.simulator.rare_events import (
    DEFINED_ANEW,
    GROWN,
    GROWN_OVER_WORK,
    IN_ONE_BATCH,
)
from tests.simulation.simulator.signals import KEPT, REFLECTED, SENT
from tests.simulation.simulator.tally import Tally, play
from tests.simulation.simulator.threads import BECAME_RUN
from tests.simulation.simulator.violation import INVARIANTS, unchecked
from tests.support.proofs.must_happen import SIMULATED
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import chunks

CHUNK = 200
RARE_WITHIN = 300
"""In so many seeds each rare thing happens at least once."""
MODES = ("refuse", "time_out", "delay", "twice", "cut")
"""Faults of a call to the store."""
HAPPENS = (
    *SIMULATED,
    *(IN_ONE_BATCH, DEFINED_ANEW, "caller crashed", "watcher crashed", "watcher left in mid-run"),
    *("EXECUTION_RELEASED", "EXECUTION_TIMED_OUT", "QUESTION_ANSWERED", "LEASE_LOST"),
    *("OUTCOME_UNKNOWN", "OUTCOME_RESOLVED", "PLAN_REJECTED", "RUN_FAILED", "RUN_PAUSED"),
    *("RUN_RESUMED", "TASK_DEDUPLICATED", "MESSAGES_APPENDED", "run forked"),
    *("STEP_SUSPENDED", "STEP_WOKEN", "JOURNAL_RENEWED", "JOURNAL_FORGOTTEN"),
    *("WAIT_OPENED", "SIGNAL_TAKEN", "CHILD_ENDED", KEPT, SENT, REFLECTED, "RUN_LET_GO"),
    *("RUN_STEERED", BECAME_RUN, GROWN, GROWN_OVER_WORK, "GROUP_GATHERED"),
    *(REPLAYED, STALE_ENTRY, LATE_ENTRY, "write_journal:twice", "write_journal:time_out"),
    *("commit:CONFLICT:r0", "commit:CONFLICT:r1", "foreign delivery refused"),
    *(f"{method}:{mode}" for method in ("commit", "claim", "load") for mode in MODES),
    *("commit:cut_before", "commit:cut_off", "commit:cut_after", "hint:cut"),
)
HASHES = (
    "import sys\n"
    "from tests.simulation.simulator import simulate\n"
    "for seed in range(int(sys.argv[1]), int(sys.argv[2])): print(simulate(seed).hash)\n"
)


def kept(tally: Tally, began: float) -> None:
    """Keep a record of what seeds came to."""
    happened = {name: tally.seen[name] for name in HAPPENS}
    checks = sum(tally.checks.values())
    keep(
        Record(
            proof="simulator",
            command="make proof ARGS='-k test_no_invariant_breaks'",
            figures={"seeds": tally.seeds, "commits": tally.commits, "checks": checks},
            happened=happened,
            seconds=perf_counter() - began,
        )
    )
    keep(
        Record(
            proof="simulator, checks of each invariant",
            command="make simulate SEEDS=20000",
            figures={name: tally.checks[name] for name in INVARIANTS},
        )
    )


@pytest.mark.proof(meets=SIMULATED)
@pytest.mark.parametrize("seeds", chunks("seeds", CHUNK), ids=str)
def test_no_invariant_breaks(seeds: range) -> None:
    began = perf_counter()

    tally = play(seeds)

    assert not tally.failed, "\n".join(tally.failed)
    missing = unchecked(tally.checks) if len(seeds) == CHUNK else []
    assert not missing, f"never checked in {len(seeds)} seeds: {missing}"
    kept(tally, began)


def test_rare_things_happen() -> None:
    seen = Counter[str]()
    for seed in range(1_000_000_000, 1_000_000_000 + RARE_WITHIN):
        seen.update(simulate(seed).seen)
        if all(seen[name] for name in HAPPENS):
            return
    missing = sorted(name for name in HAPPENS if not seen[name])
    raise AssertionError(f"never seen in {RARE_WITHIN} seeds: {missing}")


@pytest.mark.proof
@pytest.mark.parametrize("seeds", chunks("seeds twice", 20), ids=str)
def test_D1_same_seed_has_the_same_history_in_every_process(seeds: range) -> None:
    began = perf_counter()
    command = [sys.executable, "-c", HASHES, str(seeds.start), str(seeds.stop)]
    salted = {**os.environ, "PYTHONHASHSEED": str(seeds.start + 1)}
    with subprocess.Popen(command, env=salted, stdout=subprocess.PIPE, text=True) as other:
        outcomes = [simulate(seed) for seed in seeds]
        for outcome in outcomes:
            assert simulate(outcome.seed).lines == outcome.lines
        output, _ = other.communicate()

    assert output.split() == [outcome.hash for outcome in outcomes]
    figures = {"seeds played three times": len(seeds)}
    command_line = "make proof ARGS='-k same_seed'"
    keep(Record("simulator, twice", command_line, figures, seconds=perf_counter() - began))


async def spin() -> None:
    for _ in itertools.count():
        await asyncio.sleep(0)


async def stall() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("work", "error"), [(spin, Spinning), (stall, Stalled)])
def test_L3_loop_that_stalls_or_spins_raises(
    work: Callable[[], Coroutine[None, None, None]], error: type[Exception]
) -> None:
    loop = VirtualLoop()
    task = loop.create_task(work())

    with pytest.raises(error):
        loop.run_until_complete(task)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
