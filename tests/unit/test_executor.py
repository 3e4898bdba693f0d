"""The shell around the loop: leases, credits, expiry, and what is told when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from stepwell.core.loop.signals import Cancel, Completed, Failed, Pause
from stepwell.core.port import Commit, CommitResult, TaskQuery
from stepwell.core.records import limits
from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    RunNotFound,
    StoreUnavailable,
)
from stepwell.core.records.model import Failure, Payload, RetryPolicy, TaskSpec
from stepwell.core.records.states import OnFailure, RunStatus
from stepwell.engine.executor import Heartbeat, HeldLease
from stepwell_testkit.faults import FaultyStore
from tests.unit.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    delivery,
    until,
)
from tests.unit.loop_world import chain

OTHER = "00000000-0000-4000-8000-000000000002"
AT_ONCE = RetryPolicy(initial_backoff_ms=0)


async def test_a_step_costs_one_commit_with_the_next_lease_in_it(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, chain("a", "b", "c"))
    await worker.do_all(world.store)
    run = await world.run()
    assert (run.status, run.version) == (RunStatus.SUCCEEDED, 4)


async def test_no_more_is_assigned_than_credits_were_granted(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, [TaskSpec(task_id=f"t{n}") for n in range(5)])
    await worker.next()
    await worker.next()
    world.pass_time(1)
    await until(lambda: executor.stats["leases"] == 2)
    assert worker.pile.empty()


async def test_a_worker_with_0_credits_gets_nothing_until_it_grants_some(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=0)
    await world.start(executor, chain("a"))
    assert worker.pile.empty()
    assert worker.session is not None
    executor.credit(worker.session, 1)
    assert (await worker.next()).execution.task_id == "a"


async def test_a_step_goes_to_a_worker_of_its_role(world: ExecutorWorld) -> None:
    executor = world.executor()
    plain = FakeWorker(executor, worker_id="plain")
    cook = FakeWorker(executor, worker_id="cook", roles=("cook",))
    await plain.attach(credits=5)
    await cook.attach(credits=1)
    await world.start(executor, [TaskSpec(task_id="soup", role="cook"), TaskSpec(task_id="x")])
    assert (await cook.next()).execution.task_id == "soup"
    assert (await plain.next()).execution.task_id == "x"


async def test_an_assignment_brings_the_results_that_it_builds_on(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=5)
    await world.start(executor, chain("a", "b"))
    first = await worker.next()
    await worker.deliver(first, Completed(result=Payload(data=b"42")))
    second = await worker.next()
    assert [(r.task_id, r.payload) for r in second.results] == [("a", Payload(data=b"42"))]
    assert second.idempotency_key == f"{RUN}/b"


async def test_results_without_room_are_sent_by_reference(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=5)
    both = (TaskSpec(task_id="a"), TaskSpec(task_id="b"))
    await world.start(executor, [*both, TaskSpec(task_id="c", depends_on=("a", "b"))])
    for _ in both:
        large = Completed(result=Payload(data=bytes(900_000)))
        await worker.deliver(await worker.next(), large)
    last = await worker.next()
    assert [r.by_reference for r in last.results] == [True, False]


async def test_expired_lease_is_claimed_again(world: ExecutorWorld) -> None:
    executor = world.executor()
    dead, alive = FakeWorker(executor, worker_id="dead"), FakeWorker(executor, worker_id="alive")
    await dead.attach()
    await world.start(executor, chain("a", retry=AT_ONCE))
    lost = await dead.next()
    await alive.attach()
    world.pass_time(10_001)
    again = await alive.next()
    assert again.execution.attempt == 2
    assert await dead.cancelled.get() == "task:a#1"
    assert (await dead.deliver(lost)).status == "LEASE_LOST"
    assert (await alive.deliver(again)).status == "ACCEPTED"


async def test_a_heartbeat_keeps_the_lease(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, chain("a"))
    assignment = await worker.next()
    beat = Heartbeat(
        run_id=RUN, execution_id=assignment.execution.execution_id, token=assignment.token
    )
    for _ in range(3):
        world.pass_time(8_000)
        assert list(await executor.heartbeat(TENANT, [beat])) == [True]
    assert (await worker.deliver(assignment)).status == "ACCEPTED"
    assert list(await executor.heartbeat(TENANT, [beat])) == [False]


async def test_a_heartbeat_is_as_long_as_its_task_s_own_time_out_on_a_fresh_replica(
    world: ExecutorWorld,
) -> None:
    first = world.executor()
    worker = FakeWorker(first)
    await worker.attach()
    await world.start(first, chain("a", heartbeat_timeout_ms=1_000, retry=AT_ONCE))
    held = await worker.next()
    beat = Heartbeat(run_id=RUN, execution_id="task:a#1", token=held.token)
    second = world.executor()
    assert list(await second.heartbeat(TENANT, [beat])) == [True]
    other = FakeWorker(second, worker_id="other")
    await other.attach()
    world.pass_time(1_001)
    assert (await other.next()).execution.attempt == 2


async def test_cancelling_is_pushed_to_the_worker(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, chain("a"))
    assignment = await worker.next()
    await executor.send(TENANT, RUN, Cancel(reason="enough"))
    assert await worker.cancelled.get() == "task:a#1"
    assert (await worker.deliver(assignment)).status == "LEASE_LOST"


async def test_a_reconnect_keeps_the_leases_that_it_lists(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, chain("a"))
    assignment = await worker.next()
    assert worker.session is not None
    await executor.detach(worker.session)
    held = HeldLease(run_id=RUN, execution_id="task:a#1", token=assignment.token)
    gone = HeldLease(run_id=RUN, execution_id="task:a#9", token="0")
    assert list(await worker.attach(held=[held, gone])) == [True, False]
    assert (await worker.deliver(assignment)).status == "ACCEPTED"


async def test_a_lease_that_never_reached_its_worker_is_released_and_spends_nothing(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving()
    await world.start(executor, chain("a"))
    await worker.next()
    await worker.attach(held=[])
    again = await worker.next()
    assert again.execution.attempt == 2
    page = await world.store.page(TaskQuery(tenant_id=TENANT, run_id=RUN))
    assert page.items[0].spent == 0


async def test_the_newest_instance_wins_and_the_older_one_s_leases_are_over(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    old, new = FakeWorker(executor), FakeWorker(executor, instance_id="two")
    await old.attach()
    await world.start(executor, chain("a", retry=AT_ONCE))
    lost = await old.next()
    await new.attach()
    assert old.was_replaced
    again = await new.next()
    assert again.execution.attempt == 2
    assert (await old.deliver(lost)).status == "LEASE_LOST"
    page = await world.store.page(TaskQuery(tenant_id=TENANT, run_id=RUN))
    assert page.items[0].spent == 1


async def test_outcomes_of_one_run_that_arrive_together_make_one_commit(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=10)
    await world.start(executor, [TaskSpec(task_id=f"t{n}") for n in range(10)])
    assignments = [await worker.next() for _ in range(10)]
    replies = [executor.deliver(TENANT, RUN, delivery(one)) for one in assignments]
    await asyncio.gather(*replies)
    run = await world.run()
    assert (run.status, run.version) == (RunStatus.SUCCEEDED, 2)


class CountingStore(FaultyStore):
    """Counts the commits of each call."""

    groups: list[int]

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        self.groups.append(len(commits))
        return await super().commit(commits)


async def test_large_failures_keep_a_commits_events_within_the_limit(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=20)
    once = RetryPolicy(max_attempts=1)
    plan = [TaskSpec(task_id=f"t{n}", retry=once, on_failure=OnFailure.CONTINUE) for n in range(20)]
    await world.start(executor, plan)
    failed = Failed(failure=Failure(message="m" * 64_000, details="d" * 64_000))
    assignments = [await worker.next() for _ in plan]
    await asyncio.gather(*(worker.deliver(one, failed) for one in assignments))
    sizes: Counter[int] = Counter()
    after = 0
    while page := await world.store.read_events(TENANT, RUN, after=after, limit=1):
        for event in page.events:
            sizes[event.version] += len(msgspec.msgpack.encode(event))
            after = event.number
        if page.ended or not page.events:
            break
    assert max(sizes.values()) <= limits.EVENT_BYTES_PER_COMMIT_MAX
    assert len(sizes) < 20, "they still go together as far as they fit"


async def test_commits_of_many_runs_go_together(world: ExecutorWorld) -> None:
    store = CountingStore(world.store, world.runtime)
    store.groups = []
    executor = world.executor(store)
    starts = [world.start(executor, chain("a"), run_id=f"run-{n}") for n in range(100)]
    await asyncio.gather(*starts)
    assert sum(store.groups) == 100
    assert len(store.groups) < 10


async def test_S4_an_unknown_commit_is_asked_again_with_the_same_id(world: ExecutorWorld) -> None:
    class OnceUnknown(FaultyStore):
        asked: list[str]

        async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
            results = await super().commit(commits)
            self.asked += [commit.commit_id for commit in commits]
            if len(self.asked) == 1:
                raise OutcomeUnknown("the reply was lost")
            return results

    store = OnceUnknown(world.store, world.runtime)
    store.asked = []
    executor = world.executor(store)
    starting = asyncio.ensure_future(world.start(executor, chain("a")))
    await until(lambda: len(store.asked) == 1)
    world.pass_time(5_000)
    assert (await starting).status == "ACCEPTED"
    assert store.asked[0] == store.asked[1]


async def test_outcome_refused_by_the_store_can_be_sent_again(
    world: ExecutorWorld,
) -> None:
    class Refusing(FaultyStore):
        refusing = False

        async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
            if self.refusing:
                raise StoreUnavailable("not now")
            return await super().commit(commits)

    store = Refusing(world.store, world.runtime)
    executor, worker = await world.serving(store=store)
    await world.start(executor, chain("a"))
    assignment = await worker.next()
    store.refusing = True
    with pytest.raises(StoreUnavailable):
        await worker.deliver(assignment)
    store.refusing = False
    assert (await worker.deliver(assignment)).status == "ACCEPTED"


async def test_eager_leases_overtake_older_steps_only_for_a_moment(world: ExecutorWorld) -> None:
    executor = world.executor(stickiness_ms=50)
    worker = FakeWorker(executor)
    await worker.attach(credits=1)
    await world.start(executor, chain("a", "b", "c", "d"))
    await world.start(executor, chain("older"), run_id=OTHER)
    assert worker.session is not None
    order: list[str] = []
    for _ in range(3):
        assignment = await worker.next()
        order.append(assignment.execution.task_id)
        world.runtime.advance(30)
        executor.credit(worker.session, 1)
        await worker.deliver(assignment)
    assert order.index("older") <= 2


async def test_unknown_run_is_not_found(world: ExecutorWorld) -> None:
    executor = world.executor()
    with pytest.raises(RunNotFound):
        await executor.send(TENANT, RUN, Pause())


async def test_a_drain_gives_out_nothing_more_and_finishes_what_it_began(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=5)
    await world.start(executor, chain("a", "b"))
    assignment = await worker.next()
    reply = executor.deliver(TENANT, RUN, delivery(assignment))
    await executor.drain()
    assert (await reply).status == "ACCEPTED"
    assert worker.pile.empty()


async def test_a_commit_that_can_not_be_stored_harms_no_other(world: ExecutorWorld) -> None:
    class Picky(FaultyStore):
        async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
            if any(commit.run_id == "bad" for commit in commits):
                raise InvalidArgument("a lone surrogate can't be stored")
            return await super().commit(commits)

    executor = world.executor(Picky(world.store, world.runtime))
    bad = asyncio.ensure_future(world.start(executor, chain("a"), run_id="bad"))
    good = [
        asyncio.ensure_future(world.start(executor, chain("a"), run_id=f"good-{n}"))
        for n in range(5)
    ]
    assert [(await one).status for one in good] == ["ACCEPTED"] * 5
    with pytest.raises(InvalidArgument):
        await bad


async def test_T3_revoked_lease_notifies_its_own_tenants_worker_only(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    mine, foreign = FakeWorker(executor), FakeWorker(executor)
    foreign.presence = replace(foreign.presence, tenant_id="another")
    await foreign.attach()
    await mine.attach()
    await world.start(executor, chain("a"))
    await mine.next()
    await executor.send(TENANT, RUN, Cancel())
    assert await mine.cancelled.get() == "task:a#1"
    assert foreign.cancelled.empty()
    assert not foreign.was_replaced


async def test_a_run_that_has_ended_is_held_no_longer(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, chain("a"))
    await worker.do_all(world.store)
    await until(lambda: not executor._runs._hot)


async def test_two_streams_of_one_worker_at_once_leave_one_session(world: ExecutorWorld) -> None:
    store = FaultyStore(world.store, world.runtime)
    executor = world.executor(store)
    first, second = FakeWorker(executor), FakeWorker(executor)
    store.freeze()
    attaching = [asyncio.ensure_future(one.attach()) for one in (first, second)]
    await asyncio.sleep(0)
    store.thaw()
    await asyncio.gather(*attaching)
    assert len(executor.connected) == 1
    assert first.was_replaced is not second.was_replaced
