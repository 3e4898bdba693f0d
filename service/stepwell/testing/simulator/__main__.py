"""`python -m stepwell.testing.simulator --seed N`: play one seed, or many from one on."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from stepwell.runtime import SystemRuntime
from stepwell.testing.simulator import Failure, simulate
from stepwell.testing.simulator.planted import BUGS, planted


def main() -> int:
    """Play the seeds; returns 1 at the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m stepwell.testing.simulator")
    parser.add_argument("--seed", type=int, help="play this one only")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seeds", type=int, default=500, help="how many")
    parser.add_argument("--trace", action="store_true", help="print the whole history")
    parser.add_argument("--keep-going", action="store_true", help="play on after a failure")
    parser.add_argument("--planted", choices=sorted(BUGS), help="with this defect planted")
    given = parser.parse_args()
    first = given.first if given.seed is None else given.seed
    last = first + (given.seeds if given.seed is None else 1)
    clock = SystemRuntime()
    began = clock.monotonic()
    seen: Counter[str] = Counter()
    failed: list[Failure] = []
    commits = 0
    for seed in range(first, last):
        try:
            with planted(given.planted):
                outcome = simulate(seed)
        except Failure as failure:
            sys.stdout.write(f"{failure}\n")
            failed.append(failure)
            if not given.keep_going:
                return 1
            continue
        seen += outcome.seen
        commits += outcome.commits
        if given.trace:
            sys.stdout.write("\n".join(outcome.lines) + "\n")
        if given.seed is not None:
            sys.stdout.write(f"seed {seed}: {outcome.hash}, {outcome.commits} commits\n")
    took_s = clock.monotonic() - began
    for what, count in sorted(seen.items()):
        sys.stdout.write(f"{count:8d}  {what}\n")
    sys.stdout.write(
        f"{last - first} seeds, {commits} commits, {took_s:.1f} s, "
        f"{(last - first) / max(took_s, 1e-9):.0f} seeds/s, {len(failed)} failed\n"
    )
    for failure in failed:
        sys.stdout.write(f"seed {failure.seed}: {failure.name}: {failure.message}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
