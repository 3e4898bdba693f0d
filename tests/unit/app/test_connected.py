"""ListWorkers and ListQueues: who is connected to any replica, what they hold, and what waits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepwell.core.port import LeaseQuery, Principal
from stepwell.core.records.errors import PageTokenInvalid
from stepwell.core.records.model import Payload, TaskSpec
from stepwell.core.records.routing import TaskPattern
from stepwell.core.records.states import StepKind
from stepwell.engine.executor import Executor, Heartbeat
from stepwell.rpc.caller import set_caller
from stepwell.rpc.orchestrator import connected
from stepwell_client.v1 import orchestrator_pb2 as pb
from stepwell_client.v1 import types_pb2
from tests.unit.engine.executor_world import RUN, TENANT, ExecutorWorld, FakeWorker, Rigged, until

PLAN = (TaskSpec(task_id="a"), TaskSpec(task_id="b"))
OTHER_RUN = RUN[:-1] + "2"


@pytest.fixture(autouse=True)
def _caller() -> None:
    set_caller(Principal("me", TENANT, frozenset()))


async def workers_of(executor: Executor, **fields: object) -> pb.ListWorkersResponse:
    return await connected.list_workers(executor, pb.ListWorkersRequest(**fields))  # pyright: ignore[reportArgumentType] - a test's shorthand


async def queues_of(executor: Executor, **fields: int | str) -> pb.ListQueuesResponse:
    return await connected.list_queues(executor, pb.ListQueuesRequest(**fields))  # pyright: ignore[reportArgumentType] - a test's shorthand


async def test_worker_is_listed_with_what_it_does_and_holds(world: ExecutorWorld) -> None:
    executor = world.executor()
    pattern = TaskPattern(kind=StepKind.TASK, type="*", role="writer")
    worker = FakeWorker(executor, tasks=(pattern,), version="2.1")
    worker.presence = replace(worker.presence, subject="build-7", kinds=(StepKind.TASK,))
    await worker.attach(3)
    await world.start(executor, (TaskSpec(task_id="a", role="writer"),))
    assignment = await worker.next()

    response = await workers_of(executor)
    (listed,) = response.workers

    assert response.replica_id == listed.replica_id == executor.replica_id
    assert (listed.worker_id, listed.instance_id, listed.subject) == ("worker", "one", "build-7")
    assert (list(listed.queues), listed.version) == (["default"], "2.1")
    assert list(listed.kinds) == [types_pb2.STEP_KIND_TASK]
    assert [(one.type, one.role) for one in listed.tasks] == [("*", "writer")]
    assert (listed.free_slots, listed.held_count) == (2, 1)
    (held,) = listed.held
    assert (held.run_id, held.execution_id) == (RUN, assignment.execution.execution_id)
    assert listed.HasField("connected_time")
    assert not listed.draining
    assert not listed.lapses


async def test_all_held_steps_count_and_the_first_ones_are_listed(
    world: ExecutorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connected, "HELD_MAX", 1)
    executor = world.executor()
    worker = FakeWorker(executor)
    await worker.attach(2)
    await world.start(executor, PLAN)
    for _ in PLAN:
        await worker.next()

    (listed,) = (await workers_of(executor)).workers

    assert (listed.held_count, len(listed.held)) == (2, 1)


async def test_input_schema_is_listed_by_its_worker_s_replica_if_asked_for(
    world: ExecutorWorld,
) -> None:
    executor, elsewhere = world.executor(), world.executor()
    await FakeWorker(executor).attach(input_schema='{"type":"string"}')

    (listed,) = (await workers_of(executor, view=types_pb2.VIEW_FULL)).workers
    assert listed.input_schema == '{"type":"string"}'
    (listed,) = (await workers_of(executor)).workers
    assert not listed.input_schema
    (listed,) = (await workers_of(elsewhere, view=types_pb2.VIEW_FULL)).workers
    assert not listed.input_schema


async def test_input_schema_is_that_of_the_newest_instance(world: ExecutorWorld) -> None:
    executor = world.executor()
    await FakeWorker(executor, instance_id="one").attach(input_schema='{"title":"old"}')
    await FakeWorker(executor, instance_id="two").attach()

    (listed,) = (await workers_of(executor, view=types_pb2.VIEW_FULL)).workers

    assert (listed.instance_id, listed.input_schema) == ("two", "")


async def test_workers_of_a_run_are_listed_with_its_steps_and_how_far_they_are(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    worker = FakeWorker(executor)
    await worker.attach(3)
    await FakeWorker(executor, worker_id="idle").attach(0)
    await world.start(executor, PLAN)
    first, second = [await worker.next() for _ in PLAN]
    await world.start(executor, PLAN[:1], run_id=OTHER_RUN)
    await worker.next()
    progress = Payload(data=b"half", media_type="text/plain")
    beat = Heartbeat(
        run_id=RUN,
        execution_id=first.execution.execution_id,
        token=first.token,
        progress=progress,
    )
    await executor.heartbeat(TENANT, [beat])

    (listed,) = (await workers_of(executor, run_id=RUN)).workers

    assert (listed.worker_id, listed.held_count) == ("worker", 2)
    held = {one.execution_id: one for one in listed.held}
    assert held[first.execution.execution_id].progress.data == b"half"
    assert not held[second.execution.execution_id].HasField("progress")
    assert worker.session is not None
    await executor.detach(worker.session)
    assert not (await workers_of(executor, run_id=RUN)).workers


async def test_leases_are_read_once_for_all_workers(world: ExecutorWorld) -> None:
    asked: list[object] = []

    async def note(_method: str, *args: object, **_: object) -> None:
        asked.extend(one for one in args if isinstance(one, LeaseQuery))

    executor = world.executor(Rigged(world.store, note))
    for name in "abc":
        await FakeWorker(executor, worker_id=name).attach()
    asked.clear()

    await workers_of(executor)
    await queues_of(executor)

    assert len(asked) == 2


async def test_worker_that_drains_is_listed_as_such(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    assert worker.session is not None
    executor.revoke_credits(worker.session)

    (listed,) = (await workers_of(executor)).workers

    assert listed.draining


async def test_worker_of_another_replica_is_listed_as_it_was_reported(world: ExecutorWorld) -> None:
    one, _ = await world.serving()
    other = world.executor()
    before = world.runtime.now_us()

    (listed,) = (await workers_of(other)).workers

    assert listed.replica_id == one.replica_id != other.replica_id
    assert listed.connected_time.ToMicroseconds() == before


async def test_worker_whose_lease_ran_out_is_listed_as_silent(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, PLAN[:1])
    await worker.next()

    world.pass_time(10_001)
    await until(lambda: executor.connected[0].lapses > 0)

    (listed,) = (await workers_of(executor)).workers
    assert listed.lapses == 1


async def test_newest_instance_of_a_worker_is_listed_alone(world: ExecutorWorld) -> None:
    one, _ = await world.serving()
    world.runtime.advance(1_000)
    other = world.executor()
    await FakeWorker(other, instance_id="two").attach()

    for executor in (one, other):
        (listed,) = (await workers_of(executor)).workers
        assert listed.instance_id == "two"


async def test_workers_come_in_pages_and_by_queue(world: ExecutorWorld) -> None:
    executor = world.executor()
    for name in ("c", "a", "b"):
        await FakeWorker(executor, worker_id=name, queue="q" if name == "b" else "default").attach()

    first = await workers_of(executor, page_size=2)
    second = await workers_of(executor, page_size=2, page_token=first.next_page_token)
    of_q = await workers_of(executor, queue="q")

    assert [one.worker_id for one in first.workers] == ["a", "b"]
    assert [one.worker_id for one in second.workers] == ["c"]
    assert not second.next_page_token
    assert [one.worker_id for one in of_q.workers] == ["b"]
    with pytest.raises(PageTokenInvalid):
        await workers_of(executor, queue="q", page_token=first.next_page_token)


async def test_workers_of_another_tenant_are_not_listed(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, PLAN[:1])
    await worker.next()

    set_caller(Principal("stranger", "another", frozenset()))

    assert not (await workers_of(executor)).workers
    assert not (await queues_of(executor)).queues


async def test_queue_is_listed_with_its_limit_its_workers_and_what_waits(
    world: ExecutorWorld,
) -> None:
    executor = world.executor(queue_limits=(("default", 1), ("unused", 4)))
    worker = FakeWorker(executor)
    await worker.attach(5)
    await world.start(executor, PLAN)
    await worker.next()
    await world.start(executor, PLAN, run_id=OTHER_RUN)
    waits_since = world.runtime.now_us()
    world.runtime.advance(1_000)
    await world.start(executor, PLAN, run_id=RUN[:-1] + "3", queue="nobody")

    response = await queues_of(executor)
    default, nobody, unused = response.queues

    assert response.complete
    assert response.replica_id == executor.replica_id
    assert (default.name, default.limit, default.in_use, default.workers) == ("default", 1, 1, 1)
    assert default.waiting_runs == 1
    assert default.waiting_since_time.ToMicroseconds() == waits_since
    assert (nobody.name, nobody.waiting_runs, nobody.workers) == ("nobody", 1, 0)
    assert not nobody.HasField("limit")
    assert (unused.name, unused.limit, unused.in_use) == ("unused", 4, 0)
    assert not unused.HasField("waiting_since_time")


async def test_step_of_a_worker_of_several_queues_counts_for_the_queue_of_its_run(
    world: ExecutorWorld,
) -> None:
    executor = world.executor()
    worker = FakeWorker(executor)
    worker.presence = replace(worker.presence, queues=("one", "two"))
    await worker.attach(2)
    await world.start(executor, PLAN, queue="two")
    for _ in PLAN:
        await worker.next()

    response = await queues_of(executor)

    assert [(one.name, one.in_use, one.workers) for one in response.queues] == [
        ("one", 0, 1),
        ("two", 2, 1),
    ]


async def test_queues_say_when_more_runs_wait_than_are_looked_at(
    world: ExecutorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connected, "RUNS_MAX", 1)
    executor = world.executor()
    for run_id in (RUN, OTHER_RUN):
        await world.start(executor, PLAN, run_id=run_id)

    response = await queues_of(executor)

    assert not response.complete
    assert [(one.name, one.waiting_runs) for one in response.queues] == [("default", 1)]


async def test_queues_say_when_steps_of_more_runs_are_held_than_are_looked_at(
    world: ExecutorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connected, "RUNS_MAX", 1)
    executor = world.executor()
    worker = FakeWorker(executor)
    worker.presence = replace(worker.presence, queues=("one", "two"))
    await worker.attach(2)
    for run_id in (RUN, OTHER_RUN):
        await world.start(executor, PLAN[:1], run_id=run_id, queue="two")
        await worker.next()

    response = await queues_of(executor)

    assert not response.complete
    assert [(one.name, one.in_use) for one in response.queues] == [("one", 0), ("two", 1)]


async def test_queues_come_in_pages(world: ExecutorWorld) -> None:
    executor = world.executor(queue_limits=(("b", 1), ("a", 1)))

    first = await queues_of(executor, page_size=1)
    second = await queues_of(executor, page_size=1, page_token=first.next_page_token)

    assert [one.name for one in (*first.queues, *second.queues)] == ["a", "b"]
    assert not second.next_page_token
