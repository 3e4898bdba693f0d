"""The ways in which a lease ends while its worker lives on and knows nothing of it.

Each returns leases that are over: whoever reports with one of them is a zombie. The run's state
differs: another worker has the step, has done it, or none ever will.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from stepwell.core.records.states import EventType
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import RawWorker, outcome
from tests.service.zombies.world import TENANT, World

ACCEPTED = wpb.ACK_STATUS_ACCEPTED
LOST = wpb.ACK_STATUS_LEASE_LOST
AT_ONCE = types_pb2.RetryPolicy(initial_backoff={"nanos": 1_000_000}, max_attempts=100)
BROKEN = wpb.Outcome.Failed(failure=types_pb2.Failure(kind="ValueError", message="broken"))
DONE = wpb.Outcome.Completed(result=types_pb2.Payload(data=b'"the one result"'))
SHORT = {"seconds": 1}
"""The worker that does the steps in the end has as long for its own leases: `take_over`."""


class Stale(NamedTuple):
    """A lease that is over."""

    why: str
    run_id: str
    execution_id: str
    token: str


Death = Callable[[World, int], Awaitable[list[Stale]]]


def _stale(why: str, got: list[wpb.Assignment]) -> list[Stale]:
    return [Stale(why, one.run.run_id, one.execution.execution_id, one.lease.token) for one in got]


async def _start(world: World, why: str, count: int, *more: types_pb2.TaskSpec, **task: Any) -> str:
    """Start a run of independent tasks in a queue of its own; returns its id."""
    task.setdefault("retry", AT_ONCE)
    specs = [types_pb2.TaskSpec(task_id=f"t{index}", **task) for index in range(count)]
    plan = types_pb2.PlanDraft(tasks=[*specs, *more])
    run = await world.clients[0].start(plan=plan, queue=why, max_parallel=count + len(more))
    return run.spec.run_id


@asynccontextmanager
async def holding(
    world: World, why: str, count: int, worker_id: str, instance_id: str = "i1"
) -> AsyncIterator[tuple[RawWorker, list[wpb.Assignment]]]:
    """A worker of a queue that holds so many of its steps."""
    client = world.clients[0]
    async with client.worker(worker_id, instance_id, queues=[why], grant=count) as worker:
        yield worker, [await worker.assignment() for _ in range(count)]


async def _lost_to_another(world: World, why: str, count: int, **task: Any) -> list[Stale]:
    """The worker is connected all the while; its leases run out, and another worker does the steps."""
    run_id = await _start(world, why, count, **task)
    async with holding(world, why, count, "sleeper") as (sleeper, got):
        async with world.clients[-1].worker("other", queues=[why], grant=count) as other:
            await take_over(other, count)
        assert not sleeper.call.done()
    assert (await world.clients[0].wait(run_id)).status == types_pb2.RUN_STATUS_SUCCEEDED
    return _stale(why, got)


async def take_over(worker: RawWorker, count: int) -> None:
    """Do steps that another has lost until so many were taken.

    Its own leases are as short: one that runs out while this machine is busy is had once more.
    """
    taken = 0
    while taken < count:
        again = await worker.assignment()
        assert again.execution.attempt > 1, "S9"
        status = (await worker.complete(again, b'"in time"')).status
        assert status in (ACCEPTED, LOST)
        taken += status == ACCEPTED
        if status == LOST:
            await worker.send(grant=1)


async def expired(world: World, count: int) -> list[Stale]:
    """No sign of life came in time."""
    return await _lost_to_another(world, "expired", count, heartbeat_timeout=SHORT)


async def timed_out(world: World, count: int) -> list[Stale]:
    """The attempt took longer than it may."""
    return await _lost_to_another(world, "timed-out", count, attempt_timeout=SHORT)


async def superseded(world: World, count: int) -> list[Stale]:
    """The worker was restarted, and its older self continues; the newer one has the steps."""
    await _start(world, "superseded", count)
    async with holding(world, "superseded", count, "twin", "old") as (_, got):
        replica = world.clients[-1]
        async with replica.worker("twin", "new", queues=["superseded"], grant=count) as new:
            again = [await new.assignment() for _ in range(count)]
    assert {one.execution.attempt for one in again} == {2}, "S9"
    return _stale("superseded", got)


async def cancelled(world: World, count: int, why: str = "cancelled") -> list[Stale]:
    """The run was cancelled while its steps were under way."""
    run_id = await _start(world, why, count)
    async with holding(world, why, count, "busy") as (_, got):
        await world.clients[0].ask("CancelRun", run_id=run_id)
    return _stale(why, got)


async def deleted(world: World, count: int) -> list[Stale]:
    """The run was cancelled, and there is none of it left."""
    got = await cancelled(world, count, "deleted")
    await world.clients[-1].ask("DeleteRun", run_id=got[0].run_id)
    return got


async def resumed(world: World, count: int) -> list[Stale]:
    """Attempts failed and with them the run; it was resumed, and other attempts are under way."""
    once = types_pb2.RetryPolicy(max_attempts=1)
    run_id = await _start(world, "resumed", count, retry=once)
    async with holding(world, "resumed", count, "failing") as (failing, got):
        # The run fails of the first, and the others with it.
        statuses = [(await failing.report(outcome(one, failed=BROKEN))).status for one in got]
        assert set(statuses) <= {ACCEPTED, LOST}
    assert (await world.clients[0].wait(run_id)).status == types_pb2.RUN_STATUS_FAILED
    await world.clients[-1].ask("ResumeRun", run_id=run_id)
    async with world.clients[-1].worker("next", queues=["resumed"], grant=count) as following:
        for _ in range(count):
            await following.assignment()
    return _stale("resumed", got)


async def _reported(world: World, why: str, count: int, worker_id: str, **said: Any) -> list[Stale]:
    """The worker said this of each of its steps, and it was taken."""
    async with holding(world, why, count, worker_id) as (worker, got):
        for one in got:
            assert (await worker.report(outcome(one, **said))).status == ACCEPTED
    return _stale(why, got)


async def released(world: World, count: int) -> list[Stale]:
    """The worker handed its steps back, and then did them after all."""
    await _start(world, "released", count)
    back = wpb.Outcome.Released(reason="busy")
    return await _reported(world, "released", count, "torn", released=back)


async def retried(world: World, count: int) -> list[Stale]:
    """The attempts failed, and then succeeded after all."""
    hour = types_pb2.RetryPolicy(initial_backoff={"seconds": 3_600}, jitter=0.0)
    await _start(world, "retried", count, retry=hour)
    return await _reported(world, "retried", count, "rash", failed=BROKEN)


async def reported(world: World, count: int) -> list[Stale]:
    """The outcomes were taken, once; the run goes on with another step."""
    last = types_pb2.TaskSpec(task_id="last", depends_on=[f"t{i}" for i in range(count)])
    await _start(world, "reported", count, last)
    return await _reported(world, "reported", count, "honest", completed=DONE)


async def ended(world: World, count: int) -> list[Stale]:
    """The outcomes were taken, and the run has succeeded."""
    run_id = await _start(world, "ended", count)
    stale = await _reported(world, "ended", count, "honest", completed=DONE)
    assert (await world.clients[0].wait(run_id)).status == types_pb2.RUN_STATUS_SUCCEEDED
    return stale


async def swapped(world: World, count: int) -> list[Stale]:
    """The leases live, and each is named with the token of the next one: another worker's."""
    await _start(world, "swapped", count)
    half = count // 2
    other = world.clients[-1].worker("right", queues=["swapped"], grant=count - half)
    async with holding(world, "swapped", half, "left") as (_, got), other as right:
        got += [await right.assignment() for _ in range(count - half)]
    stale = _stale("swapped", got)
    return [one._replace(token=stale[at - half].token) for at, one in enumerate(stale)]


DEATHS: dict[str, Death] = {
    death.__name__: death
    for death in (
        *(expired, timed_out, superseded, cancelled, deleted, resumed, released, retried),
        *(reported, ended, swapped),
    )
}


async def lost_with_a_live_worker(world: World, stale: list[Stale]) -> int:
    """Return how many of these leases the store says were lost; their worker was connected."""
    names = {(one.run_id, one.execution_id) for one in stale}
    lost = 0
    for run_id in {one.run_id for one in stale}:
        page = await world.store.read_events(TENANT, run_id, after=0, limit=100_000)
        assert page is not None
        kinds = (EventType.LEASE_LOST, EventType.EXECUTION_TIMED_OUT)
        lost += sum(
            event.type in kinds and (run_id, event.execution_id) in names for event in page.events
        )
    return lost
