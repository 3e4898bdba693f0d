"""Agents of pydantic-ai in real workers, which are killed at every call: no acknowledged request is made again."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell_client import Task
from tests.chaos.world.gates import Gates
from tests.chaos.world.processes import Place
from tests.frameworks.killed_agent import READING
from tests.frameworks.kills import read_and_kill

AGENT = "tests.frameworks.killed_agent:agent"


@pytest.mark.parametrize("first", range(0, len(READING), 2))
async def test_a_kill_at_any_call_repeats_nothing_acknowledged(place: Place, first: int) -> None:
    killed = READING[first : first + 2]
    assert await read_and_kill(place, AGENT, READING, killed) == "bees and ants"


async def test_the_test_models_requests_and_tools_outlive_their_worker(place: Place) -> None:
    gates = Gates(place)
    gates.close("test-find-a")
    await place.start_server()
    place.start_worker(AGENT)
    async with place.client() as client:
        run = await client.start("test", plan=[Task("a", "test")])
        await gates.reached("test-find-a")
        place.kill_worker()
        gates.open("test-find-a")
        place.start_worker(AGENT)
        assert (await run.result())["a"] == '{"find":"seen a"}'
        names = Counter([one.name async for one in run.journal()])
        usage = (await run.get()).usage

    assert gates.ran() == Counter({"test-find-a": 2})
    assert names == Counter({"tested.model": 2, "tested.tool.find": 1})
    assert usage.input_tokens > 0
