"""Guardrails and approval policies of the OpenAI Agents SDK that run an agent themselves, within a step."""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    RunContextWrapper,
    function_tool,
    input_guardrail,
    output_guardrail,
)

from stepwell_client.v1 import types_pb2
from stepwell_frameworks.openai_agents import StepwellRunner
from tests.frameworks.scripted_openai import USED, names, scripted, twice
from tests.support.journal import JournaledStep, crashed, result_of


async def test_agents_that_guard_are_asked_once_over_both_attempts() -> None:
    guards = scripted("fine", "fine", "fine")
    guard = Agent(name="guard", model=guards)

    async def checked(given: Any) -> GuardrailFunctionOutput:
        result = await StepwellRunner.run(guard, given)
        return GuardrailFunctionOutput(
            output_info=result.final_output, tripwire_triggered=result.final_output != "fine"
        )

    @input_guardrail
    async def check_input(
        context: RunContextWrapper[Any], agent: Agent[Any], given: Any
    ) -> GuardrailFunctionOutput:
        return await checked(given)

    @output_guardrail
    async def check_output(
        context: RunContextWrapper[Any], agent: Agent[Any], given: Any
    ) -> GuardrailFunctionOutput:
        return await checked(given)

    async def is_risky(context: RunContextWrapper[Any], arguments: Any, call_id: str) -> bool:
        return (await StepwellRunner.run(guard, "May it pay?")).final_output != "fine"

    @function_tool(needs_approval=is_risky)
    def pay() -> str:
        return "paid"

    model = scripted([("pay", "c1", {})], "done")
    reader = Agent(
        name="reader",
        model=model,
        tools=[pay],
        input_guardrails=[check_input],
        output_guardrails=[check_output],
    )
    step = JournaledStep()
    await crashed(step, twice(reader))
    assert result_of(await step.attempt(twice(reader))) == "done"
    assert (len(guards.calls), len(model.calls)) == (3, 2)
    assert names(step).count("guard.model") == 3
    ends = step.kept(types_pb2.JOURNAL_MARK_END)
    assert sum(one.usage.input_tokens for one in ends) == 5 * USED.input_tokens
