"""`python -m tests.simulation.simulator`: play one seed, or many from one on, on all cores."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from stepwell.runtime import SystemRuntime
from tests.simulation.simulator import Failure, simulate
from tests.simulation.simulator.campaign import Failed, Tally, play_on
from tests.simulation.simulator.invariants import TABLE, unchecked

MANY = 500
"""The number of seeds from which on each invariant must have been checked."""
PROGRESS_S = 15.0


def main() -> int:
    """Play the seeds; returns 1 if one failed, or if an invariant was never checked."""
    arguments = _parser().parse_args()
    if arguments.seed is not None:
        return _one(arguments.seed, trace=arguments.trace)
    progress = _Progress(arguments.first, arguments.seeds, arguments.failures)
    try:
        tally = play_on(
            range(arguments.first, arguments.first + arguments.seeds),
            arguments.jobs,
            progress.update,
            keep_going=arguments.keep_going,
        )
    except KeyboardInterrupt:
        sys.stdout.write(f"stopped; {progress.left()}\n")
        return 130
    return _report(tally, progress.seconds())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.simulator")
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="processes; default: one for each core",
    )
    parser.add_argument("--trace", action="store_true", help="with --seed: print the whole history")
    parser.add_argument("--keep-going", action="store_true", help="play on after a failure")
    parser.add_argument("--failures", type=Path, help="add the seeds that fail to this file")
    return parser


def _one(seed: int, *, trace: bool) -> int:
    try:
        outcome = simulate(seed)
    except Failure as failure:
        if trace:
            sys.stdout.write("\n".join(failure.lines) + "\n")
        sys.stdout.write(f"{failure}\n")
        return 1
    if trace:
        sys.stdout.write("\n".join(outcome.lines) + "\n")
    sys.stdout.write(f"seed {seed}: {outcome.hash}, {outcome.commits} commits\n")
    return 0


class _Progress:
    """Prints failures at once, and the progress now and then."""

    def __init__(self, first: int, count: int, failures: Path | None) -> None:
        self._clock = SystemRuntime()
        self._began = self._printed = self._clock.monotonic()
        self._end = first + count
        self._count = count
        self._next = first
        self._failures = failures
        self._failed: set[int] = set()

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return self._clock.monotonic() - self._began

    def left(self) -> str:
        """Return what plays the seeds that are left."""
        return f"--from {self._next} --seeds {self._end - self._next} plays the rest"

    def update(self, tally: Tally, not_yet: int) -> None:
        """Note how far it is."""
        self._next = not_yet
        for failed in tally.failed:
            if failed.seed not in self._failed:
                self._failed.add(failed.seed)
                self._print_failure(failed)
        now = self._clock.monotonic()
        if now - self._printed < PROGRESS_S:
            return
        self._printed = now
        rate = tally.seeds / (now - self._began)
        to_go_s = (self._count - tally.seeds) / rate
        sys.stderr.write(
            f"{tally.seeds:,} of {self._count:,} seeds, {rate:.0f}/s, {len(tally.failed)} failed, "
            f"{to_go_s / 60:.0f} min to go; {self.left()}\n"
        )
        sys.stderr.flush()

    def _print_failure(self, failed: Failed) -> None:
        sys.stdout.write(f"{failed.text}\n")
        sys.stdout.flush()
        if self._failures is not None:
            with self._failures.open("a", encoding="utf-8") as kept:
                kept.write(f"{failed.seed} {failed.name} {failed.message}\n")


def _report(tally: Tally, took_s: float) -> int:
    for what, count in sorted(tally.seen.items()):
        sys.stdout.write(f"{count:10,d}  {what}\n")
    for one in TABLE:
        how = f"{tally.checks[one.name]:10,d}  {one.name:8s}" if one.checked_by else f"{'':20s}"
        where = one.checked_by or f"{one.name}: elsewhere: {one.elsewhere}"
        sys.stdout.write(f"{how}{where}\n")
    rate = tally.seeds / max(took_s, 1e-9)
    sys.stdout.write(
        f"{tally.seeds} seeds, {tally.commits} commits, {took_s:.1f} s, {rate:.0f} seeds/s, "
        f"{len(tally.failed)} failed\n"
    )
    for failed in tally.failed:
        sys.stdout.write(f"seed {failed.seed}: {failed.name}: {failed.message}\n")
    missing = unchecked(tally.checks) if tally.seeds >= MANY else []
    if missing:
        sys.stdout.write(f"error: never checked: {', '.join(missing)}\n")
    return 1 if tally.failed or missing else 0


if __name__ == "__main__":
    sys.exit(main())
