"""The worker of an embedded run over its in-process transport, end to end: what a step writes is there for the next attempt.

What the worker does with each call is said by the tests of the client, over gRPC.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepwell.core.port import LogQuery, MessageQuery, Store
from stepwell.embedded import Orchestrator, RunFailed
from stepwell_client import Agent, Failure, QuestionKind, Retry, RunStatus, Task, TaskContext
from stepwell_client.errors import InvalidRequest

SOON = Retry(max_attempts=3, initial_backoff=0.0)


async def test_the_next_attempt_goes_on_where_the_last_one_was(store: Store) -> None:
    agent, asked = Agent("talker"), list[int]()

    async def model(ctx: TaskContext) -> str:
        asked.append(ctx.attempt)
        ctx.usage(input_tokens=100)
        return "said"

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> list[object]:
        found = await ctx.call("model", model, ctx, key="ask")
        if ctx.attempt == 1:
            ctx.log("one")
            ctx.logger.error("two")
            ctx.session("cli", "s-1")
            ctx.append("user", "one")
            await ctx.save_messages()
            ctx.append("user", "two")
            ctx.heartbeat(2)
            raise Failure("again", kind="AGAIN")
        session, failure = ctx.previous_session, ctx.previous_failure
        assert session is not None
        assert failure is not None
        said = [one.content async for one in ctx.conversation()]
        return [found, session.session_id, ctx.previous_progress(), failure.kind, *said]

    plan = [Task("a", "talk", retry=SOON)]
    result = await Orchestrator("talk", agent, store=store, plan=plan).run()

    assert result.tasks["a"].value == ["said", "s-1", 2, "AGAIN", "one", "two"]
    assert (asked, result.run.usage.input_tokens) == ([1], 100)
    page = await store.page(LogQuery(tenant_id="default", run_id=result.run_id))
    assert [entry.text for entry in page.items] == ["one", "two"]


@pytest.mark.parametrize("threads", [False, True])
async def test_a_step_that_asks_goes_on_from_its_calls(threads: bool) -> None:
    agent, searches = Agent(), list[int]()

    async def search() -> int:
        searches.append(1)
        return len(searches)

    async def work(ctx: TaskContext) -> Any:
        found = await ctx.call("search", search)
        answers = await asyncio.gather(
            ctx.ask("Title?", key="title"), ctx.ask("Sure?", kind=QuestionKind.APPROVAL, key="sure")
        )
        return [found, *answers]

    def work_in_thread(ctx: TaskContext) -> Any:
        found = ctx.call_sync("search", search)
        return [found, ctx.ask_sync("Title?", key="title"), ctx.ask_sync("Sure?", key="sure")]

    agent.task("work")(work_in_thread if threads else work)
    orchestrator = Orchestrator("work", agent, plan=[Task("w", "work")])
    for prompts in (["Sure?", "Title?"],) if not threads else (["Title?"], ["Sure?"]):
        assert (await orchestrator.run()).status is RunStatus.WAITING
        asked = await orchestrator.questions()
        assert sorted(one.prompt for one in asked) == prompts
        for one in asked:
            await orchestrator.answer(one.id, "Ada" if one.prompt == "Title?" else True)
    result = await orchestrator.run()

    assert result.value == {"w": [1, "Ada", True]}
    assert searches == [1]


async def test_a_message_beyond_a_limit_is_refused_as_by_a_server(store: Store) -> None:
    agent = Agent("talker")

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> None:
        ctx.session("cli", "s" * 257)
        ctx.append("user", "hello")
        with pytest.raises(InvalidRequest, match="session_id"):
            await ctx.save_messages()
        raise Failure("as it should be", retryable=False)

    run = Orchestrator("talk", agent, store=store, plan=[Task("a", "talk")])
    with pytest.raises(RunFailed):
        await run.run()
    page = await store.page(
        MessageQuery(tenant_id="default", run_id=run.run_id, task_id="a", limit=9)
    )
    assert page.items == ()
