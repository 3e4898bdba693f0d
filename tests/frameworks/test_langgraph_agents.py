"""LangGraph's prebuilt agents with journaled models: what they ask, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.prebuilt import create_react_agent
from pydantic import BaseModel

from stepwell_client import TaskContext
from stepwell_frameworks.langgraph import StepwellSaver, journaled, run
from tests.frameworks.graphs import KEPT, Ran, State, chain
from tests.support.journal import Crash, JournaledStep

USED = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


class Scripted(BaseChatModel):
    """A chat model that asks for the first of its tools once, and then answers."""

    asked: list[Sequence[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], **options)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        self.asked.append(messages)
        calls: list[Any] = []
        if not isinstance(messages[-1], ToolMessage):
            name = options["tools"][0]["function"]["name"]
            calls = [{"name": name, "args": {"what": "bees"}, "id": "1"}]
        answer = AIMessage("" if calls else "two bees", tool_calls=calls, usage_metadata=USED)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Count(BaseModel):
    """A number of things."""

    what: str


@tool
async def find(what: str) -> str:
    """Find."""
    return f"two {what}"


def bound(model: Scripted) -> Any:
    return journaled(model.bind_tools([find]), "model")


def chat_model(model: Scripted) -> Any:
    return journaled(model, "model")


@pytest.mark.filterwarnings("ignore::langgraph.warnings.LangGraphDeprecatedSinceV10")
@pytest.mark.parametrize("made", [chat_model, bound])
async def test_prebuilt_agent_asks_its_model_once_over_both_attempts(
    made: Callable[[Scripted], Any],
) -> None:
    model = Scripted(asked=[])
    ran = Ran("hook")

    def hook(state: Any) -> dict[str, Any]:
        ran("hook")
        return {}

    graph = create_react_agent(
        made(model), [find], post_model_hook=hook, checkpointer=StepwellSaver()
    )

    async def work(ctx: TaskContext) -> str:
        output = await run(graph, {"messages": [("user", "How many bees?")]})
        return output["messages"][-1].text

    step = JournaledStep()
    assert await step.after_crash(work) == "two bees"
    assert len(model.asked) == 2
    kept = [one for one in step.kept(KEPT) if one.name == "model"]
    assert [one.usage.input_tokens for one in kept] == [10, 10]


async def test_journaled_model_gives_structured_output_from_the_journal() -> None:
    model = Scripted(asked=[])
    reader = journaled(model, "model").with_structured_output(Count)

    async def work(ctx: TaskContext) -> str:
        count = await reader.ainvoke("How many bees?")
        if ctx.attempt == 1:
            raise Crash
        assert isinstance(count, Count)
        return count.what

    step = JournaledStep()
    assert await step.after_crash(work) == "bees"
    assert len(model.asked) == 1
    (entry,) = step.kept(KEPT)
    assert (entry.name, entry.usage.output_tokens) == ("model", 2)


async def test_journaled_model_streams_its_answer_from_the_journal() -> None:
    model = Scripted(asked=[])
    bound = journaled(model, "model").bind_tools([find])

    async def work(ctx: TaskContext) -> int:
        chunks = [one async for one in bound.astream("How many bees?")]
        if ctx.attempt == 1:
            raise Crash
        return len(chunks[0].tool_calls)

    step = JournaledStep()
    assert await step.after_crash(work) == 1
    assert len(model.asked) == 1


def test_journaled_model_is_the_model_that_it_was() -> None:
    model = Scripted(asked=[])
    made = journaled(model, "model")
    assert isinstance(made, Scripted)
    assert type(made).__name__ == "Scripted"
    assert made.bind_tools([find]).invoke("How many bees?").tool_calls
    assert [one.tool_calls for one in made.bind_tools([find]).stream("How many bees?")]
    assert len(model.asked) == 2
    assert type(model) is Scripted


async def test_equal_requests_of_two_nodes_are_two_though_one_had_ended() -> None:
    """A node that isn't run again must not leave its answer to an equal request of the next one."""
    ran = Ran("crash")
    asked: list[Any] = []
    draw = journaled(RunnableLambda(lambda given: asked.append(given) or len(asked)), "draw")

    async def first(state: State) -> State:
        return {"seen": [str(await draw.ainvoke("a card"))]}

    async def second(state: State) -> State:
        if not ran.names:
            ran("crash")
        return {"seen": [str(await draw.ainvoke("a card"))]}

    graph = chain(first, second).compile(checkpointer=StepwellSaver())

    async def work(ctx: TaskContext) -> Any:
        return (await run(graph, {"seen": []}))["seen"]

    step = JournaledStep()
    assert await step.after_crash(work) == ["1", "2"]
