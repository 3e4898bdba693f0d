"""Makes an agent of pydantic-ai durable in a step: records the answers of its models and tools in the step's journal.

    reader = pydantic_ai.Agent(model, name="reader", capabilities=[StepwellDurability()])

    @agent.task("read")
    async def read(ctx: TaskContext, question: str) -> str:
        return (await reader.run(question)).output

Each model request, tool call and MCP call is a call of the step. The next attempt runs the agent
again with the recorded values. Outside of a step nothing changes. It needs the extra `pydantic-ai`.
"""

from __future__ import annotations

from stepwell_frameworks.pydantic_ai.durability import StepwellDurability
from stepwell_frameworks.pydantic_ai.thread_history import append_to_thread, thread_history

__all__ = ["StepwellDurability", "append_to_thread", "thread_history"]
