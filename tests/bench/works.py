"""Every work of the bench in little: the same code, with sizes that take moments."""

from __future__ import annotations

from bench.stage import Work
from bench.works.calls import Calls
from bench.works.chains import Chains
from bench.works.limits import Limits
from bench.works.lone import Lone
from bench.works.long import Long, Parts
from bench.works.overload import Overload
from bench.works.parked import Parked
from bench.works.replicas import Replicas
from bench.works.starts import Starts
from bench.works.talks import Talks
from bench.works.threads import Threads
from bench.works.watch import Watch
from bench.works.wide import Wide

LITTLE: dict[str, Work] = {
    work.name: work
    for work in (
        Limits(writes=5),
        Chains(runs=2, steps=3),
        Lone(steps=5),
        Calls(runs=2, calls=3, lone=4, entries=5),
        Wide(tasks=8, at_once=4),
        Starts(count=2, tasks=3, large=20),
        Talks(signals=2, in_turn=2, at_once=5),
        Long(tasks=20, early=5, parts=Parts(parts=2, steps=4, rest=60), kill_after_s=0.01),
        Watch(streams=6, steps_per_second=40, seconds=0.5),
        Overload(runs=2, steps=3, settle_s=0.1, seconds=0.3),
        Parked(runs=50, calls=2, rounds=1),
        Threads(threads=20, calls=2, rounds=1),
        Replicas(tasks=10),
    )
}
"""Works by name."""
SHARING = ("chains", "lone", "calls", "wide", "starts", "talks")
"""Works that share the world of their stage."""
