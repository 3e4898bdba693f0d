"""Makes an agent of the OpenAI Agents SDK durable in a step: records its model requests and tool
calls in the step's journal.

    reader = agents.Agent(name="reader", model=model, tools=[look])

    @agent.task("read")
    async def read(ctx: TaskContext, question: str) -> str:
        return (await StepwellRunner.run(reader, question)).final_output

Each model request, tool call and MCP call is a call of the step. The next attempt runs the agent
again with the recorded values. Outside of a step nothing changes. It needs the extra
`openai-agents`.
"""

from __future__ import annotations

from stepwell_frameworks.openai_agents.runner import StepwellRunner, as_call, durable, not_kept
from stepwell_frameworks.openai_agents.step_session import StepwellSession
from stepwell_frameworks.openai_agents.thread_session import ThreadSession

__all__ = [
    "StepwellRunner",
    "StepwellSession",
    "ThreadSession",
    "as_call",
    "durable",
    "not_kept",
]
