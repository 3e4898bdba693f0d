"""`make bench`: steps per second, CPU per step and latency of this checkout on this machine."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from bench import scenarios
from stepwell_client import Task


def say(text: str) -> None:
    """Print at once, so that long work shows progress."""
    print(text, flush=True)


async def main() -> None:
    """Run the scenarios that were asked for."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--store", default="sqlite", help="sqlite or memory")
    parser.add_argument(
        "--only", default="steps,growth,resume", help="some of: steps, growth, resume"
    )
    options = parser.parse_args()
    only = set(options.only.split(","))
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as top:
        folder = Path(top)
        load = os.getloadavg()[0]
        say(
            f"{os.cpu_count()} cores, load {load:.1f}; {scenarios.fsync_per_second(folder):.0f} fsyncs/s"
        )
        say(f"store: {options.store}; results of 1 KiB that don't compress")

        def fresh(name: str) -> tuple[str, Path, Path]:
            own = folder / name
            own.mkdir()
            path = own / "bench.db"
            url = "memory://" if options.store == "memory" else f"sqlite:///{path}"
            return url, own, path

        if "steps" in only:
            say("\n" + scenarios.HEADER)
            wide = [Task(f"t{n}") for n in range(500)]
            for name, runs, plan in (
                ("one run of 200 steps in a row", 1, scenarios.chain(200)),
                ("64 runs of 50 steps each", 64, scenarios.chain(50)),
                ("one run of 500 tasks, 32 at once", 1, wide),
            ):
                url, own, _ = fresh(f"steps-{runs}-{len(plan)}")
                say((await scenarios.measure(url, own, runs, plan)).line(name))
        if "growth" in only:
            say("\nDoes a step cost more as its run grows?")
            url, own, path = fresh("growth")
            await scenarios.growth(url, own, say, path)
        if "resume" in only and options.store != "memory":
            say("\nkill -9 of the server at step 800 of 1,000")
            url, own, _ = fresh("resume")
            await scenarios.resume(url, own, say)


if __name__ == "__main__":
    asyncio.run(main())
