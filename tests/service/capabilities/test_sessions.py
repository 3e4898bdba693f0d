"""Sessions, progress, failures and conversations: what an attempt leaves, its task's next one gets."""

from __future__ import annotations

import asyncio

from stepwell_client import (
    Agent,
    Failure,
    Retry,
    RunStatus,
    Task,
    TaskContext,
)
from tests.service.capabilities.conftest import Served
from tests.service.capabilities.silence import go_silent
from tests.support.patience import PATIENCE_S

AT_ONCE = Retry(initial_backoff=0.0)


def words(messages: object) -> list[tuple[int, str, str]]:
    return [(one.number, one.role, one.content) for one in messages]  # pyright: ignore[reportGeneralTypeIssues] - any iterable of messages


class Seen:
    """The previous session, progress, failure and messages that each attempt was given."""

    def __init__(self) -> None:
        self.attempts: list[dict[str, object]] = []

    def note(self, ctx: TaskContext) -> None:
        session, failure = ctx.previous_session, ctx.previous_failure
        self.attempts.append(
            {
                "task": ctx.task_id,
                "session": session.session_id if session is not None else None,
                "progress": ctx.previous_progress(),
                "failure": failure.kind if failure is not None else None,
                "messages": [one.content for one in ctx.previous_messages],
            }
        )


async def test_next_attempt_gets_session_progress_and_messages(served: Served) -> None:
    agent, seen = Agent("talker"), Seen()

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> str:
        seen.note(ctx)
        ctx.session("cli", f"s-{ctx.attempt}")
        ctx.append("user", f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            ctx.heartbeat({"page": 3})
            raise Failure("no luck", kind="NO_LUCK")
        return "done"

    plan = [Task("a", "talk", retry=AT_ONCE), Task("b", "talk", depends_on=["a"], retry=AT_ONCE)]
    run = await served.client.start("talk", plan=plan)
    async with served.worker(agent):
        assert (await run.wait(PATIENCE_S)).status == RunStatus.SUCCEEDED
    assert seen.attempts[0] == {
        "task": "a",
        "session": None,
        "progress": None,
        "failure": None,
        "messages": [],
    }
    assert seen.attempts[1] == {
        "task": "a",
        "session": "s-1",
        "progress": {"page": 3},
        "failure": "NO_LUCK",
        "messages": ["attempt 1"],
    }
    # Another task, and its first attempt fails too: what it finds then is its own.
    assert seen.attempts[2]["session"] is None
    assert seen.attempts[3]["session"] == "s-1"
    assert seen.attempts[3]["messages"] == ["attempt 1"]
    found = [one async for one in run.messages(task_id="a")]
    assert words(found) == [(1, "user", "attempt 1"), (2, "user", "attempt 2")]
    assert [one.session.session_id for one in found] == ["s-1", "s-2"]
    executions = [one async for one in served.client.executions(run.id, task_id="a")]
    assert [(one.messages_after, one.messages) for one in executions] == [(0, 1), (1, 1)]


async def test_saved_messages_survive_their_worker_and_are_kept_once(
    served_everywhere: Served,
) -> None:
    served = served_everywhere
    agent, seen = Agent("saver"), Seen()
    hangs = asyncio.Event()

    @agent.task("talk")
    async def talk(ctx: TaskContext) -> list[str]:
        seen.note(ctx)
        if ctx.attempt > 1:
            ctx.append("assistant", "three")
            return [one.content async for one in ctx.conversation()]
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
    assert seen.attempts[1]["messages"] == ["one", "two"]
    assert words([one async for one in run.messages(task_id="a")]) == [
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
