"""What a seed draws: how many of everyone, how bad the weather, how the store behaves."""

from __future__ import annotations

from typing import NamedTuple

from stepwell_testkit.faults import Faults
from tests.simulation.simulator.chance import Chance
from tests.simulation.simulator.network import Weather


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
    """How long faults go on."""
    mishaps_s: float
    """The mean time between two crashes, stops or breaks; 0: none."""
    weather: Weather
    faults: Faults
    skew_ms_max: int
    """How wrong the wall clocks of replicas and workers may be."""
    clock_steps: bool
    """Whether somebody sets the store's clock, forth and back."""
    work_ms_max: int
    meddling: bool
    """Whether callers pause, resume and cancel."""


def draw(chance: Chance) -> Setting:
    """Return a setting; a fifth of them are calm, so that plain errors show plainly."""
    calm = chance.happens(0.2)
    tenants = ("a", "b", "c")[: chance.pick([1, 1, 1, 1, 1, 1, 2, 2, 2, 3])]
    weather = Weather(delay_ms_max=chance.pick([2, 10, 40]))
    faults = Faults(delay=0.3, delay_ms_max=chance.pick([2, 20, 100]))
    if not calm:
        weather = Weather(
            loss=chance.pick([0.0, 0.02, 0.1, 0.3]),
            duplication=chance.pick([0.0, 0.1, 0.5]),
            breaks=chance.pick([0.0, 0.01, 0.05]),
            delay_ms_max=chance.pick([2, 10, 40, 200]),
            late=chance.pick([0.0, 0.05]),
        )
        faults = Faults(
            refuse=chance.pick([0.0, 0.02, 0.1]),
            time_out=chance.pick([0.0, 0.05, 0.2]),
            delay=chance.pick([0.1, 0.4]),
            twice=chance.pick([0.0, 0.05]),
            cut=chance.pick([0.0, 0.0, 0.02]),
            delay_ms_max=chance.pick([2, 20, 100, 500]),
            lost_hints=chance.pick([0.0, 0.1, 1.0]),
        )
    return Setting(
        tenants=tenants,
        # Many of everyone is a rare thing, as it costs what several seeds with few do.
        replicas=chance.pick([1, 1, 2, 2, 2, 3, 3, 4]),
        workers=chance.pick([0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8]),
        runs=chance.pick([1, 1, 2, 2, 3] if len(tenants) == 1 else [1, 1, 1, 2]),
        watchers=chance.pick([0, 0, 1, 1, 2]),
        safety_s=chance.pick([4.0, 8.0, 16.0]),
        mishaps_s=0.0 if calm else chance.pick([0.0, 0.5, 1.0, 2.0]),
        weather=weather,
        faults=faults,
        skew_ms_max=chance.pick([0, 50, 3_600_000]),
        clock_steps=not calm and chance.happens(0.3),
        work_ms_max=chance.pick([50, 400, 2_000]),
        meddling=chance.happens(0.5),
    )
