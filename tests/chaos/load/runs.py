"""Runs on a cluster: their plans, their start and end while replicas come and go, and their history checked."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from uuid import uuid4

from stepwell.core.records.events import Event
from stepwell_client import (
    Client,
    OnFailure,
    Plan,
    Retry,
    Run,
    RunStatus,
    Task,
    Unavailable,
)
from stepwell_client.calls.requests import OnBusy
from tests.chaos.load.follower import Follower
from tests.chaos.oracle.history import Acknowledged, Findings, check
from tests.chaos.world.cluster import Cluster

PATIENT = Retry(max_attempts=100, max_losses=100, initial_backoff=0.01, max_backoff=0.1)
"""The policy of tasks that never fail by themselves, however often their workers are killed."""


def graph(rnd: Random, count: int, kind: str = "quick") -> Plan:
    """A random graph of tasks that never fail by themselves."""
    tasks: list[Task] = []
    for index in range(count):
        earlier = [task.id for task in tasks[-6:]]
        depends_on = rnd.sample(earlier, min(len(earlier), rnd.randint(0, 2)))
        tasks.append(Task(f"t{index}", type=kind, depends_on=depends_on, retry=PATIENT))
    return Plan(tasks)


def with_keys(rnd: Random, plan: Plan, keys: Sequence[str]) -> Plan:
    """Give most tasks of a plan one of these idempotency keys; some of these can't be done.

    The first task is left as it is. A task may have the key of one that it depends on.
    """
    tasks = list(plan.tasks)
    for index in range(1, len(tasks)):
        if rnd.random() < 0.7:
            kind = "refused" if rnd.random() < 0.5 else "signed"
            tasks[index] = replace(
                tasks[index],
                type=kind,
                idempotency_key=rnd.choice(keys),
                on_failure=OnFailure.CONTINUE,
            )
    return Plan(tasks)


def wide(count: int, kind: str = "quick") -> Plan:
    """Tasks of which none waits for another."""
    return Plan([Task(f"t{index}", type=kind, retry=PATIENT) for index in range(count)])


async def started(
    client: Client,
    plan: Plan,
    goal: str = "",
    *,
    queue: str = "default",
    pipeline: str = "",
    thread: str = "",
    on_busy: OnBusy = "enqueue",
    seconds: float = 30.0,
) -> str:
    """Start a run, however often that takes: it is one run, whichever replica took it."""
    request_id = str(uuid4())
    async with asyncio.timeout(seconds):
        while True:
            try:
                handle = await client.start(
                    goal,
                    plan=plan,
                    queue=queue,
                    pipeline=pipeline,
                    thread=thread,
                    on_busy=on_busy,
                    request_id=request_id,
                )
                return handle.id
            except Unavailable:
                await asyncio.sleep(0.1)


async def ended(client: Client, runs: Sequence[str], seconds: float = 60.0) -> None:
    """Wait until all of them have succeeded."""
    async with asyncio.timeout(seconds):
        for run_id in runs:
            run = await waited(client, run_id)
            assert run.status == RunStatus.SUCCEEDED, run.failure


async def waited(client: Client, run_id: str) -> Run:
    """Wait for a run's end while replicas and their store come and go."""
    while True:
        try:
            return await client.run(run_id).wait()
        except Unavailable:
            await asyncio.sleep(0.1)


async def checked(
    cluster: Cluster,
    followers: Sequence[Follower] = (),
    acknowledged: Sequence[Acknowledged] = (),
) -> Findings:
    """Check the history of everything so far, and print what was met in it."""
    for one in followers:
        await one.end()
    await cluster.hang_up()
    store = await cluster.store()
    diary = cluster.diary()
    try:
        findings = await check(store, diary, acknowledged)
    finally:
        await store.close()
    sent: dict[str, list[Event]] = defaultdict(list)
    for entry in diary:
        if entry.sent is not None:
            sent[entry.sent.run_id] += entry.sent.events
    for one in followers:
        one.check(findings.books[one.run_id].events, sent[one.run_id])
        findings.seen.update(one.seen)
    print(dict(findings.seen))
    return findings


def met(seen: Mapping[str, int], *names: str) -> None:
    """Fail if one of these was never met: the test would have shown nothing."""
    missing = [name for name in names if not seen.get(name)]
    assert not missing, f"never happened: {missing}"
