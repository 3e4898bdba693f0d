"""AT_MOST_ONCE tasks over each store: a worker dies after it began, and somebody says what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import pytest

from stepwell_client import (
    Agent,
    BlockedKind,
    Done,
    Effect,
    ExecutionStatus,
    FailedPrecondition,
    Failure,
    NotDone,
    ReconcileContext,
    RunHandle,
    RunStatus,
    StepKind,
    Task,
    TaskContext,
    Worker,
)
from stepwell_client.v1 import orchestrator_pb2, types_pb2
from tests.service.capabilities.conftest import Served
from tests.service.capabilities.silence import go_silent
from tests.support import patience
from tests.support.patience import PATIENCE_S

ONCE = "task:charge#1"


class Bank:
    """The place of the effect; it counts how often it happened."""

    def __init__(self) -> None:
        self.charges = 0
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    def agent(self, *, answer: Callable[[ReconcileContext], object] | None = None) -> Agent:
        agent = Agent("bank")

        @agent.task("charge")
        async def charge(ctx: TaskContext) -> str:
            ctx.session("bank", "s1")
            self.charges += 1
            self.reached.set()
            await self.go_on.wait()
            return f"paid by attempt {ctx.attempt}"

        if answer is not None:

            @agent.reconcile("charge")
            def reconcile(ctx: ReconcileContext) -> object:
                return answer(ctx)

        return agent


def task(**fields: object) -> Task:
    return Task("charge", "charge", effect=Effect.AT_MOST_ONCE, **fields)  # pyright: ignore[reportArgumentType] - a test's shorthand


@asynccontextmanager
async def cut_off(
    served: Served, bank: Bank, **fields: object
) -> AsyncIterator[tuple[RunHandle, Worker]]:
    """Yield a run whose worker began and then was heard of no more, and that worker."""
    run = await served.client.start("pay", plan=[task(**fields)])
    async with served.worker(bank.agent(), worker_id="dying", concurrency=1) as worker:
        await bank.reached.wait()
        await go_silent(served, worker, run.id)
        yield run, worker
        bank.go_on.set()


async def until(run: RunHandle, seen: Callable[[types_pb2.Run], bool]) -> types_pb2.Run:
    async with asyncio.timeout(PATIENCE_S):
        async with run.watch() as watch:
            async for _ in watch:
                found = await run.refresh()
                if seen(found):
                    return found
    return await run.refresh()


def is_unknown(run: types_pb2.Run) -> bool:
    return run.blocked_on == BlockedKind.UNKNOWN_OUTCOME


async def executions(served: Served, run: RunHandle) -> dict[str, types_pb2.Execution]:
    return {one.execution_id: one async for one in served.client.executions(run.id)}


def stream_of(worker: Worker) -> object:
    return worker._call


async def test_a_late_outcome_settles_it(served: Served) -> None:
    bank = Bank()
    async with cut_off(served, bank) as (run, _):
        found = await until(run, is_unknown)
        assert found.status == RunStatus.WAITING
        row = (await executions(served, run))[ONCE]
        assert row.status == ExecutionStatus.UNKNOWN_OUTCOME
        assert row.unknown_time.seconds
        bank.go_on.set()
        assert await run.result() == {"charge": "paid by attempt 1"}
    assert bank.charges == 1


async def test_its_worker_still_holds_it_when_it_connects_again(served: Served) -> None:
    bank = Bank()
    async with cut_off(served, bank) as (run, worker):
        await until(run, is_unknown)
        call = stream_of(worker)
        for service in served.server._services:
            if service.end_streams is not None:
                await service.end_streams()
        await patience.until(lambda: stream_of(worker) not in (None, call))
        assert (await executions(served, run))[ONCE].status == ExecutionStatus.UNKNOWN_OUTCOME
        bank.go_on.set()
        assert await run.result() == {"charge": "paid by attempt 1"}
    assert bank.charges == 1


async def test_a_reconcile_function_finds_that_it_was_done(served_everywhere: Served) -> None:
    served = served_everywhere
    bank = Bank()
    seen: list[tuple[str, str, str]] = []

    def answer(ctx: ReconcileContext) -> Done:
        session = ctx.previous_session
        seen.append((ctx.unknown_execution_id, ctx.idempotency_key, ctx.task_id))
        assert session is None or session.session_id == "s1"
        return Done("found in the books")

    async with (
        cut_off(served, bank, reconcile=True) as (run, _),
        served.worker(bank.agent(answer=answer), worker_id="second"),
    ):
        assert await run.result() == {"charge": "found in the books"}
    assert seen == [(ONCE, f"{run.id}/charge", "charge")]
    assert bank.charges == 1
    rows = await executions(served, run)
    assert rows[ONCE].status == ExecutionStatus.COMPLETED
    look = rows["reconcile:charge#1"]
    assert (look.kind, look.status) == (StepKind.RECONCILE, ExecutionStatus.COMPLETED)


async def test_an_agent_without_the_function_leaves_it_to_a_person(served_memory: Served) -> None:
    bank = Bank()
    agent = bank.agent()

    @agent.reconcile("other")
    def other(ctx: ReconcileContext) -> NotDone:
        return NotDone()

    async with (
        cut_off(served_memory, bank, reconcile=True) as (run, _),
        served_memory.worker(agent, worker_id="second"),
    ):
        await until(run, lambda one: one.attempts.failed == 1)
        await until(run, is_unknown)
    rows = await executions(served_memory, run)
    failure = rows["reconcile:charge#1"].failure
    assert "@agent.reconcile('charge')" in failure.message
    assert not failure.retryable


@pytest.mark.parametrize("found", [Done("seen"), NotDone(), Failure("declined", kind="Declined")])
async def test_a_person_settles_it(served: Served, found: Done | NotDone | Failure) -> None:
    bank = Bank()
    async with cut_off(served, bank) as (run, _):
        await until(run, is_unknown)
        request_id = "once"
        answer = await served.client.resolve(run.id, ONCE, found, request_id=request_id)
        assert answer.changed or not served.calm
        again = await served.client.resolve(run.id, ONCE, found, request_id=request_id)
        assert not again.changed
        with pytest.raises(FailedPrecondition) as refused:
            await served.client.resolve(run.id, ONCE, found)
        assert refused.value.reason in ("OUTCOME_NOT_UNKNOWN", "RUN_ENDED")
        if isinstance(found, NotDone):
            second = Bank()
            second.go_on.set()
            async with served.worker(second.agent(), worker_id="second"):
                assert await run.result() == {"charge": "paid by attempt 2"}
        elif isinstance(found, Done):
            assert await run.result() == {"charge": "seen"}
        else:
            ended = await run.wait()
            assert ended.status == RunStatus.FAILED
            assert ended.failure.kind == "Declined"


async def test_invalid_resolution_is_refused(served_memory: Served) -> None:
    served = served_memory
    run = await served.client.start("pay", plan=[task()])
    with pytest.raises(FailedPrecondition) as refused:
        await run.resolve(ONCE, Done())
    assert refused.value.reason == "OUTCOME_NOT_UNKNOWN"
    method = served.client.method("ResolveExecution")
    metadata = served.client.connection.access.metadata
    base = {"run_id": run.id, "execution_id": ONCE}
    payload = types_pb2.Payload(data=b"1")
    bad = {
        "finding": [{}, {"finding": types_pb2.FINDING_UNDECIDED}],
        "result": [{"finding": types_pb2.FINDING_NOT_DONE, "result": payload}],
        "failure": [
            {"finding": types_pb2.FINDING_NOT_DONE, "failure": types_pb2.Failure(kind="X")},
            {
                "finding": types_pb2.FINDING_DONE,
                "failure": types_pb2.Failure(kind="X"),
                "result": payload,
            },
        ],
    }
    for field, requests in bad.items():
        for fields in requests:
            request = orchestrator_pb2.ResolveExecutionRequest(**base, **fields)
            with pytest.raises(grpc.RpcError, match=field):
                await method(request, metadata=metadata)


async def test_tasks_of_one_key_share_one_result(served: Served) -> None:
    calls: list[str] = []
    agent = Agent("once")

    @agent.task("fetch")
    async def fetch(ctx: TaskContext) -> str:
        calls.append(ctx.task_id)
        await asyncio.sleep(0)
        return f"by {ctx.task_id}"

    plan = [Task(f"t{n}", "fetch", idempotency_key="page 7") for n in range(4)]
    plan.append(Task("free", "fetch"))
    run = await served.client.start("fetch", plan=plan, max_parallel=4)
    async with served.worker(agent):
        results = await run.result()
    assert results == {**{f"t{n}": "by t0" for n in range(4)}, "free": "by free"}
    assert sorted(calls) == ["free", "t0"]
    tasks = {one.task.task_id: one.task async for one in served.client.tasks(run.id)}
    assert not tasks["t0"].deduplicated_from
    assert {tasks[f"t{n}"].deduplicated_from for n in (1, 2, 3)} == {f"{run.id}/task:t0#1"}


async def test_another_run_of_the_pipeline_takes_the_result(served_everywhere: Served) -> None:
    served = served_everywhere
    calls: list[str] = []
    agent = Agent("once")

    @agent.task("fetch")
    def fetch(ctx: TaskContext) -> str:
        calls.append(ctx.run_id)
        return "page 7"

    plan = [Task("a", "fetch", idempotency_key="page 7"), Task("b", "fetch", depends_on=["a"])]

    async def start(pipeline: str) -> RunHandle:
        return await served.client.start("fetch", pipeline=pipeline, queue="default", plan=plan)

    async with served.worker(agent):
        first = await start("p")
        await first.result()
        second = await start("p")
        assert await second.result() == {"a": "page 7", "b": "page 7"}
        assert calls.count(first.id) == 2
        assert calls.count(second.id) == 1
        # The bytes are its own: the first run may go.
        await served.client.delete(first.id)
        assert (await second.results()).tasks["a"] == "page 7"
        third = await start("p")
        await third.result()
        assert calls.count(third.id) == 1
        stranger = await start("q")
        await stranger.result()
        assert calls.count(stranger.id) == 2
    tasks = {one.task.task_id: one.task async for one in served.client.tasks(second.id)}
    assert tasks["a"].deduplicated_from == f"{first.id}/task:a#1"
