"""Calls that a running step opens: the executor tells the worker their ends, also if it has never seen the lease."""

from __future__ import annotations

import asyncio

from stepwell.core.loop.occurrences import Answer, NeedsAnswer, SuspendedCall
from stepwell.core.port import Assignment, QuestionQuery
from stepwell.core.records.journal_answers import JournalAnswer
from stepwell.engine.executor import Executor
from stepwell.engine.journal_writer import NewEntries
from tests.support.patience import PATIENCE_S
from tests.unit.core.loop_world import YES, chain
from tests.unit.engine.executor_world import RUN, TENANT, ExecutorWorld

ASK = SuspendedCall(call="k", wait=NeedsAnswer(prompt="now?"))


async def opened(executor: Executor, got: Assignment, *, token: str = "") -> JournalAnswer:
    answered: asyncio.Future[JournalAnswer | Exception] = asyncio.get_running_loop().create_future()
    one = NewEntries(
        RUN, got.execution.execution_id, token or got.token, (), opens=(ASK,), open_number=1
    )
    executor.write_journal(TENANT, one, answered.set_result)
    async with asyncio.timeout(PATIENCE_S):
        answer = await answered
    assert isinstance(answer, JournalAnswer)
    return answer


async def answer(world: ExecutorWorld, executor: Executor) -> None:
    page = await world.store.page(QuestionQuery(tenant_id=TENANT, run_id=RUN))
    question_id = page.items[0].question.question_id
    reply = await executor.send(TENANT, RUN, Answer(question_id=question_id, payload=YES))
    assert reply.status == "ACCEPTED"


async def test_worker_gets_the_end_of_a_call_of_its_running_step(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, chain("a"))
    got = await worker.next()
    assert (await opened(executor, got)).live
    await answer(world, executor)
    async with asyncio.timeout(PATIENCE_S):
        execution_id, entry = await worker.ended_calls.get()
    assert (execution_id, entry.key, entry.value) == (got.execution.execution_id, "k", YES)


async def test_call_is_opened_by_a_replica_that_has_not_seen_its_lease(
    world: ExecutorWorld,
) -> None:
    executor, worker = await world.serving()
    other = world.executor()
    await world.start(executor, chain("a"))
    got = await worker.next()
    assert (await opened(other, got)).live
    # The worker is connected to the first replica, which decides on the answer.
    await answer(world, executor)
    async with asyncio.timeout(PATIENCE_S):
        assert (await worker.ended_calls.get())[1].key == "k"


async def test_wrong_token_opens_nothing(world: ExecutorWorld) -> None:
    executor, worker = await world.serving()
    await world.start(executor, chain("a"))
    got = await worker.next()
    assert not (await opened(executor, got, token="other")).live
    page = await world.store.page(QuestionQuery(tenant_id=TENANT, run_id=RUN))
    assert not page.items
