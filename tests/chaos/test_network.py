"""Row 7: three doors to one store through a network that fails, and a checker of all that was seen.

Twelve clients commit, claim, renew and read through any of the doors while connections are cut, stand
still, lose requests or answers, trickle and overtake each other. Then the network heals, and every
answer that anybody was given is laid over what the store has.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from time import monotonic

import pytest

from stepwell.core.port import Store
from tests.chaos.faults.weather import MISHAPS, Weather
from tests.chaos.load.clients import HOLD_MS, TENANT, Client, FeedReader, Field
from tests.chaos.oracle.calls import Kept
from tests.chaos.oracle.checker import check
from tests.chaos.oracle.kept import at_rest
from tests.chaos.world.doors import STORES, Doors
from tests.support.patience import PATIENCE_S, insisting
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import SCALE, chunks, scale

pytestmark = pytest.mark.proof

SEED = "STEPWELL_NETWORK_SEED"
CLIENTS = 12
CHUNK = 5_000
MISHAPS_MIN = 25
"""In each of these; a store that is fast has its operations done before."""
UNKNOWN_MIN = 2
"""Commits whose answer never came, in each of these: or the network was too kind."""


def seed_of(kind: str, first: int) -> str:
    """Return the seed of a chunk."""
    return os.environ.get(SEED) or f"{kind} {first}"


async def played(field: Field, readers: Sequence[FeedReader], weather: Weather) -> None:
    """Let all clients live until enough was done; then the network is well."""
    blowing = asyncio.create_task(weather.blow())
    clients = [Client(field, f"{number}") for number in range(CLIENTS)]
    try:
        async with asyncio.timeout(2 * PATIENCE_S):
            await asyncio.gather(*(one.live() for one in (*clients, *readers)))
    finally:
        blowing.cancel()
        await asyncio.gather(blowing, return_exceptions=True)


async def read_out(
    readers: Sequence[FeedReader], doors: Sequence[Store], kept: Mapping[str, Kept]
) -> None:
    """Read the feed to its end, each reader by a door of its own."""
    every = sum(one.version for one in kept.values())
    async with asyncio.timeout(2 * PATIENCE_S):
        for reader, door in zip(readers, doors, strict=True):
            while reader.received < every:
                if not await reader.page(door):
                    await asyncio.sleep(0.01)


async def same_at_every_door(doors: Doors, kept: Mapping[str, Kept]) -> None:
    """Each door shows what is kept, now that all can be reached (S3, E2)."""
    for door in doors.doors:
        for name, one in kept.items():
            run = await insisting(lambda door=door, name=name: door.get_run(TENANT, name))
            assert ((run and run.version) or 0) == one.version, f"S3: {name} at {door}"


@pytest.mark.parametrize("chunk", chunks("operations", CHUNK), ids=lambda chunk: f"{chunk.start}")
@pytest.mark.parametrize("kind", STORES)
async def test_S1_S2_S3_S4_S5_S8_E1_E2_E4_E8_hold_behind_a_network_that_fails(
    kind: str, chunk: range, tmp_path: Path
) -> None:
    seed, began = seed_of(kind, chunk.start), monotonic()
    print(f"replay: {SCALE}={scale()} {SEED}='{seed}' python -m pytest {__file__} -k {kind}")
    async with STORES[kind](tmp_path, Random(f"lines {seed}")) as doors:
        weather = Weather(doors.proxies, Random(f"weather {seed}"), doors.committing)
        mishaps, unknown = (many * len(chunk) // CHUNK for many in (MISHAPS_MIN, UNKNOWN_MIN))

        def enough() -> bool:
            unanswered = field.history.counts["commit unknown"]
            return weather.met.total() >= mishaps and unanswered >= unknown

        field = Field(doors.doors, seed, len(chunk), enough)
        readers = [FeedReader(field) for _ in doors.doors]
        await played(field, readers, weather)
        for proxy in doors.proxies:
            await proxy.settled()
        kept = await at_rest(doors.past, field.history)
        await read_out(readers, doors.doors, kept)
        await same_at_every_door(doors, kept)
    took = monotonic() - began
    print(sorted((field.history.counts + weather.met).items()))
    happened = check(field.history, kept, hold_ms=HOLD_MS)
    print(dict(happened), f"{field.history.operations / took:.0f} operations/s")
    if len(chunk) == CHUNK:
        assert len(weather.met) > len(MISHAPS) / 2, weather.met
    counts = field.history.counts
    keep(
        Record(
            f"operations behind a failing network, {kind}",
            "make proof ARGS=tests/chaos/test_network.py",
            {
                "operations": field.history.operations,
                "commits": counts["told COMMITTED"],
                "conflicts": counts["told CONFLICT"],
                "unknown": counts["commit unknown"],
                "mishaps": weather.met.total(),
            },
            Counter(happened),
            took,
            seed,
        )
    )
