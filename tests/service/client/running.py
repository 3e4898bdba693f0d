"""One step through an agent, without a transport."""

from __future__ import annotations

from typing import Any

import pydantic

from stepwell_client import Agent
from stepwell_client.execution import AgentRunner
from stepwell_client.v1 import worker_pb2
from tests.service.client.fakes import FakeServices, assignment


class Order(pydantic.BaseModel):
    item: str
    count: int


async def run(
    agent: Agent, step: worker_pb2.Assignment | None = None, services: FakeServices | None = None
) -> worker_pb2.Outcome:
    runner = AgentRunner(agent)
    try:
        return await runner.run(step or assignment(), services or FakeServices())
    finally:
        runner.close()


async def outcome_of(function: Any, **step: Any) -> worker_pb2.Outcome:
    agent = Agent()
    agent.task(function)
    return await run(agent, assignment(**step))
