"""A worker as a whole program."""

from __future__ import annotations

import asyncio
import os
import signal

from stepwell_client import Agent, Client, TaskContext, Worker, serve
from tests.service.client.fakes import FakeServer
from tests.service.client.serving import welcomed
from tests.support.patience import PATIENCE_S
from tests.support.steps import assignment


async def test_SIGTERM_lets_the_step_that_runs_end_and_then_ends_the_program(
    server: FakeServer, client: Client, agent: Agent
) -> None:
    begun = asyncio.Event()
    may_end = asyncio.Event()

    @agent.task("slow")
    async def slow(ctx: TaskContext) -> str:
        begun.set()
        await may_end.wait()
        return "whole"

    serving = asyncio.ensure_future(serve(Worker(agent, client), grace_seconds=10))
    stream = await welcomed(server)
    await stream.send(assignments=[assignment(type_="slow")])
    await begun.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0)
    assert not serving.done()
    may_end.set()
    outcome = await stream.outcome()
    assert outcome.completed.result.data == b'"whole"'
    await stream.ack(outcome)
    async with asyncio.timeout(PATIENCE_S):
        await serving
