"""The checkpointer for graphs, held to LangGraph's own conformance tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import BASE_CAPABILITIES

from stepwell_client import JournalError, TaskContext
from stepwell_client.langgraph import StepwellSaver
from tests.support.journal import JournaledStep, result_of


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


def test_saver_outside_of_a_step_is_refused() -> None:
    with pytest.raises(JournalError, match="no step"):
        StepwellSaver().get_tuple({"configurable": {"thread_id": "a"}})
