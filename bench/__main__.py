"""`make bench`: every work of the table (`bench.table`), measured on this machine, beside its goal."""

from __future__ import annotations

import argparse
import asyncio
import time

from bench import plots, quote, records, report, rounds
from bench.machine import describe
from bench.records import Results


def write(text: str) -> None:
    """Print at once, so that long work shows progress."""
    print(text, flush=True)


def options() -> argparse.Namespace:
    """Return what the command line asks for."""
    names = ", ".join(work.name for work in rounds.WORKS)
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", default="", help=f"some works: {names}")
    parser.add_argument("--store", default="", help="stores, instead of each work's own")
    parser.add_argument("--rounds", type=int, default=rounds.ROUNDS)
    parser.add_argument("--write", action="store_true", help="keep the results, and quote them")
    asked = parser.parse_args()
    asked.only = [name for name in asked.only.split(",") if name]
    asked.store = [name for name in asked.store.split(",") if name]
    known = {work.name for work in rounds.WORKS}
    if unknown := set(asked.only) - known:
        parser.error(f"no work {', '.join(sorted(unknown))}; known: {names}")
    return asked


async def main() -> None:
    """Measure, print the table, and write it down."""
    asked = options()
    machine = describe()
    begun = time.monotonic()
    works = rounds.chosen(asked.only, asked.store)
    failed: list[str] = []
    samples = [sample async for sample in rounds.measured(works, asked.rounds, write, failed)]
    results = Results(machine, tuple(samples))
    newest = records.newest("bench")
    before = records.read(newest) if newest else None
    write("")
    for line in report.table(results, before):
        write(line)
    records.write(results, records.LATEST)
    write(f"\n{time.monotonic() - begun:.0f} s; {records.LATEST} has every round")
    if failed:
        write(f"Rounds that failed, each with its reason above: {', '.join(failed)}")
    for path in plots.draw(results, records.OUT):
        write(str(path))
    if asked.write:
        quote.write("bench", results)


if __name__ == "__main__":
    asyncio.run(main())
