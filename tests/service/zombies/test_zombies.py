"""S8–S10: a report with a lease that is over is refused, on every replica, and changes nothing.

Thousands of results of workers that were superseded, by all the ways there are (`deaths.py`), each with
other bytes, over the stream and without it, at the replica that gave the lease and at another one. The
store's rows are the same before and after. Seed: `STEPWELL_ZOMBIE_SEED=…` plays the same again.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from itertools import cycle, zip_longest
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, Client, bearer
from tests.service.zombies.deaths import ACCEPTED, DEATHS, LOST, Stale, lost_with_a_live_worker
from tests.service.zombies.rows import differences, rows_of
from tests.service.zombies.world import PLACES, TENANT, World, world_on
from tests.support.proofs import record
from tests.support.proofs.sizes import size

SEED = int(os.environ.get("STEPWELL_ZOMBIE_SEED", "20261122"))
PERCENT = {
    "memory": 20,
    "sqlite": 20,
    "postgres": 20,
    "redis": 20,
    "redis_cluster": 10,
    "remote": 10,
}
"""The share of all zombies, by kind of store."""
LEASES_EACH = 6
"""Leases of each death; zombies report with each of them many times."""
TOGETHER_MAX = 50
WORKERS = ("sleeper", "other", "twin", "busy", "failing", "next", "torn", "rash", "honest")


def forged(rnd: Random, stale: Stale, number: int) -> wpb.Outcome:
    """Return an outcome that would change much if it were taken."""
    made = wpb.Outcome(
        delivery_id=f"{number}",
        lease=wpb.Lease(run_id=stale.run_id, execution_id=stale.execution_id, token=stale.token),
        usage=types_pb2.Usage(input_tokens=rnd.randint(1, 10**6), output_tokens=1),
        session=types_pb2.Session(backend="zombie", session_id=str(number)),
        response=f"response {number}",
        progress=types_pb2.Payload(data=b"half"),
        messages=[types_pb2.Message(role="assistant", content=f"from the dead {number}")],
    )
    what = rnd.random()
    if what < 0.6:
        made.completed.result.data = f'"zombie {number}"'.encode()
    elif what < 0.75:
        made.failed.failure.kind = "Zombie"
    elif what < 0.9:
        made.needs_answer.prompt = "let me in?"
    else:
        made.released.reason = "undead"
    return made


async def over_complete(client: Client, outcomes: list[wpb.Outcome]) -> list[wpb.Ack]:
    request = wpb.ReportOutcomesRequest(outcomes=outcomes)
    return list((await client.work.ReportOutcomes(request, metadata=ME)).acks)


async def over_the_stream(client: Client, outcomes: list[wpb.Outcome]) -> list[wpb.Ack]:
    async with client.worker("zombie", queues=["graveyard"], grant=0) as zombie:
        await zombie.send(*outcomes)
        return [await zombie.ack() for _ in outcomes]


def in_turns(rnd: Random, stale: list[Stale]) -> list[Stale]:
    """Return them so that each death has its turn early on."""
    by_death: dict[str, list[Stale]] = {}
    for one in rnd.sample(stale, len(stale)):
        by_death.setdefault(one.why, []).append(one)
    return [one for turn in zip_longest(*by_death.values()) for one in turn if one is not None]


async def report(rnd: Random, world: World, stale: list[Stale], many: int) -> Counter[str]:
    """Report so often; all of it must be refused. Returns how often for each death."""
    refused = Counter[str]()
    turns = cycle(in_turns(rnd, stale))
    while (done := refused.total()) < many:
        drawn = [next(turns) for _ in range(min(rnd.randint(1, TOGETHER_MAX), many - done))]
        outcomes = [forged(rnd, one, done + at) for at, one in enumerate(drawn)]
        if rnd.random() < 0.1:
            # Twice in one message.
            outcomes[-1].CopyFrom(outcomes[0])
            drawn[-1] = drawn[0]
        way = rnd.choice((over_complete, over_the_stream))
        acks = await way(rnd.choice(world.clients), outcomes)
        assert len(acks) == len(outcomes)
        for ack in acks:
            one = drawn[[o.delivery_id for o in outcomes].index(ack.delivery_id)]
            assert ack.status == LOST, f"S8: {one} was answered {ack}"
            refused[one.why] += 1
    return refused


async def give_other_signs(world: World, stale: list[Stale]) -> None:
    """Heartbeats, lines, messages and begins of the dead are not taken either."""
    payload = types_pb2.Payload(data=b"I live")
    for client in world.clients:
        names: list[dict[str, Any]] = [
            {"lease": wpb.Lease(run_id=one.run_id, execution_id=one.execution_id, token=one.token)}
            for one in stale
        ]
        beats = [wpb.LeaseHeartbeat(**name, progress=payload) for name in names]
        answer = await client.ask("Heartbeat", heartbeats=beats)
        said = [types_pb2.Message(role="user", content="hear me")]
        lines = [wpb.LogLine(text="I was here")]
        written = [wpb.Appended(**name, logs=lines, messages=said) for name in names]
        kept = await client.ask("AppendOutput", appended=written)
        for state in (*answer.leases, *kept.leases):
            assert state.status == wpb.LEASE_STATUS_LOST, f"S8: {state}"
        async with client.worker("zombie", queues=["graveyard"], grant=0) as zombie:
            begins = [wpb.Begin(delivery_id=str(at), **name) for at, name in enumerate(names)]
            await zombie.call.write(wpb.WorkRequest(begins=begins))
            for _ in begins:
                assert (await zombie.ack()).status == LOST, "S8"


async def swapped_leases_live(world: World, stale: list[Stale]) -> None:
    """The rightful tokens are still taken: what was refused above was refused for its token alone."""
    mine = [one for one in stale if one.why == "swapped"]
    half = len(mine) // 2
    for at, one in enumerate(mine):
        outcome = wpb.Outcome(
            delivery_id="mine",
            lease=wpb.Lease(
                run_id=one.run_id,
                execution_id=one.execution_id,
                token=mine[(at + half) % len(mine)].token,
            ),
            # The token of this one was given to another above.
        )
        outcome.completed.result.data = b'"mine"'
        foreign = wpb.ReportOutcomesRequest(outcomes=[outcome])
        answer = await world.clients[0].work.ReportOutcomes(foreign, metadata=bearer("foreign"))
        assert answer.acks[0].status == LOST, "T3"
        assert (await over_complete(world.clients[-1], [outcome]))[0].status == ACCEPTED


@pytest.mark.proof
@pytest.mark.usefixtures("backends")
@pytest.mark.parametrize("kind", PLACES)
async def test_S8_results_of_superseded_leases_are_refused(kind: str, tmp_path: Path) -> None:
    print(f"seed {SEED}; again with STEPWELL_ZOMBIE_SEED={SEED}")
    since = time.monotonic()
    rnd = Random(f"{SEED}/{kind}")
    many = size("zombies") * PERCENT[kind] // 100
    async with world_on(kind, tmp_path) as world:
        stale = [one for death in DEATHS.values() for one in await death(world, LEASES_EACH)]
        tokens = {one.token for one in stale}
        assert len(tokens) == len(stale), "S9: a token was given twice"
        slept = [one for one in stale if one.why in ("expired", "timed-out")]
        lost = await lost_with_a_live_worker(world, slept)
        assert lost >= len(slept), "S10"
        gone = {one.run_id for one in stale if one.why == "deleted"}
        counted = world.counted("stale_outcomes")
        before = await rows_of(world.store, TENANT, workers=WORKERS, gone=gone)
        refused = await report(rnd, world, stale, many)
        await give_other_signs(world, stale)
        after = await rows_of(world.store, TENANT, workers=WORKERS, gone=gone)
        assert not differences(before, after), "S8: a stale result changed rows"
        assert set(refused) == {one.why for one in stale}, "a death was left out"
        known = refused.total() - refused["deleted"]
        assert world.counted("stale_outcomes") - counted == known, "S14: they are counted"
        await swapped_leases_live(world, stale)
    happened = {"stale result refused": refused.total(), "lease expired with a live worker": lost}
    figures = {"stale results refused": refused.total(), "accepted": 0}
    record.keep(
        record.Record(
            proof=f"zombies, {kind}",
            command="make proof ARGS='-k superseded_leases'",
            figures=figures,
            happened={**happened, **{f"stale: {why}": n for why, n in refused.items()}},
            seconds=time.monotonic() - since,
            seed=str(SEED),
        )
    )
