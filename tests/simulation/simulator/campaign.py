"""Many seeds, on several processes: what they came to together, and which of them failed."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import NamedTuple

from tests.simulation.simulator import Failure, simulate

CHUNK = 50
"""The number of seeds that a process plays before it returns their totals."""


class Failed(NamedTuple):
    """A seed that failed."""

    seed: int
    name: str
    """The invariant's."""
    message: str
    text: str
    """All that a person needs: how to replay it, and the dump."""


class Tally:
    """The totals of some seeds."""

    def __init__(self) -> None:
        self.seeds = 0
        self.commits = 0
        self.seen: Counter[str] = Counter()
        """The count of each rare event."""
        self.checks: Counter[str] = Counter()
        """The count of checks of each invariant."""
        self.failed: list[Failed] = []

    def add(self, other: Tally) -> None:
        """Add those of other seeds."""
        self.seeds += other.seeds
        self.commits += other.commits
        self.seen.update(other.seen)
        self.checks.update(other.checks)
        self.failed += other.failed


def play(seeds: range, *, keep_going: bool = True) -> Tally:
    """Play seeds in this process."""
    tally = Tally()
    for seed in seeds:
        tally.seeds += 1
        try:
            outcome = simulate(seed)
        except Failure as failure:
            text = str(failure)
            tally.failed.append(Failed(seed, failure.name, failure.message, text))
            if not keep_going:
                break
            continue
        tally.commits += outcome.commits
        tally.seen.update(outcome.seen)
        tally.checks.update(outcome.checks)
    return tally


def play_on(
    seeds: range,
    jobs: int,
    update: Callable[[Tally, int], None],
    *,
    each: int = CHUNK,
    keep_going: bool = True,
) -> Tally:
    """Play seeds on so many processes.

    `update` is called with the totals so far after each part, and with the first seed that isn't
    played yet: from there on all may be played again.
    """
    tally = Tally()
    parts = (seeds[first : first + each] for first in range(0, len(seeds), each))
    if jobs <= 1:
        for part in parts:
            tally.add(play(part, keep_going=keep_going))
            update(tally, part.stop)
            if tally.failed and not keep_going:
                break
        return tally
    # Processes that begin anew: nothing of this one's state can make a seed come out differently.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_leave_interrupts) as pool:
        try:
            _share_out(pool, parts, 2 * jobs, tally, update, keep_going=keep_going)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise
    tally.failed.sort()
    return tally


def _share_out(
    pool: ProcessPoolExecutor,
    parts: Iterator[range],
    at_once: int,
    tally: Tally,
    update: Callable[[Tally, int], None],
    *,
    keep_going: bool,
) -> None:
    going: dict[Future[Tally], range] = {}
    begun = 0
    while True:
        if keep_going or not tally.failed:
            for part in islice(parts, at_once - len(going)):
                going[pool.submit(play, part, keep_going=keep_going)] = part
                begun = part.stop
        if not going:
            return
        done, _ = wait(going, return_when=FIRST_COMPLETED)
        for future in done:
            del going[future]
            tally.add(future.result())
        update(tally, min((one.start for one in going.values()), default=begun))


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the parent process, which reports it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
