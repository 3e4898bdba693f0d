"""The history of an agent of pydantic-ai that is kept in a thread: one turn reads what the turn before it appended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pydantic_ai
import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from stepwell.embedded import Orchestrator, RunFailed
from stepwell_client import Agent, Retry, Task, TaskContext
from stepwell_frameworks.pydantic_ai import StepwellDurability, append_to_thread, thread_history
from tests.unit.client.test_step_threads import ThreadStep, thread_of, written

PLAN = [Task("a", "answer", retry=Retry(max_attempts=2, initial_backoff=0.0))]
TURN = ["request", "response", "request", "response"]


class Talk:
    """A chat whose runs are turns of one thread; a turn's first attempts fail as it is told."""

    def __init__(self, folder: Path) -> None:
        self.fails = 0
        self.store = f"sqlite:///{folder / 'runs.db'}"
        self.agent = Agent("talk")
        self.shown: list[list[ModelMessage]] = []
        self.found: list[str] = []
        model = FunctionModel(self.answer, model_name="script")
        reader = pydantic_ai.Agent(model, name="reader", capabilities=[StepwellDurability()])

        @reader.tool_plain
        def find(what: str) -> str:
            self.found.append(what)
            return f"two {what}"

        @self.agent.task("answer")
        async def answer(ctx: TaskContext) -> str:
            thread = thread_of(ctx)
            result = await reader.run(ctx.goal, message_history=await thread_history(thread))
            append_to_thread(thread, result.new_messages())
            if ctx.attempt <= self.fails:
                raise ConnectionError("the line was cut")
            return result.output

        @self.agent.task("read")
        async def read(ctx: TaskContext) -> list[str]:
            return [one.role for one in await thread_of(ctx).messages()]

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Call the tool for each question, and then answer it."""
        self.shown.append(messages)
        calls = len(messages) % 4 == 1
        return ModelResponse([ToolCallPart("find", {"what": "bees"}) if calls else TextPart("two")])

    async def turn(self, goal: str, plan: list[Task] = PLAN) -> Any:
        run = Orchestrator(goal, self.agent, plan=plan, thread="t1", store=self.store)
        return (await run.run()).value["a"]

    async def roles(self) -> list[str]:
        return await self.turn("read", [Task("a", "read")])


ROLES = ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize("fails", [0, 1])
async def test_second_turn_shows_the_model_the_first_one_and_repeats_no_call(
    tmp_path: Path, fails: int
) -> None:
    talk = Talk(tmp_path)
    talk.fails = fails
    assert await talk.turn("Which bees?") == "two"
    assert await talk.turn("And ants?") == "two"
    assert [one.kind for one in talk.shown[-1]] == [*TURN, *TURN[:-1]]
    questions = [talk.shown[-1][at].parts[0] for at in (0, 4)]
    assert [getattr(one, "content", "") for one in questions] == ["Which bees?", "And ants?"]
    assert (len(talk.shown), talk.found) == (4, ["bees", "bees"])
    assert await talk.roles() == [*ROLES, *ROLES]


async def test_turn_that_fails_appends_nothing_to_its_thread(tmp_path: Path) -> None:
    talk = Talk(tmp_path)
    talk.fails = 2
    with pytest.raises(RunFailed):
        await talk.turn("Which bees?")
    talk.fails = 0
    assert await talk.roles() == []
    assert await talk.turn("And ants?") == "two"
    assert len(talk.shown[-1]) == 3


async def test_history_that_is_cut_begins_at_a_message_of_the_user() -> None:
    call = ToolCallPart("find", {"what": "bees"}, tool_call_id="1")
    turn = [
        ModelRequest.user_text_prompt("a"),
        ModelResponse([call]),
        ModelRequest([ToolReturnPart("find", "two bees", tool_call_id="1")]),
        ModelResponse([TextPart("two")]),
    ]
    kept: list[Any] = ModelMessagesTypeAdapter.dump_python(turn, mode="json")
    note: Any = {"a": "note"}

    async def work(ctx: TaskContext) -> list[int]:
        thread = thread_of(ctx)
        whole, cut = await thread_history(thread), await thread_history(thread, last=4)
        assert whole[:4] == turn
        append_to_thread(thread, cut)
        return [len(whole), len(cut)]

    outcome = await ThreadStep(*kept, note, "b").attempt(work)
    assert outcome.completed.result.data == b"[5,1]"
    ((role, content),) = written(outcome)[0]
    assert (role, content["parts"][0]["content"]) == ("user", "b")
