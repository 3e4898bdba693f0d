"""Row 7: three doors to one store through a network that fails, and the oracle over all that was seen.

Players commit, renew and read through any of the doors while connections are cut, stand still, lose requests or
answers, trickle and overtake each other. Then the network heals, all runs come to their ends, and every answer that
anybody was given is laid over what the store has.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from tests.chaos.faults.weather import MISHAPS, Weather
from tests.chaos.load.players import Load
from tests.chaos.oracle.history import TENANT
from tests.chaos.world.doors import STORES
from tests.support.patience import insisting
from tests.support.proofs.record import note
from tests.support.proofs.sizes import SCALE, chunks, scale

pytestmark = pytest.mark.proof

SEED = "STEPWELL_NETWORK_SEED"
CHUNK = 5_000
MISHAPS_MIN = 25
"""In each of these; a store that is fast has its operations done before."""
UNKNOWN_MIN = 2
"""Commits whose answer never came, in each of these: or the network was too kind."""


@pytest.mark.parametrize("chunk", chunks("operations", CHUNK), ids=lambda chunk: f"{chunk.start}")
@pytest.mark.parametrize("kind", STORES)
async def test_S1_S2_S3_S4_S5_S8_E1_E2_E4_E8_hold_behind_a_network_that_fails(
    kind: str, chunk: range, tmp_path: Path
) -> None:
    seed = os.environ.get(SEED) or f"{kind} {chunk.start}"
    print(f"replay: {SCALE}={scale()} {SEED}='{seed}' python -m pytest {__file__} -k {kind}")
    mishaps, unknown = (many * len(chunk) // CHUNK for many in (MISHAPS_MIN, UNKNOWN_MIN))
    async with STORES[kind](tmp_path, Random(f"lines {seed}")) as doors:
        weather = Weather(doors.proxies, Random(f"weather {seed}"), doors.committing)

        def enough() -> bool:
            seen = load.seen
            done = seen["operations"] >= len(chunk) and seen["unknown"] >= unknown
            return done and weather.met.total() >= mishaps

        async with Load(doors.doors, tmp_path, seed) as load:
            blowing = asyncio.create_task(weather.blow())
            try:
                await load.until(enough)
            finally:
                blowing.cancel()
                await asyncio.gather(blowing, return_exceptions=True)
            findings = await load.check(doors.past)
        for door in doors.doors:
            for name, book in findings.books.items():
                run = await insisting(lambda door=door, name=name: door.get_run(TENANT, name))
                assert run == book.run, f"S3: {name} at {door}"
    seen = load.seen
    print(seen, weather.met, dict(findings.seen))
    assert seen["CONFLICT"] or len(chunk) < CHUNK, "nobody met anybody"
    if len(chunk) == CHUNK:
        assert len(weather.met) > len(MISHAPS) / 2, weather.met
    figures = {
        "operations": seen["operations"],
        "commits": seen["COMMITTED"],
        "conflicts": seen["CONFLICT"],
        "unknown": seen["unknown"],
        "mishaps": weather.met.total(),
    }
    note(f"operations behind a failing network, {kind}", figures, findings.seen, seed)
