"""The setting that a seed draws: the number of each actor, and the faults of network and store."""

from __future__ import annotations

from typing import NamedTuple

from stepwell_testkit.faults import Faults
from tests.simulation.simulator.network import NetworkFaults
from tests.simulation.simulator.rng import Rng


class Setting(NamedTuple):
    """One simulation, before anything has happened."""

    tenants: tuple[str, ...]
    replicas: int
    workers: int
    runs: int
    """For each tenant; those of two tenants have equal ids."""
    watchers: int
    """For each run."""
    safety_s: float
    """The length of the safety phase, in which faults happen."""
    fault_interval_s: float
    """The mean time between two crashes, stops or breaks; 0: none."""
    network_faults: NetworkFaults
    faults: Faults
    skew_ms_max: int
    """The largest error of the wall clocks of replicas and workers."""
    clock_steps: bool
    """True if the store's clock is set, forth and back."""
    work_ms_max: int
    callers_act: bool
    """True if callers pause, resume and cancel."""


def draw(rng: Rng) -> Setting:
    """Return a setting; a fifth of them are quiet, so that plain errors show plainly."""
    quiet = rng.happens(0.2)
    tenants = ("a", "b", "c")[: rng.pick([1, 1, 1, 1, 1, 1, 2, 2, 2, 3])]
    network_faults = NetworkFaults(delay_ms_max=rng.pick([2, 10, 40]))
    faults = Faults(delay=0.3, delay_ms_max=rng.pick([2, 20, 100]))
    if not quiet:
        network_faults = NetworkFaults(
            loss=rng.pick([0.0, 0.02, 0.1, 0.3]),
            duplication=rng.pick([0.0, 0.1, 0.5]),
            breaks=rng.pick([0.0, 0.01, 0.05]),
            delay_ms_max=rng.pick([2, 10, 40, 200]),
            late=rng.pick([0.0, 0.05]),
        )
        faults = Faults(
            refuse=rng.pick([0.0, 0.02, 0.1]),
            time_out=rng.pick([0.0, 0.05, 0.2]),
            delay=rng.pick([0.1, 0.4]),
            twice=rng.pick([0.0, 0.05]),
            cut=rng.pick([0.0, 0.0, 0.02]),
            delay_ms_max=rng.pick([2, 20, 100, 500]),
            lost_hints=rng.pick([0.0, 0.1, 1.0]),
        )
    return Setting(
        tenants=tenants,
        # Many of everyone is a rare thing, as it costs what several seeds with few do.
        replicas=rng.pick([1, 1, 2, 2, 2, 3, 3, 4]),
        workers=rng.pick([0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8]),
        runs=rng.pick([1, 1, 2, 2, 3] if len(tenants) == 1 else [1, 1, 1, 2]),
        watchers=rng.pick([0, 0, 1, 1, 2]),
        safety_s=rng.pick([4.0, 8.0, 16.0]),
        fault_interval_s=0.0 if quiet else rng.pick([0.0, 0.5, 1.0, 2.0]),
        network_faults=network_faults,
        faults=faults,
        skew_ms_max=rng.pick([0, 50, 3_600_000]),
        clock_steps=not quiet and rng.happens(0.3),
        work_ms_max=rng.pick([50, 400, 2_000]),
        callers_act=rng.happens(0.5),
    )
