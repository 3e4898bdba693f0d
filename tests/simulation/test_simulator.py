"""The simulator over many seeds: no invariant breaks, and rare things happen.

A failing seed prints itself, the invariant and how to replay it. What it finds gets a test of its own
in test_found.py, because a seed means another history as soon as the simulator changes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from time import perf_counter

import pytest

from tests.mutants.others import counted_tokens
from tests.simulation.simulator import Failure, Ports, Rng, VirtualLoop, simulate
from tests.simulation.simulator.campaign import Tally, play, play_on
from tests.simulation.simulator.clock import ServerClock
from tests.simulation.simulator.invariants import TABLE, unchecked
from tests.simulation.simulator.loop import Spinning, Stalled
from tests.simulation.simulator.rare_events import DEFINED_ANEW, IN_ONE_BATCH
from tests.simulation.simulator.setting import draw
from tests.support.proofs.must_happen import SIMULATED
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import chunks

CHUNK = 200
RARE_WITHIN = 300
"""In so many seeds each rare thing happens at least once."""
HAPPENS = (
    *SIMULATED,
    *(IN_ONE_BATCH, DEFINED_ANEW, "caller crashed", "watcher crashed", "watcher left in mid-run"),
    *("EXECUTION_RELEASED", "EXECUTION_TIMED_OUT", "INPUT_ANSWERED", "LEASE_LOST"),
    *("OUTCOME_UNKNOWN", "OUTCOME_RESOLVED", "PLAN_REJECTED", "RUN_FAILED", "RUN_PAUSED"),
    *("RUN_RESUMED", "TASK_DEDUPLICATED", "MESSAGES_APPENDED", "run forked"),
    *("commit:CONFLICT:r0", "commit:CONFLICT:r1", "commit:twice", "foreign delivery refused"),
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
            figures={one.name: tally.checks[one.name] for one in TABLE if one.checked_by},
        )
    )


@pytest.mark.proof(meets=SIMULATED)
@pytest.mark.parametrize("seeds", chunks("seeds", CHUNK), ids=str)
def test_no_invariant_breaks(seeds: range) -> None:
    began = perf_counter()

    tally = play(seeds)

    assert not tally.failed, "\n".join(one.text for one in tally.failed)
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


def test_seeds_have_the_same_totals_on_any_number_of_processes() -> None:
    progress: list[int] = []
    seeds = range(40, 55)

    alone = play(seeds)
    together = play_on(seeds, 2, lambda _, not_yet: progress.append(not_yet), each=4)

    assert together.seen == alone.seen
    assert together.checks == alone.checks
    assert (together.seeds, together.commits) == (alone.seeds, alone.commits)
    assert progress[-1] == seeds.stop


def test_failing_seed_prints_its_replay_once_and_dumps_the_rows(
    capfd: pytest.CaptureFixture[str],
) -> None:
    failure = first_failure(range(60), Ports(runtime=counted_tokens))

    text = str(failure)

    assert text.count("replay: python -m tests.simulation.simulator --seed ") == 1
    assert f"--seed {failure.seed}\n" in text
    for part in ("runs:", "    task ", "    execution ", "    event ", "history (its end):"):
        assert part in text
    assert capfd.readouterr().out == ""


def first_failure(seeds: range, ports: Ports) -> Failure:
    for seed in seeds:
        try:
            simulate(seed, ports=ports)
        except Failure as failure:
            return failure
    raise AssertionError(f"nothing failed in {len(seeds)} seeds")


def test_L3_deadline_set_before_a_clock_step_back_may_be_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One replica, and a clock that is often set.
    setting = draw(Rng("stepwell 28299").stream("setting"))
    seed = 566
    simulate(seed, setting=setting)

    # It is the clock that explains it, and nothing else.
    monkeypatch.setattr(ServerClock, "behind_s", 0.0)
    with pytest.raises(Failure, match="L3"):
        simulate(seed, setting=setting)


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


def test_abandoned_generator_is_closed() -> None:
    loop, closed = VirtualLoop(), list[float]()

    async def count_up() -> AsyncGenerator[int, None]:
        try:
            for number in itertools.count():
                yield number
        finally:
            closed.append(loop.time())

    async def leave() -> None:
        assert await anext(count_up()) == 0
        await asyncio.sleep(1)

    loop.run_until_complete(leave())
    loop.close()

    assert closed == [0.0]


def test_stalled_loop_raises() -> None:
    loop = VirtualLoop()
    task = loop.create_task(asyncio.Event().wait())

    with pytest.raises(Stalled):
        loop.run_until_complete(task)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_spinning_loop_raises() -> None:
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
