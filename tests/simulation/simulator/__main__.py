"""`python -m tests.simulation.simulator`: play one seed, or many from one on, on all cores."""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys

from stepwell.runtime import SystemRuntime
from tests.simulation.simulator import Failure, simulate
from tests.simulation.simulator.tally import Tally, play
from tests.simulation.simulator.violation import unchecked

CHUNK = 50
"""The number of seeds that a process plays before it returns their totals."""
MANY = 500
"""The number of seeds from which on each invariant must have been checked."""
PROGRESS_S = 15.0


def main() -> int:
    """Play the seeds; returns 1 if one failed, or if an invariant was never checked."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.simulator")
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print the whole history")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _one(arguments.seed, trace=arguments.trace)
    clock = SystemRuntime()
    began = clock.monotonic()
    tally = _play(arguments.first, arguments.seeds, clock)
    return _report(tally, clock.monotonic() - began)


def _one(seed: int, *, trace: bool) -> int:
    try:
        outcome = simulate(seed)
        lines, end = outcome.lines, f"seed {seed}: {outcome.hash}, {outcome.commits} commits"
        failed = False
    except Failure as failure:
        lines, end, failed = failure.lines, str(failure), True
    sys.stdout.write("\n".join([*(lines if trace else ()), end, ""]))
    return int(failed)


def _play(first: int, count: int, clock: SystemRuntime) -> Tally:
    tally, printed_at = Tally(), clock.monotonic()
    end = first + count
    parts = [range(at, min(at + CHUNK, end)) for at in range(first, end, CHUNK)]
    # New processes, so that nothing of this one's state can change a seed's outcome. Ctrl-C is this
    # one's to handle.
    with multiprocessing.get_context("spawn").Pool(
        initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        for part in pool.imap(play, parts):
            tally.add(part)
            sys.stdout.writelines(f"{text}\n" for text in part.failed)
            if clock.monotonic() - printed_at > PROGRESS_S:
                printed_at = clock.monotonic()
                left = f"--from {first + tally.seeds} --seeds {count - tally.seeds}"
                failed = len(tally.failed)
                sys.stderr.write(f"{tally.seeds:,} seeds, {failed} failed; {left} plays the rest\n")
                sys.stdout.flush()
    return tally


def _report(tally: Tally, took_s: float) -> int:
    for counts in (tally.seen, tally.checks):
        sys.stdout.writelines(f"{count:10,d}  {what}\n" for what, count in sorted(counts.items()))
    rate = tally.seeds / max(took_s, 1e-9)
    sys.stdout.write(
        f"{tally.seeds} seeds, {tally.commits} commits, {took_s:.1f} s, {rate:.0f} seeds/s, "
        f"{len(tally.failed)} failed\n"
    )
    missing = unchecked(tally.checks) if tally.seeds >= MANY else []
    if missing:
        sys.stdout.write(f"error: never checked: {', '.join(missing)}\n")
    return 1 if tally.failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
