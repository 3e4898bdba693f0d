"""Workloads of runs that get signals, which calls wait for or which make them reflect; the draw of any workload."""

from __future__ import annotations

from stepwell.core.records.model import Budget
from stepwell.core.records.states import Decision
from tests.simulation.simulator import workloads
from tests.simulation.simulator.rng import Rng
from tests.simulation.simulator.workloads import (
    BOTH,
    SIGNALS,
    Workload,
    chain,
    diamond,
    fan,
    task,
    with_behaviours,
)


def draw(rng: Rng) -> Workload:
    """Return a workload of any kind."""
    # Streams of their own: what else a seed plays stays as it is.
    if rng.stream("waits").happens(0.07):
        return waiting(rng)
    return steered(rng) if rng.stream("steered").happens(0.03) else workloads.draw(rng)


def steered(rng: Rng) -> Workload:
    """Signals make it reflect before its tasks are settled."""
    first = with_behaviours(rng, fan("u", rng.between(3, 6)), "slow", "flaky:1")
    again = [Decision.CONTINUE, Decision.REPLAN, Decision.FINISH]
    return Workload(
        name="steered",
        plans=(first, (*first[:2], *chain("v", 2)), diamond("w")),
        decisions=(rng.pick(again), rng.pick(again)),
        stages=BOTH,
        by_caller=rng.happens(0.7),
        max_parallel=rng.between(1, 3),
        waits=True,
        reflect_on=SIGNALS[:1],
    )


def waiting(rng: Rng) -> Workload:
    """Tasks wait for signals, people and child runs while they run."""
    names = [f"s{index}" for index in range(rng.between(1, 2))]
    first = tuple(task(name, behaviour=f"waits:{rng.between(2, 4)}") for name in names)
    last = task("send", *names, behaviour=rng.pick(["", "waits:1"]))
    budget = Budget(input_tokens=rng.pick([0, 0, 12]))
    plans = ((*first, last),)
    return Workload(name="waits", plans=plans, by_caller=True, budget=budget, waits=True)
