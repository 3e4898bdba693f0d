"""Logs, sessions and conversations of an embedded run: as with a service, without one."""

from __future__ import annotations

from stepwell.core.port import LogQuery, Store
from stepwell.embedded import Orchestrator
from stepwell_client import Agent, Failure, Retry, Task, TaskContext

SOON = Retry(max_attempts=3, initial_backoff=0.0)


async def log_of(store: Store, run_id: str) -> list[tuple[str, str]]:
    page = await store.page(LogQuery(tenant_id="default", run_id=run_id, limit=10_000))
    return [(entry.execution_id, entry.text) for entry in page.items]


async def test_lines_of_threads_and_coroutines_are_kept(store: Store) -> None:
    agent = Agent("writer")

    @agent.task("async")
    async def in_the_loop(ctx: TaskContext) -> None:
        ctx.log("one")
        ctx.logger.error("two")

    @agent.task("sync")
    def in_a_thread(ctx: TaskContext) -> None:
        for number in range(100):
            ctx.log(number)

    plan = [Task("a", "async"), Task("b", "sync")]
    run = Orchestrator("write", agent, store=store, plan=plan)
    await run.run()
    found = await log_of(store, run.run_id)
    assert [text for name, text in found if name == "task:a#1"] == ["one", "two"]
    assert [text for name, text in found if name == "task:b#1"] == [str(n) for n in range(100)]


async def test_the_next_attempt_goes_on_where_the_last_one_was(store: Store) -> None:
    agent = Agent("talker")

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> list[object]:
        if ctx.attempt == 1:
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
        return [session.session_id, ctx.previous_progress(), failure.kind, *said]

    plan = [Task("a", "talk", retry=SOON)]
    result = await Orchestrator("talk", agent, store=store, plan=plan).run()
    assert result.tasks["a"].value == ["s-1", 2, "AGAIN", "one", "two"]
