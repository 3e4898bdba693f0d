"""AT_MOST_ONCE tasks over each store: a worker dies after it began, and somebody resolves the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from stepwell_client import (
    Agent,
    BlockedKind,
    Done,
    Effect,
    Execution,
    ExecutionStatus,
    FailedPrecondition,
    NotDone,
    ReconcileContext,
    Run,
    RunHandle,
    RunStatus,
    StepKind,
    Task,
    TaskContext,
)
from stepwell_client.v1 import orchestrator_pb2, types_pb2
from tests.service.capabilities.conftest import Served
from tests.service.capabilities.silence import go_silent
from tests.support.patience import PATIENCE_S

ONCE = "task:charge#1"
RESULT, FAILURE = types_pb2.Payload(data=b"1"), types_pb2.Failure(kind="X")


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
async def cut_off(served: Served, bank: Bank, **fields: object) -> AsyncIterator[RunHandle]:
    """Yield a run whose worker began and then was heard of no more."""
    run = await served.client.start("pay", plan=[task(**fields)])
    async with served.worker(bank.agent(), worker_id="dying", concurrency=1) as worker:
        await bank.reached.wait()
        await go_silent(served, worker, run.id)
        yield run
        bank.go_on.set()


async def until(run: RunHandle, seen: Callable[[Run], bool]) -> Run:
    async with asyncio.timeout(PATIENCE_S):
        async with run.watch() as watch:
            async for _ in watch:
                found = await run.get()
                if seen(found):
                    return found
    return await run.get()


def is_unknown(run: Run) -> bool:
    return run.blocked_on == BlockedKind.UNKNOWN_OUTCOME


async def executions(served: Served, run: RunHandle) -> dict[str, Execution]:
    return {one.id: one async for one in served.client.run(run.id).executions()}


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
        cut_off(served, bank, reconcile=True) as run,
        served.worker(bank.agent(answer=answer), worker_id="second"),
    ):
        assert await run.result() == {"charge": "found in the books"}
    assert seen == [(ONCE, f"{run.id}/task:charge@1", "charge")]
    assert bank.charges == 1
    rows = await executions(served, run)
    assert rows[ONCE].status == ExecutionStatus.COMPLETED
    look = rows["reconcile:charge#1"]
    assert (look.kind, look.status) == (StepKind.RECONCILE, ExecutionStatus.COMPLETED)


async def test_a_person_settles_it_once(served: Served) -> None:
    bank = Bank()
    async with cut_off(served, bank) as run:
        found = await until(run, is_unknown)
        assert found.status == RunStatus.WAITING
        row = (await executions(served, run))[ONCE]
        assert row.status == ExecutionStatus.UNKNOWN_OUTCOME
        assert row.unknown_time is not None
        await run.resolve(ONCE, NotDone(), request_id="once")
        assert run.changed or not served.calm
        await run.resolve(ONCE, NotDone(), request_id="once")
        assert not run.changed
        with pytest.raises(FailedPrecondition) as refused:
            await served.client.run(run.id).resolve(ONCE, NotDone())
        assert refused.value.reason == "OUTCOME_NOT_UNKNOWN"
        second = Bank()
        second.go_on.set()
        async with served.worker(second.agent(), worker_id="second"):
            assert await run.result() == {"charge": "paid by attempt 2"}


@pytest.mark.parametrize(
    ("finding", "fields", "named"),
    [
        (types_pb2.FINDING_UNSPECIFIED, {}, "finding"),
        (types_pb2.FINDING_UNDECIDED, {}, "finding"),
        (types_pb2.FINDING_NOT_DONE, {"result": RESULT}, "result"),
        (types_pb2.FINDING_NOT_DONE, {"failure": FAILURE}, "failure"),
        (types_pb2.FINDING_DONE, {"failure": FAILURE, "result": RESULT}, "failure"),
    ],
    ids=["none", "undecided", "result", "failure", "both"],
)
async def test_invalid_resolution_is_refused(
    served: Served, finding: types_pb2.Finding, fields: dict[str, Any], named: str
) -> None:
    run = await served.client.start("pay", plan=[task()])
    request = orchestrator_pb2.ResolveExecutionRequest(
        run_id=run.id, execution_id=ONCE, finding=finding, **fields
    )
    metadata = served.client.connection.access.metadata
    with pytest.raises(grpc.RpcError, match=named):
        await served.client.caller.method("ResolveExecution")(request, metadata=metadata)


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
        await served.client.run(first.id).delete()
        assert (await second.results()).tasks["a"] == "page 7"
        # The key's result went with it: the next one fetches the page again.
        third = await start("p")
        await third.result()
        assert calls.count(third.id) == 2
        stranger = await start("q")
        await stranger.result()
        assert calls.count(stranger.id) == 2
    tasks = {one.id: one async for one in served.client.run(second.id).tasks()}
    assert tasks["a"].deduplicated_from == f"{first.id}/task:a#1"
