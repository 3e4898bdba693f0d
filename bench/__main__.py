"""`make bench`: steps per second, CPU per step and latency of this checkout on this machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from bench import parked, replicas, scenarios
from bench.backends import NAMES, Backend, opened
from bench.limits import fsync_per_second
from stepwell_client import Task

SCENARIOS = ("steps", "growth", "resume", "parked", "replicas")
WIDE = "64 runs of 50 steps each"


def write(text: str) -> None:
    """Print at once, so that long work shows progress."""
    print(text, flush=True)


async def main() -> None:
    """Run the scenarios that were asked for, on one store after the other."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    known = ", ".join(NAMES)
    parser.add_argument("--store", default="sqlite", help=f"some of: {known}; grpc:NAME; all")
    parser.add_argument("--only", default="steps,growth,resume", help=", ".join(SCENARIOS))
    parser.add_argument("--parked", type=int, default=100_000, help="how many runs wait at most")
    options = parser.parse_args()
    only = set(options.only.split(","))
    unknown = only - set(SCENARIOS)
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; known: {', '.join(SCENARIOS)}")
    stores = NAMES if options.store == "all" else options.store.split(",")
    speeds: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as top:
        folder = Path(top)
        load = os.getloadavg()[0]
        write(f"{os.cpu_count()} cores, load {load:.1f}; {fsync_per_second(folder):.0f} fsyncs/s")
        for name in stores:
            with opened(name, folder) as backend:
                write(f"\n=== {name}; results of 1 KiB that don't compress")
                for limit in backend.limits:
                    write(f"    {limit}")
                if "steps" in only:
                    speeds[name] = await _steps(backend)
                if "growth" in only:
                    write("\nDoes a step cost more as its run grows?")
                    with backend.fresh() as (place, own):
                        await scenarios.growth(place, own, write)
                if "resume" in only and backend.keeps:
                    write("\nkill -9 of the server at step 800 of 1,000")
                    with backend.fresh() as (place, own):
                        await scenarios.resume(place.url, own, write)
                if "parked" in only and backend.keeps:
                    write("\nDo parked runs cost those that move?")
                    with backend.fresh() as (place, own):
                        await parked.parked(place, own, write, most=options.parked)
                if "replicas" in only and name in replicas.SHARED:
                    write("\nOne run on three replicas, and on one")
                    await replicas.compare(name, write)
    _compare(speeds)


async def _steps(backend: Backend) -> float:
    write("\n" + scenarios.HEADER)
    speed = 0.0
    for name, runs, plan in (
        ("one run of 200 steps in a row", 1, scenarios.chain(200)),
        (WIDE, 64, scenarios.chain(50)),
        ("one run of 500 tasks, 32 at once", 1, [Task(f"t{n}") for n in range(500)]),
    ):
        with backend.fresh() as (place, own):
            figures = await scenarios.measure(place.url, own, runs, plan)
        write(figures.line(name))
        if name == WIDE:
            speed = figures.steps / figures.seconds
    return speed


def _compare(speeds: dict[str, float]) -> None:
    """Write what a Store service between costs, and how the stores compare."""
    if len(speeds) < 2:
        return
    base = next(iter(speeds))
    write(f"\n{WIDE}, beside {base}")
    for name, speed in speeds.items():
        behind = speeds.get(name.removeprefix("grpc:"), 0.0) if name.startswith("grpc:") else 0.0
        share = f"   {speed / behind:.0%} of its backend" if behind else ""
        write(f"  {name:<20}{speed:>9.0f} steps/s{speed / speeds[base]:>8.2f} ×{share}")


if __name__ == "__main__":
    asyncio.run(main())
