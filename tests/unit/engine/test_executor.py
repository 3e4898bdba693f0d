"""The shell around the loop: leases, credits, expiry, and what is told when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context
from stepwell.core.loop.occurrences import Cancel, Completed, Failed, Occurrence, Planned
from stepwell.core.loop.state import RunState
from stepwell.core.loop.transition import Reply, Transition
from stepwell.core.port import Commit, CommitResult, TaskQuery
from stepwell.core.records import limits
from stepwell.core.records.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StoreStopped,
)
from stepwell.core.records.model import Failure, Payload, RetryPolicy, TaskSpec
from stepwell.core.records.states import OnFailure, RunStatus
from stepwell.engine import claims
from stepwell.engine.executor import Heartbeat, HeldLease
from stepwell_testkit.proxy import StoreProxy
from tests.unit.core.loop_world import chain
from tests.unit.engine.executor_world import (
    RUN,
    TENANT,
    ExecutorWorld,
    FakeWorker,
    Rigged,
    Slow,
    delivery,
    until,
)

OTHER = "00000000-0000-4000-8000-000000000002"
AT_ONCE = RetryPolicy(initial_backoff_ms=0)


async def test_a_step_costs_one_commit_with_the_next_lease_in_it(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=2)
    await world.start(executor, chain("a", "b", "c"))
    await worker.do_all(world.store)
    run = await world.run()
    assert (run.status, run.version) == (RunStatus.SUCCEEDED, 4)


async def test_exactly_as_much_is_assigned_as_credits_were_granted(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=0)
    await world.start(executor, [TaskSpec(task_id=f"t{n}") for n in range(5)])
    assert worker.pile.empty()
    worker.credit(2)
    await worker.next()
    await worker.next()
    world.pass_time(1)
    await until(lambda: executor.stats["leases"] == 2)
    assert worker.pile.empty()


async def test_an_assignment_brings_the_results_that_it_builds_on(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=5)
    await world.start(executor, chain("a", "b"))
    first = await worker.next()
    await worker.deliver(first, Completed(result=Payload(data=b"42")))
    second = await worker.next()
    assert [(r.task_id, r.payload) for r in second.results] == [("a", Payload(data=b"42"))]
    assert second.idempotency_key == f"{RUN}/task:b@1"


async def test_a_function_that_does_nothing_for_too_long_is_timed_out(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=5)
    retry = RetryPolicy(initial_backoff_ms=0)
    hung = TaskSpec(task_id="hung", idle_timeout_ms=3_000, retry=retry)
    await world.start(executor, [hung, TaskSpec(task_id="free")])
    got = {(one := await worker.next()).execution.task_id: one for _ in range(2)}

    async def beat(task_id: str, idle_ms: int) -> bool:
        one = got[task_id]
        name = one.execution.execution_id
        beat = Heartbeat(
            run_id=RUN,
            execution_id=name,
            token=one.token,
            progress=Payload(data=b"half"),
            idle_ms=idle_ms,
        )
        alive = (await executor.heartbeat(TENANT, [beat]))[0]
        await executor.quiet()
        return alive

    version = (await world.run()).version
    assert await beat("hung", 2_999)
    assert await beat("free", 99_999)
    assert (await world.run()).version == version
    await beat("hung", 3_000)
    assert await worker.cancelled.get() == "task:hung#1"
    assert not await beat("hung", 3_100)
    again = await worker.next()
    assert (again.execution.attempt, again.previous_progress) == (2, Payload(data=b"half"))
    assert again.previous_failure is not None
    assert again.previous_failure.kind == "TIMED_OUT"
    assert again.previous_failure.message == "its function did nothing for 3 s"


async def test_a_heartbeat_that_says_nothing_of_the_function_is_no_sign_of_its_life(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving(credits=5)
    await world.start(executor, [TaskSpec(task_id="hung", idle_timeout_ms=3_000)])
    got = await worker.next()

    async def beat(**fields: Any) -> None:
        name = got.execution.execution_id
        plain = Heartbeat(run_id=RUN, execution_id=name, token=got.token, **fields)
        await executor.heartbeat(TENANT, [plain])
        await executor.quiet()

    await beat()
    world.pass_time(3_000)
    await beat(idle_ms=0)
    assert worker.cancelled.empty()
    await beat()
    assert await worker.cancelled.get() == "task:hung#1"


async def test_an_outcome_that_is_sent_again_gets_its_first_answer(world: ExecutorWorld) -> None:
    executor, worker = await world.serving(credits=5)
    once = RetryPolicy(max_attempts=1)
    skips = OnFailure.SKIP_DEPENDENTS
    specs = [TaskSpec(task_id=name, retry=once, on_failure=skips) for name in "abcd"]
    await world.start(executor, specs)
    results = (
        Completed(result=Payload(data=b"1")),
        Failed(failure=Failure(kind="PLAN_INVALID")),
        Planned(tasks=()),
        Completed(),
    )
    sent = [(await worker.next(), result) for result in results]
    first = [await worker.deliver(*one) for one in sent]
    assert [one.status for one in first] == ["ACCEPTED", "ACCEPTED", "REJECTED", "ACCEPTED"]
    assert await world.status() is RunStatus.SUCCEEDED

    other = FakeWorker(world.executor())  # Of another replica, which has nothing of it in memory.
    version = (await world.run()).version
    assert [await other.deliver(*one) for one in sent] == first
    assignment = sent[0][0]
    for lost in (
        (assignment, Completed(result=Payload(data=b"2"))),
        (replace(assignment, token=sent[1][0].token), results[0]),
    ):
        assert (await other.deliver(*lost)).status == "LEASE_LOST"
    assert other.executor.stats["stale_outcomes"] == 2
    assert (await world.run()).version == version


async def test_an_outcome_that_comes_twice_at_once_is_accepted_twice(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, [TaskSpec(task_id="a")])
    assignment = await worker.next()
    replies = [executor.deliver(TENANT, RUN, delivery(assignment)) for _ in range(3)]
    assert [(await reply).status for reply in replies] == ["ACCEPTED"] * 3


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


@pytest.mark.parametrize(("instance_id", "lost"), [("one", 0), ("two", 1)])
async def test_unlisted_leases_end_and_only_those_of_another_instance_are_losses(
    world: ExecutorWorld, instance_id: str, lost: int
) -> None:
    executor, old = await world.serving()
    await world.start(executor, chain("a", retry=AT_ONCE))
    held = await old.next()
    new = FakeWorker(executor, instance_id=instance_id)
    await new.attach(held=[])
    assert old.was_replaced
    assert (await new.next()).execution.attempt == 2
    assert (await old.deliver(held)).status == "LEASE_LOST"
    page = await world.store.page(TaskQuery(tenant_id=TENANT, run_id=RUN))
    assert page.items[0].losses.count == lost


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


async def test_commits_go_together_and_one_that_cannot_be_stored_harms_no_other(
    world: ExecutorWorld,
) -> None:
    groups: list[int] = []

    async def first(method: str, *args: Any, **_: Any) -> None:
        if method == "commit":
            groups.append(len(args[0]))
            if any(commit.run_id == "bad" for commit in args[0]):
                raise InvalidArgument("a lone surrogate can't be stored")

    executor = world.executor(Rigged(world.store, first))
    names = ["bad", *(f"good-{n}" for n in range(99))]
    starts = [world.start(executor, chain("a"), run_id=run_id) for run_id in names]
    bad, *good = await asyncio.gather(*starts, return_exceptions=True)
    assert isinstance(bad, InvalidArgument)
    assert all(isinstance(one, Reply) and one.status == "ACCEPTED" for one in good)
    assert max(groups) > 10


async def test_S4_an_unknown_commit_is_asked_again_with_the_same_id(world: ExecutorWorld) -> None:
    asked: list[str] = []

    class OnceUnknown(StoreProxy):
        async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
            results = await super().commit(commits)
            asked.extend(commit.commit_id for commit in commits)
            if len(asked) == 1:
                raise OutcomeUnknown("the reply was lost")
            return results

    executor = world.executor(OnceUnknown(world.store))
    starting = asyncio.ensure_future(world.start(executor, chain("a")))
    await until(lambda: len(asked) == 1)
    world.pass_time(5_000)
    assert (await starting).status == "ACCEPTED"
    assert asked[0] == asked[1]


async def test_commit_to_a_store_that_stopped_is_unknown_at_once(world: ExecutorWorld) -> None:
    class Stopping(StoreProxy):
        asked = 0

        async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
            self.asked += 1
            if self.asked == 1:
                raise OutcomeUnknown("the file was moved")
            raise StoreStopped("the store stopped: the file was moved")

    executor = world.executor(store := Stopping(world.store))
    starting = asyncio.ensure_future(world.start(executor, chain("a")))
    await until(lambda: store.asked == 1)
    world.pass_time(5_000)
    with pytest.raises(OutcomeUnknown, match="stopped"):
        await starting
    with pytest.raises(StoreStopped):
        await world.start(executor, chain("a"), run_id=OTHER)


async def test_eager_leases_overtake_older_steps_only_for_a_moment(world: ExecutorWorld) -> None:
    executor = world.executor(stickiness_ms=50)
    worker = FakeWorker(executor)
    await worker.attach(credits=1)
    await world.start(executor, chain("a", "b", "c", "d"))
    await world.start(executor, chain("older"), run_id=OTHER)
    order: list[str] = []
    for _ in range(3):
        assignment = await worker.next()
        order.append(assignment.execution.task_id)
        world.runtime.advance(30)
        worker.credit()
        await worker.deliver(assignment)
    assert order.index("older") <= 2


async def test_run_keeps_its_place_for_stickiness_ms_while_others_wait(
    world: ExecutorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pause of the claims would end by the event loop's clock, among the steps.
    monkeypatch.setattr(claims, "HINT_PAUSE_SECONDS", 0.0)
    executor = world.executor(stickiness_ms=50, poll_ms=600_000)
    worker = FakeWorker(executor)
    await worker.attach(credits=1)
    await world.start(executor, chain(*"abcdef"))
    await world.start(executor, chain(*"ghijkl"), run_id=OTHER)
    order: list[str] = []
    for _ in range(12):
        assignment = await worker.next()
        order.append(assignment.run.run_id)
        world.runtime.advance(20)
        await worker.deliver_with_credits(assignment, 1)
    assert [(run, len([*many])) for run, many in groupby(order)] == [(RUN, 3), (OTHER, 3)] * 2


async def test_claimed_step_whose_worker_was_given_another_is_leased_once_one_is_free(
    world: ExecutorWorld,
) -> None:
    class SlowClaims(Slow):
        answered = 0

        async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
            answer = await super().call(method, *args, **kwargs)
            self.answered += method == "claim"
            return answer

    store = SlowClaims(world.store, "claim")
    executor = world.executor(store)
    store.go_on.set()
    await until(lambda: store.answered == 1)
    store.go_on.clear()
    await world.start(executor, chain("a"))
    worker = FakeWorker(executor)
    await worker.attach(credits=1)
    await until(lambda: store.waiting == 2)
    await world.start(executor, chain("b"), run_id=OTHER)
    assert (await worker.next()).run.run_id == OTHER
    store.go_on.set()
    await until(lambda: store.answered == 2)
    worker.credit()
    assert (await worker.next()).run.run_id == RUN


async def test_run_keeps_no_more_places_than_it_leaves_while_others_wait(
    world: ExecutorWorld,
) -> None:
    executor = world.executor(stickiness_ms=50)
    worker = FakeWorker(executor)
    await worker.attach(credits=1)
    first, second = (RUN.replace("0001", f"000{number}") for number in (3, 4))
    await world.start(executor, chain("a", "b"), run_id=first)
    fan_out = [TaskSpec(task_id="a"), *(TaskSpec(task_id=n, depends_on=("a",)) for n in "bcd")]
    await world.start(executor, fan_out)
    await world.start(executor, chain("a"), run_id=second)
    world.runtime.advance(60)
    await worker.deliver_with_credits(await worker.next(), 1)
    claimed = await worker.next()
    assert claimed.run.run_id == RUN
    await worker.deliver_with_credits(claimed, 2)
    assert {(await worker.next()).run.run_id for _ in range(2)} == {RUN, second}


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
    store = Slow(world.store, "put_presence")
    executor = world.executor(store)
    first, second = FakeWorker(executor), FakeWorker(executor)
    attaching = [asyncio.ensure_future(one.attach()) for one in (first, second)]
    await asyncio.sleep(0)
    store.go_on.set()
    await asyncio.gather(*attaching)
    assert len(executor.connected) == 1
    assert first.was_replaced is not second.was_replaced


async def test_decision_that_raises_fails_its_own_run_alone(
    world: ExecutorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor, worker = await world.serving(credits=3)
    others = [RUN.replace("0001", f"000{number}") for number in (2, 3)]
    for run_id in (RUN, *others):
        await world.start(executor, [TaskSpec(task_id="a")], run_id=run_id)
    got = [await worker.next() for _ in range(3)]

    def decide(state: RunState, occurrences: Sequence[Occurrence], context: Context) -> Transition:
        if state.run.spec.run_id == RUN:
            raise ZeroDivisionError
        return advance(state, occurrences, context)

    monkeypatch.setattr("stepwell.engine.runs.advance", decide)
    replies = await asyncio.gather(*(worker.deliver(one) for one in got), return_exceptions=True)
    assert isinstance(replies[0], ZeroDivisionError)
    assert [await world.status(run_id) for run_id in others] == [RunStatus.SUCCEEDED] * 2
    monkeypatch.undo()
    assert (await worker.deliver(got[0])).status == "ACCEPTED"
