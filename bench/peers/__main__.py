"""`make bench-peers`: other projects on the same work, on this machine, in one run with Stepwell."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

from bench import plots, quote, records
from bench.backends import Backend, opened
from bench.machine import describe, spin
from bench.peers import report
from bench.peers.runs import PEERS, STEPWELL, Figures, PeerFailed, Size, run, turns
from bench.records import Results, Sample, samples_of
from bench.rounds import FAILURES
from bench.stage import Stage
from bench.works.calls import Calls
from bench.works.chains import Chains
from bench.works.lone import Lone

ROUNDS = 5


def write(text: str) -> None:
    """Print at once, so that long work shows progress."""
    print(text, flush=True)


async def stepwell(backend: Backend, size: Size) -> Figures:
    """Do the work on Stepwell: a server, a worker and a client, each a process."""
    stage = Stage(backend)
    try:
        (chained,) = await Chains(runs=size.runs, steps=size.steps).measure(stage)
        (lone,) = await Lone(steps=size.lone).measure(stage)
    finally:
        await stage.close()
    return Figures(chained.steps_per_second, lone.p50_ms, lone.p99_ms)


async def calls(backend: Backend, size: Size) -> Figures:
    """Do the work on Stepwell as calls: each run is one task, and each step a call within it."""
    stage = Stage(backend)
    try:
        work = Calls(runs=size.runs, calls=size.steps, lone=size.lone, entries=1)
        (called,) = await work.measure(stage)
    finally:
        await stage.close()
    return Figures(called.calls_per_second, called.lone_ms, called.lone_p99_ms)


OWN = {"stepwell": stepwell, report.CALLS: calls}


async def measured(rounds: int, only: set[str], size: Size) -> AsyncIterator[Sample]:
    """Yield the samples of all rounds; a peer that fails is left out of the rest."""
    peers = {peer.name: peer for peer in PEERS if not only or peer.program in only}
    names = [*(f"{own}:{store}" for own in OWN for store in STEPWELL), *peers]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stepwell-peers-")))
        backends = {name: stack.enter_context(opened(name, folder)) for name in STEPWELL}
        for number in range(rounds):
            for name in turns(number, names):
                peer = peers.get(name)
                before = spin()
                try:
                    if peer is None:
                        own, _, store = name.partition(":")
                        figures = await OWN[own](backends[store], size)
                    else:
                        backend = backends.get(peer.store, backends["sqlite"])
                        figures = await asyncio.to_thread(run, peer, backend, size)
                except (PeerFailed, *FAILURES) as failed:
                    write(f"{name} FAILED: {failed!r}")
                    names = [one for one in names if one != name]
                    continue
                spin_ms = (before + spin()) / 2
                write(
                    f"round {number + 1} of {rounds}: {name:<20}"
                    f"{figures.steps_per_second:>8.0f} steps/s{figures.p50_ms:>8.2f} ms"
                    f"  (spin {spin_ms:.1f} ms)"
                )
                for sample in samples_of(report.WORK, name, [figures], spin_ms):
                    yield sample


async def main() -> None:
    """Measure, print the table, and write it down."""
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    programs = ", ".join(dict.fromkeys(peer.program for peer in PEERS))
    parser.add_argument("--only", default="", help=f"some peers: {programs}")
    parser.add_argument("--write", action="store_true", help="keep the results, and quote them")
    parser.add_argument("--runs", type=int, default=Size().runs)
    parser.add_argument("--steps", type=int, default=Size().steps)
    parser.add_argument("--lone", type=int, default=Size().lone)
    asked = parser.parse_args()
    machine = describe("bench.peers")
    begun = time.monotonic()
    only = {name for name in asked.only.split(",") if name}
    if unknown := only - {peer.program for peer in PEERS}:
        parser.error(f"no peer {', '.join(sorted(unknown))} here; there are: {programs}")
    size = Size(asked.runs, asked.steps, asked.lone)
    samples = [sample async for sample in measured(asked.rounds, only, size)]
    results = Results(machine, tuple(samples))
    write("")
    for line in report.table(results):
        write(line)
    records.write(results, records.PEERS)
    write(f"\n{time.monotonic() - begun:.0f} s; {records.PEERS} has every round")
    write(str(plots.draw_peers(results, records.OUT)))
    if asked.write:
        quote.write("peers", results)


if __name__ == "__main__":
    asyncio.run(main())
