"""Conversations: what an attempt saves, its task's next one gets."""

from __future__ import annotations

import asyncio

from stepwell_client import (
    Agent,
    Failure,
    Retry,
    Task,
    TaskContext,
)
from tests.service.capabilities.conftest import Served
from tests.service.capabilities.silence import go_silent

AT_ONCE = Retry(initial_backoff=0.0)


async def test_saved_messages_survive_their_worker_and_are_kept_once(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    agent = Agent("saver")
    given: list[list[str]] = []
    hangs = asyncio.Event()

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> list[str]:
        given.append([one.content for one in ctx.previous_messages])
        if ctx.attempt > 1:
            ctx.append("assistant", "three")
            return [one.content async for one in ctx.conversation()]
        ctx.session("cli", "s-1")
        ctx.append("user", "one")
        await ctx.save_messages()
        ctx.append("assistant", "two")
        await ctx.save_messages()
        await ctx.save_messages()
        ctx.append("user", "never saved")
        hangs.set()
        await asyncio.Event().wait()
        return []

    run = await served.client.start("talk", plan=[Task("a", "talk", retry=AT_ONCE)])
    async with served.worker(agent, worker_id="first", concurrency=1) as first:
        await hangs.wait()
        await go_silent(served, first, run.id)
        async with served.worker(agent, worker_id="second"):
            assert await run.result() == {"a": ["one", "two"]}
    assert given == [[], ["one", "two"]]
    found = [one async for one in run.messages(task_id="a")]
    assert [(one.number, one.role, one.content) for one in found] == [
        (1, "user", "one"),
        (2, "assistant", "two"),
        (3, "assistant", "three"),
    ]


async def test_a_synchronous_function_saves_and_reads_its_conversation_too(served: Served) -> None:
    agent = Agent("blocking")

    @agent.task("talk")
    def talk(ctx: TaskContext) -> list[str]:
        if ctx.attempt == 1:
            ctx.append("user", "one")
            ctx.save_messages_blocking()
            ctx.append("user", "two")
            raise Failure("again")
        return [one.content for one in ctx.conversation_blocking()]

    run = await served.client.start("talk", plan=[Task("a", "talk", retry=AT_ONCE)])
    async with served.worker(agent):
        assert await run.result() == {"a": ["one", "two"]}
