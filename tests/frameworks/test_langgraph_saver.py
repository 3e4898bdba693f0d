"""The checkpointer for graphs, held to LangGraph's own conformance tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import BASE_CAPABILITIES

from stepwell_client import JournalError, TaskContext
from stepwell_frameworks.langgraph import StepwellSaver
from tests.support.journal import Crash, JournaledStep, result_of


@checkpointer_test(name="StepwellSaver")
async def saver() -> AsyncIterator[Any]:
    yield StepwellSaver()


@pytest.mark.parametrize("capability", sorted(one.value for one in BASE_CAPABILITIES))
async def test_saver_conforms(capability: str) -> None:
    async def work(ctx: TaskContext) -> list[str]:
        report = await validate(saver, capabilities={capability})
        result = report.results[capability]
        assert result.tests_passed
        return [str(one) for one in result.failures]

    assert result_of(await JournaledStep().attempt(work)) == []


async def test_next_attempt_finds_all_that_conformance_left() -> None:
    """Two attempts see the same checkpoints, and the same histories as LangGraph's own walk over them."""
    seen: list[Any] = []

    async def work(ctx: TaskContext) -> int:
        if ctx.attempt == 1:
            await validate(saver, capabilities={one.value for one in BASE_CAPABILITIES})
        one = StepwellSaver()
        tuples = [found async for found in one.alist(None)]
        histories: list[Any] = []
        for found in tuples:
            channels = sorted(found.checkpoint["channel_versions"])
            walked = await BaseCheckpointSaver.aget_delta_channel_history(
                one, config=found.config, channels=channels
            )
            assert walked == await one.aget_delta_channel_history(
                config=found.config, channels=channels
            )
            histories.append(walked)
        seen.append((tuples, histories))
        if ctx.attempt == 1:
            raise Crash
        return len(tuples)

    step = JournaledStep()
    assert await step.after_crash(work) > 10
    assert seen[0] == seen[1]


def test_saver_outside_of_a_step_is_refused() -> None:
    with pytest.raises(JournalError, match="no step"):
        StepwellSaver().get_tuple({"configurable": {"thread_id": "a"}})
