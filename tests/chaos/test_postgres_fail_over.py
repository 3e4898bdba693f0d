"""A Postgres primary dies, its standby takes over, and whoever is connected finds it by itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from stepwell.core.records.states import Durability
from tests.chaos.conftest import SEED
from tests.chaos.load.authors import Findings, Load
from tests.support.backends.child import memory_folder
from tests.support.backends.postgres_pair import PostgresPair
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import chunks, size

pytestmark = pytest.mark.proof

RUNS = 8
MORE = 8
"""So many commits of each run between two blows."""
FAIL_OVERS = size("fail-overs")
IMPATIENT = {
    "connect_timeout_ms": "500",
    "statement_timeout_ms": "500",
    "lock_timeout_ms": "200",
}
"""So that a silent server is given up in seconds."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", chunks("fail-overs", 4), ids=lambda part: f"{part.start}")
async def test_S3_with_a_synchronous_standby_nothing_acknowledged_is_lost_when_primaries_die(
    pair: PostgresPair, part: range
) -> None:
    began = time.monotonic()
    how: Counter[str] = Counter()
    name = pair.primary.new_database()
    async with Load(pair.url(name, **IMPATIENT), RUNS) as load:
        assert (await load.doors[0].describe()).durability is Durability.NODE
        for at in part:
            await load.more(MORE)
            word = "primary stopped" if at % 4 == 3 else "primary killed"
            how[word] += 1
            # Who was killed refuses whoever comes; who was stopped says nothing to anybody.
            pair.primary.kill() if word == "primary killed" else pair.primary.freeze()
            old = await asyncio.to_thread(pair.promote)
            await load.more(MORE)
            await asyncio.to_thread(pair.bury, old)
        found = await load.check()
    print(how, found)
    assert found.lost == 0
    note("fail-overs, postgres", "primaries_die", how, found, began)


@pytest.fixture
def loose() -> Iterator[PostgresPair]:
    """A primary that waits for nobody."""
    with PostgresPair(synchronous=False, inside=memory_folder()) as pair:
        yield pair


@pytest.mark.skipif(FAIL_OVERS < 2, reason="a pair of its own is for a larger scale: make proof")
async def test_with_an_asynchronous_standby_what_it_had_not_is_lost_and_the_class_promises_no_more(
    loose: PostgresPair,
) -> None:
    pair = loose
    began = time.monotonic()
    how: Counter[str] = Counter()
    name = pair.primary.new_database()
    async with Load(pair.url(name, **IMPATIENT), RUNS, may_lose=True) as load:
        assert (await load.doors[0].describe()).durability is Durability.POWER
        await load.more(MORE)
        await asyncio.to_thread(pair.cut_replication)
        await load.more(MORE)
        pair.primary.kill()
        how["primary killed"] += 1
        old = await asyncio.to_thread(pair.promote)
        await load.more(MORE)
        await asyncio.to_thread(pair.bury, old)
        found = await load.check()
    print(how, found)
    assert found.lost, "no loss was made, so that the other proof shows nothing"
    note("fail-overs, postgres, asynchronous standby", "asynchronous_standby", how, found, began)


def note(proof: str, which: str, how: Counter[str], found: Findings, began: float) -> None:
    """Write down what a proof did."""
    figures = {
        "fail-overs": how.total(),
        "acknowledged commits": found.acknowledged,
        "lost": found.lost,
    }
    seconds = time.monotonic() - began
    command = f"make proof ARGS='-k {which}'"
    keep(Record(proof, command, figures, found.seen + how, seconds, str(SEED)))
