"""Agents of the OpenAI Agents SDK in real workers, which are killed at every call: no acknowledged one is made again."""

from __future__ import annotations

import pytest
from agents import SQLiteSession

from tests.chaos.world.processes import Place
from tests.frameworks.killed_openai_agent import READING
from tests.frameworks.kills import read_and_kill

AGENT = "tests.frameworks.killed_openai_agent:agent"


@pytest.mark.parametrize("first", range(0, len(READING), 2))
async def test_a_kill_at_any_call_repeats_nothing_acknowledged(place: Place, first: int) -> None:
    killed = READING[first : first + 2]
    assert await read_and_kill(place, AGENT, READING, killed) == "bees and ants"
    items = await SQLiteSession("reading", place.folder / "gates" / "session").get_items()
    assert [one.get("role") or one.get("type") for one in items] == [
        "user",
        *["function_call", "function_call_output"] * 2,
        "assistant",
    ]
