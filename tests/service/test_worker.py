"""Workers: leases, acknowledgements after the commit, bad items, instances, credits."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest

from stepwell.config import ExecutorSettings, WatchSettings
from stepwell.core.records.errors import StoreUnavailable
from stepwell.rpc.worker import stream
from stepwell.store.opener import open_store
from stepwell.wire.plans import SLICE_TASKS
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from stepwell_testkit.proxy import StoreProxy
from tests.service.conftest import (
    ME,
    NO_RUN,
    Client,
    World,
    bearer,
    completed,
    lease_of,
    outcome,
    refusal,
)
from tests.service.test_append import LIVE, append, appended, lines, messages

ACCEPTED, LOST = wpb.ACK_STATUS_ACCEPTED, wpb.ACK_STATUS_LEASE_LOST
REJECTED = wpb.ACK_STATUS_REJECTED
MIB = 1024 * 1024
UNSOUND = types_pb2.TaskSpec(task_id="a", depends_on=["b"])
UNNAMED = types_pb2.TaskSpec(title="a")
LONG = types_pb2.PlanDraft(tasks=[{"task_id": f"t{n}"} for n in range(SLICE_TASKS)] + [UNNAMED])


async def test_welcome_dictates_the_terms(world: World) -> None:
    server = await world.server(executor=ExecutorSettings(lease_ms=8_000))
    client = await world.client(server)

    async with client.worker() as worker:
        assert worker.welcome.lease_duration.ToMilliseconds() == 8_000
        assert worker.welcome.heartbeat_interval.ToMilliseconds() == 2_000
        assert worker.welcome.replica_id == server.deps.executor.replica_id


async def test_idle_stream_has_an_empty_message_each_interval(world: World) -> None:
    """Proxies cut streams on which nothing passes, in either direction."""
    server = await world.server(watch=WatchSettings(progress_ms=20))
    client = await world.client(server)
    async with client.worker() as worker:
        for _ in range(3):
            response: Any = await worker.call.read()
            assert not response.ListFields()
            # The answer of a worker: it changes nothing.
            await worker.send()


async def test_many_outcomes_in_a_message_are_each_acknowledged(client: Client) -> None:
    await client.start_tasks(*(f"t{i}" for i in range(30)), queue="q", max_parallel=30)
    async with client.worker(queues=["q"], grant=30) as worker:
        got = [await worker.assignment() for _ in range(30)]
        await worker.send(*(completed(one) for one in got))
        acks = [await worker.ack() for _ in got]

    assert {ack.status for ack in acks} == {ACCEPTED}
    assert {ack.delivery_id for ack in acks} == {completed(one).delivery_id for one in got}


async def test_R1_results_that_no_store_takes_stay_with_their_worker(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(StoreProxy):
        """A store that answers no load until it is told to."""

        go_on = asyncio.Event()

        async def load(self, tenant_id: str, run_id: str, *, since: int = 0) -> Any:
            await self.go_on.wait()
            return await self.inner.load(tenant_id, run_id, since=since)

    monkeypatch.setattr(stream, "UNANSWERED_BYTES_MAX", 8 * MIB)
    store = Stuck(await open_store("memory://", runtime=world.runtime))
    client = await world.client(await world.server(store=store))
    stranger: dict[str, Any] = {
        "lease": wpb.Lease(run_id=NO_RUN, execution_id="task:a#1", token="1" * 32)
    }
    result = wpb.Outcome.Completed(result=types_pb2.Payload(data=bytes(MIB)))
    async with client.worker() as worker:

        async def send() -> None:
            for number in range(100):
                one = wpb.Outcome(delivery_id=f"{number}", **stranger, completed=result)
                await worker.send(one)

        sending = asyncio.ensure_future(send())
        done, _ = await asyncio.wait((sending,), timeout=1.0)
        assert not done
        store.go_on.set()
        await sending
        assert {(await worker.ack()).status for _ in range(100)} == {LOST}
    await store.close()


async def test_results_are_read_by_a_worker_s_own_scope_and_lease(client: Client) -> None:
    tasks = [types_pb2.TaskSpec(task_id=one) for one in ("a", "b")]
    tasks.append(types_pb2.TaskSpec(task_id="c", depends_on=["a", "b"]))
    await client.start(plan=types_pb2.PlanDraft(tasks=tasks), queue="q")
    large = b'"' + b"r" * 900_000 + b'"'
    async with client.worker(queues=["q"]) as worker:
        for _ in range(2):
            await worker.complete(await worker.assignment(), large)
        got = await worker.assignment()
        assert [one.by_reference for one in got.results] == [True, False]
        ask = partial(client.ask, "ReadResults", task_ids=["a", "c"], metadata=bearer("worker"))
        read = await ask(**lease_of(got))
        assert [(one.task_id, one.payload.data) for one in read.results] == [("a", large)]
        assert (read.next_page_token, read.lease.status) == ("", wpb.LEASE_STATUS_LIVE)
        other = await ask(**lease_of(got, token="f" * 32))
        assert (list(other.results), other.lease.status) == ([], wpb.LEASE_STATUS_LOST)


async def test_cancelled_run_notifies_its_workers(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    run_id = run.spec.run_id
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await client.ask("CancelRun", run_id=run_id)
        cancellation = await worker.cancellation()
        ack = await worker.complete(got)
        beat = await client.ask("Heartbeat", heartbeats=[wpb.LeaseHeartbeat(**lease_of(got))])
        late = wpb.Appended(**lease_of(got), logs=[wpb.LogLine(text="late")])
        kept = await client.ask("AppendOutput", appended=[late])

    assert (cancellation.lease.run_id, cancellation.lease.execution_id) == (
        run_id,
        got.execution.execution_id,
    )
    assert ack.status == LOST
    for state in (*beat.leases, *kept.leases):
        assert state.status == wpb.LEASE_STATUS_LOST
        assert state.cancel_requested


# --- bad input ---------------------------------------------------------------------------------------


async def test_two_workers_with_one_id(client: Client) -> None:
    await client.start_tasks("a", "b", queue="q")
    async with client.worker("w", "old", queues=["q"], grant=1) as old:
        first = await old.assignment()
        held = first.lease
        lost = wpb.Lease(run_id=NO_RUN, execution_id="task:x#1", token=first.lease.token)
        async with client.worker("w", "new", queues=["q"], held=[held, lost]) as new:
            ended = await old.until_end()
            ack = await new.complete(first)

            assert ended is not None
            assert ended.reason == wpb.WORK_END_REASON_REPLACED
            assert await old.call.code() is grpc.StatusCode.OK
            statuses = [state.status for state in new.welcome.held]
            assert statuses == [wpb.LEASE_STATUS_LIVE, wpb.LEASE_STATUS_LOST]
            assert ack.status == ACCEPTED
            assert (await new.complete(await new.assignment())).status == ACCEPTED


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (wpb.WorkRequest(credits=1), "hello"),
        (
            wpb.WorkRequest(hello=wpb.Hello(worker_id="w", instance_id="i"), credits=1_001),
            "credits",
        ),
        (wpb.WorkRequest(hello=wpb.Hello(instance_id="i")), "hello.worker_id"),
        (
            wpb.WorkRequest(
                hello=wpb.Hello(worker_id="w", instance_id="i", input_schema="x" * 65_537)
            ),
            "hello.input_schema",
        ),
        (
            wpb.WorkRequest(hello=wpb.Hello(worker_id="{w}", instance_id="i")),
            "hello.worker_id",
        ),
    ],
    ids=["no hello", "credits", "no name", "large schema", "odd name"],
)
async def test_a_stream_that_does_not_begin_with_a_good_hello(
    client: Client, request_: wpb.WorkRequest, field: str
) -> None:
    call = client.work.Work(metadata=ME)
    await call.write(request_)

    error = await refusal(call.read())

    assert (error.code, error.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])


async def test_a_second_hello_ends_the_stream(client: Client) -> None:
    async with client.worker() as worker:
        await worker.call.write(wpb.WorkRequest(hello=wpb.Hello(worker_id="w", instance_id="i")))
        error = await refusal(worker.until_end())

    assert (error.code, error.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["hello"])


async def test_one_bad_outcome_fails_its_own_execution_and_nothing_else(client: Client) -> None:
    tasks = [types_pb2.TaskSpec(task_id=name) for name in ("bad", "good")]
    tasks[0].on_failure = types_pb2.ON_FAILURE_CONTINUE
    run = await client.start(plan=types_pb2.PlanDraft(tasks=tasks), queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = {one.execution.task_id: one for one in [await worker.assignment() for _ in range(2)]}
        oversize = completed(got["bad"], bytes(1024 * 1024 + 1))
        await worker.send(oversize, completed(got["good"]))
        acks = {ack.delivery_id: ack for ack in [await worker.ack() for _ in range(2)]}

    bad, good = acks["d/task:bad#1"], acks["d/task:good#1"]
    assert good.status == ACCEPTED
    assert bad.status == REJECTED
    # Another attempt would come to the same size.
    assert (bad.failure.kind, bad.failure.retryable) == ("RESULT_TOO_LARGE", False)
    assert [one.field for one in bad.failure.violations] == ["completed.result.data"]
    done = await client.wait(run.spec.run_id)
    assert done.status == types_pb2.RUN_STATUS_SUCCEEDED
    assert (done.counts.completed, done.counts.failed) == (1, 1)


async def test_outcome_with_undecodable_text_is_rejected_alone(client: Client) -> None:
    await client.start_tasks("bad", "good", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = {one.execution.task_id: one for one in [await worker.assignment() for _ in range(2)]}
        failure = types_pb2.Failure(kind="k", message="???")
        failed = outcome(got["bad"], failed=wpb.Outcome.Failed(failure=failure))
        request = wpb.ReportOutcomesRequest(outcomes=[failed, completed(got["good"])])
        raw = request.SerializeToString().replace(b"???", b"\xed\xa0\xbd")
        read: Any = wpb.ReportOutcomesResponse.FromString
        call = client.channel.unary_unary("/stepwell.v1.Worker/ReportOutcomes", None, read)
        bad, good = (await call(raw, metadata=ME)).acks

    assert (bad.status, good.status) == (REJECTED, ACCEPTED)
    assert [one.field for one in bad.failure.violations] == ["failed.failure.message"]


async def test_an_outcome_that_names_no_lease_is_rejected_alone(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        await worker.send(
            outcome(got, delivery_id="1", **lease_of(got, run_id="no name")),
            outcome(got, delivery_id="2", lease={"run_id": "r", "execution_id": "e"}),
            outcome(got, delivery_id="", lease={"run_id": "r", "token": "t"}),
        )
        acks = [await worker.ack() for _ in range(3)]
        assert {ack.status for ack in acks} == {REJECTED}
        assert all(ack.failure.violations for ack in acks)
        assert (await worker.complete(got)).status == ACCEPTED


@pytest.mark.parametrize(
    ("fields", "kind", "paths"),
    [
        (
            {"reflected": wpb.Outcome.Reflected(decision=types_pb2.DECISION_FINISH)},
            "INVALID_OUTCOME",
            [],
        ),
        (
            {"planned": wpb.Outcome.Planned(plan=types_pb2.PlanDraft(tasks=[UNSOUND]))},
            "PLAN_INVALID",
            ["plan.tasks[0].depends_on[0]"],
        ),
        (
            {"planned": wpb.Outcome.Planned(plan=types_pb2.PlanDraft(tasks=[UNNAMED]))},
            "INVALID_OUTCOME",
            ["planned.plan.tasks[0].task_id"],
        ),
        (
            {"planned": wpb.Outcome.Planned(plan=LONG)},
            "INVALID_OUTCOME",
            [f"planned.plan.tasks[{SLICE_TASKS}].task_id"],
        ),
    ],
    ids=["wrong kind", "unsound plan", "task beyond a limit", "task beyond a limit, long plan"],
)
async def test_an_outcome_that_does_not_fit_is_rejected_with_its_fields(
    client: Client, fields: dict[str, Any], kind: str, paths: list[str]
) -> None:
    await client.start(goal="g", queue="q")
    async with client.worker(queues=["q"]) as worker:
        ack = await worker.report(outcome(await worker.assignment(), **fields))

    assert (ack.status, ack.failure.kind) == (REJECTED, kind)
    assert [one.field for one in ack.failure.violations] == paths


@pytest.mark.parametrize("by", ["Work", "ReportOutcomes"])
async def test_text_that_no_store_can_hold_is_kept_with_escapes(client: Client, by: str) -> None:
    odd, kept, kept_in_a_line = "a\x00\n", "a\\x00\n", "a\\x00\\x0a"
    session = types_pb2.Session(backend=odd, session_id=odd)
    said = [types_pb2.Message(role=odd, content=odd)]
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        beat = wpb.LeaseHeartbeat(**lease_of(got), session=session)
        assert (await client.ask("Heartbeat", heartbeats=[beat])).leases[0].status == LIVE
        assert await append(client, appended(got, odd, messages=said)) == [LIVE]
        failure = {"kind": odd, "message": odd, "details": odd, "retryable": False}
        last = outcome(
            got, session=session, messages=said, messages_after=1, failed={"failure": failure}
        )
        if by == "Work":
            ack = await worker.report(last)
        else:
            (ack,) = (await client.ask("ReportOutcomes", outcomes=[last])).acks
    assert ack.status == ACCEPTED
    assert [line.text for line in await lines(client, run.spec.run_id)] == [kept]
    (row,) = (await client.ask("ListExecutions", run_id=run.spec.run_id)).executions
    assert (row.failure.kind, row.failure.message) == (kept_in_a_line, kept)
    assert (row.session.backend, row.session.session_id) == (kept_in_a_line, kept_in_a_line)
    for message in (await messages(client, run.spec.run_id)).messages:
        assert (message.role, message.content) == (kept_in_a_line, kept)


async def test_a_message_over_4_mib_ends_the_stream(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        large = [completed(got, bytes(1024 * 1024), delivery_id=str(i)) for i in range(5)]
        await worker.call.write(wpb.WorkRequest(outcomes=large))
        error = await refusal(worker.until_end())

    assert (error.code, error.reason) == (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        "MESSAGE_TOO_LARGE",
    )


# --- ends --------------------------------------------------------------------------------------------


async def test_a_worker_that_closes_its_side_still_gets_its_acknowledgements(
    client: Client,
) -> None:
    await client.start_tasks("a", "b", queue="q")
    async with client.worker(queues=["q"], grant=2) as worker:
        got = [await worker.assignment() for _ in range(2)]
        await worker.send(*(completed(one) for one in got))
        await worker.call.done_writing()
        acks = [await worker.ack() for _ in got]
        await worker.until_end()

        assert {ack.status for ack in acks} == {ACCEPTED}
        assert await worker.call.code() is grpc.StatusCode.OK


async def test_outcomes_are_taken_without_a_stream(client: Client) -> None:
    await client.start_tasks("a", "b", queue="q")
    async with client.worker(queues=["q"], grant=2) as worker:
        got = [await worker.assignment() for _ in range(2)]
    bad = completed(got[0], bytes(1024 * 1024 + 1))
    other = completed(got[1], b"other")
    request = wpb.ReportOutcomesRequest(outcomes=[completed(got[1]), bad, completed(got[1]), other])

    reply = await client.work.ReportOutcomes(request, metadata=ME)

    statuses = [ack.status for ack in reply.acks]
    assert statuses == [ACCEPTED, REJECTED, ACCEPTED, LOST]
    assert [ack.lease.execution_id for ack in reply.acks] == [
        one.execution.execution_id for one in (got[1], got[0], got[1], got[1])
    ]
    again = await client.work.ReportOutcomes(request, metadata=ME)
    assert again == reply, "an outcome that is sent again gets its first answer again"


async def test_an_outcome_that_the_store_can_not_take_is_not_acknowledged(world: World) -> None:
    server = await world.server()
    client = await world.client(server)
    await client.start_tasks("a", queue="q")
    store: Any = server.store
    commit = store.commit

    async def refuse(_commits: Any) -> Any:
        raise StoreUnavailable("the disk is full")

    async with client.worker(queues=["q"]) as worker:
        got = await worker.assignment()
        store.commit = refuse
        await worker.send(completed(got))
        error = await refusal(worker.until_end())
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
    assert error.retry
    error = await refusal(client.ask("ReportOutcomes", outcomes=[completed(got)]))
    assert error.code is grpc.StatusCode.UNAVAILABLE

    store.commit = commit
    reply = await client.ask("ReportOutcomes", outcomes=[completed(got)])
    assert reply.acks[0].status == ACCEPTED


async def test_draining_worker_is_given_nothing_more_whatever_it_releases(client: Client) -> None:
    await client.start_tasks("a", "b", queue="q")
    async with client.worker(queues=["q"], grant=10) as worker:
        got = [await worker.assignment() for _ in range(2)]
        back = [outcome(one, released=wpb.Outcome.Released(reason="drains")) for one in got]
        await worker.call.write(wpb.WorkRequest(outcomes=back, credits=5, draining=True))
        assert [(await worker.ack()).status for _ in back] == [ACCEPTED] * 2
        async with client.worker("other", queues=["q"], grant=2) as other:
            again = [await other.assignment() for _ in range(2)]
    assert {one.execution.attempt for one in again} == {2}
