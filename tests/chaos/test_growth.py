"""R1: nothing grows without bound, whatever befalls a server: no log, no memory, no rows, no descriptors.

First the server is killed again and again before it wrote much. Then all of `Mishaps` befall it at once, for as long
as the scale says. The bounds are those of docs/operating.md ("What grows"). Seed: `STEPWELL_GROWTH_SEED=…`.
"""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from stepwell_client import Plan, Task
from tests.chaos.load.mishaps import WORK_METHOD, Mishaps
from tests.chaos.load.runs import met
from tests.chaos.world.row_counts import COUNTS, KEPT
from tests.chaos.world.site import Site
from tests.chaos.world.stores import STORES
from tests.chaos.world.vitals import LogReader, Series, vitals_of
from tests.support.backends.small_disk import small_disk
from tests.support.patience import PATIENCE_S
from tests.support.proofs import record
from tests.support.proofs.sizes import Scale, scale, size

SEED = int(os.environ.get("STEPWELL_GROWTH_SEED", "20261123"))
MIB = 1024 * 1024
DISK_MIB = 768
SECONDS = size("growth, seconds")
WARM_UP = 0.2
"""The share of the time after which caches are full and all that is loaded late was loaded."""
EVERY_S = 0.5
COUNT_EVERY = 10

LOG_MAX_BYTES = 64 * MIB
"""SQLite's log: 32 MiB, and what is written until it could be emptied."""
FREED_S = 5.0
"""The time after a foreign read transaction within which the log has been emptied."""
EMPTY_BYTES = 1 * MIB
"""The log after a start: what was there was emptied, and the start itself writes a little."""
RSS_SLACK = 0.25
RSS_SLACK_BYTES = 32 * MIB
"""An allocator keeps what a moment took, and moments differ. A leak grows with each mishap."""
GROWTH = (("rss_bytes", RSS_SLACK, RSS_SLACK_BYTES), ("fds", 0.0, 8), ("threads", 0.0, 4))
"""The share and the number by which each may be more in the last third than in the first."""
LINES_A_MINUTE = 120
WATCHED = ("server", "steady")
"""The programs that live through all of it."""


@contextmanager
def site_on(kind: str, folder: Path) -> Iterator[Site]:
    """Return a site whose store is empty; SQLite's is on a disk that can be filled."""
    if kind != "sqlite":
        with STORES[kind](folder) as shared:
            yield Site(folder, shared.url)
        return
    with (
        tempfile.TemporaryDirectory(prefix="growth-") as short,
        small_disk(Path(short), DISK_MIB) as disk,
    ):
        file = disk / "store.db"
        yield Site(folder, f"sqlite:///{file}", file)


async def kill_again_and_again(site: Site, times: int) -> int:
    """Kill the server each time before it wrote much; return the most bytes that its log had after a start."""
    after_start = 0
    for _ in range(times):
        await site.start_server()
        after_start = max(after_start, site.log_bytes())
        async with site.client() as client:
            for _ in range(10):
                plan = Plan([Task("a", "ordinary", input=os.urandom(900_000))])
                run = await client.start(plan=plan, queue="nobody")
                await run.cancel()
        site.server.kill()
    return after_start


class Growth:
    """Measures a site while mishaps befall it, and afterwards compares what it measured with the bounds."""

    def __init__(self, site: Site, mishaps: Mishaps) -> None:
        self.site = site
        self.mishaps = mishaps
        self.series = Series()
        self._logs = {name: LogReader(one.log_path) for name, one in site.programs.items()}

    async def measure(self, kind: str) -> None:
        """Measure for as long as the scale says."""
        begin = time.monotonic()
        number = 0
        while (at_s := time.monotonic() - begin) < SECONDS:
            await asyncio.sleep(EVERY_S)
            self.mishaps.check()
            self._measure_once(at_s)
            number += 1
            if number % COUNT_EVERY == 0:
                rows = await asyncio.to_thread(COUNTS[kind], self.site.url)
                self.series.add(at_s, **{f"rows of {name}": n for name, n in rows.items()})
                print(f"{at_s:.0f} s {dict(self.mishaps.met)} {dict(self.mishaps.refused)}")

    def _measure_once(self, at_s: float) -> None:
        for name in WATCHED:
            vitals = vitals_of(self.site.programs[name])._asdict()
            self.series.add(at_s, **{f"{name}, {what}": n for what, n in vitals.items()})
        for name, log in self._logs.items():
            log.read()
            self.series.add(at_s, **{f"{name}, lines": log.lines, f"{name}, log bytes": log.bytes})
        if self.site.file is not None:
            size_bytes = self.site.log_bytes()
            self.series.add(
                at_s, **{"data bytes": self.site.file.stat().st_size, "-wal": size_bytes}
            )
            if time.monotonic() - self.mishaps.held_at > FREED_S:
                self.series.add(at_s, **{"-wal, no foreign transaction": size_bytes})

    async def settle(self, kind: str) -> dict[str, int]:
        """Wait until nothing of the mishaps is left; return what is left, where that doesn't end."""
        left: dict[str, int] = {"nothing was counted": 1}
        rows: Mapping[str, int] = {}
        until = time.monotonic() + PATIENCE_S
        while left and time.monotonic() < until:
            await asyncio.sleep(EVERY_S)
            rows = await asyncio.to_thread(COUNTS[kind], self.site.url)
            left = {name: n for name, n in rows.items() if name not in KEPT and n}
            left |= {
                f"streams of {method}": int(n)
                for method, n in self.site.streams().items()
                if n != (method == WORK_METHOD)
            }
        print(rows)
        return left

    def report(self) -> None:
        """Print what was measured: medians of the first and the last third, the most, and the last."""
        print(f"{dict(self.mishaps.met)}\n{dict(self.mishaps.refused)}")
        print(f"{'':34}{'first third':>16}{'last third':>16}{'most':>16}{'a minute':>12}")
        for name in self.series.names():
            values = self.series.between(name, 0.0, SECONDS + EVERY_S)
            first, last = self.series.thirds(name, SECONDS * WARM_UP, SECONDS)
            a_minute = (values[-1] - values[0]) * 60 / SECONDS
            print(f"{name:34}{first:16,.0f}{last:16,.0f}{max(values):16,.0f}{a_minute:12,.1f}")

    def excesses(self) -> list[str]:
        """Return each bound that was broken, in words."""
        found: list[str] = []

        def bound(what: str, value: float, most: float) -> None:
            if value > most:
                found.append(f"{what}: {value:,.0f}, and {most:,.0f} at the most")

        series = self.series
        bound("-wal", series.highest("-wal, no foreign transaction"), LOG_MAX_BYTES)
        for name in WATCHED:
            for what, share, slack in GROWTH:
                first, last = series.thirds(f"{name}, {what}", SECONDS * WARM_UP, SECONDS)
                bound(f"{name}, {what}", last, first * (1 + share) + slack)
        for name in WATCHED:
            lines = series.between(f"{name}, lines", 0.0, math.inf)
            most = LINES_A_MINUTE * max(1.0, SECONDS / 60)
            bound(f"{name}, lines", lines[-1] - lines[0], most)
        return found

    def figures(self) -> dict[str, int]:
        """Return what the page shows."""
        series = self.series
        found = {"seconds": SECONDS, "mishaps": self.mishaps.met.total()}
        if self.site.file is not None:
            found["MiB of -wal at most"] = (
                int(series.highest("-wal, no foreign transaction")) // MIB
            )
            found["MiB of -wal under a foreign transaction"] = int(series.highest("-wal")) // MIB
            found["MiB of data"] = int(series.highest("data bytes")) // MIB
        for name in WATCHED:
            first, last = series.thirds(f"{name}, rss_bytes", SECONDS * WARM_UP, SECONDS)
            found[f"MiB of the {name}'s memory in the first third"] = int(first) // MIB
            found[f"MiB of the {name}'s memory in the last third"] = int(last) // MIB
            lines = series.between(f"{name}, lines", 0.0, math.inf)
            a_minute = (lines[-1] - lines[0]) * 60 / SECONDS
            found[f"lines of the {name}'s log a minute"] = round(a_minute)
        return found


@pytest.mark.proof
@pytest.mark.timeout(SECONDS + 600, method="thread")
@pytest.mark.parametrize("kind", sorted(COUNTS))
async def test_R1_nothing_grows_under_mishaps(kind: str, tmp_path: Path, backends: None) -> None:
    print(f"again with STEPWELL_GROWTH_SEED={SEED}")
    with site_on(kind, tmp_path) as site:
        async with site:
            after_start = await kill_again_and_again(site, size("growth, kills"))
            await site.start_server()
            await site.start_steady()
            async with site.client() as client:
                mishaps = Mishaps(site, client, Random(f"{SEED} {kind}"))
                growth = Growth(site, mishaps)
                async with mishaps:
                    mishaps.begin(size("growth, watchers"), hold_s=min(15.0, SECONDS / 20))
                    await growth.measure(kind)
                await mishaps.cancel_runs()
                left = await growth.settle(kind)
        growth.report()
    record.note(f"growth under mishaps, {kind}", growth.figures(), mishaps.met, SEED)
    if scale() is not Scale.TEST:
        # A few seconds may miss some.
        met(mishaps.met, *mishaps.names)
    assert after_start <= EMPTY_BYTES
    assert growth.excesses() == []
    assert left == {}
