"""Graphs of LangGraph in real workers, which are killed: the next one goes on at the node, from its calls."""

from __future__ import annotations

from collections import Counter

import pytest

from stepwell_client import Task
from tests.chaos.world.gates import Gates
from tests.chaos.world.processes import Place
from tests.frameworks.killed_graph import RAN
from tests.support.patience import until

AGENT = "tests.frameworks.killed_graph:agent"


@pytest.mark.parametrize("killed", RAN)
async def test_a_kill_in_a_graph_repeats_its_node_and_no_call_that_had_ended(
    place: Place, killed: str
) -> None:
    gates = Gates(place)
    gates.close(killed)
    await place.start_server()
    place.start_worker(AGENT)
    async with place.client() as client:
        run = await client.start("read", plan=[Task("a", "read")])
        await gates.reached(killed)
        place.kill_worker()
        gates.open(killed)
        place.start_worker(AGENT)
        questions: list[str] = []

        async def is_asked() -> bool:
            questions[:] = [one.id async for one in run.questions()]
            return bool(questions)

        await until(is_asked)
        await run.answer(questions[0], "yes")
        assert (await run.result())["a"] == ["find-1", "find-2", "write-1", "yes"]

    # The answer makes its node run again, and a kill that in which it was; of the calls only the one under way.
    expected = Counter(RAN) + Counter(["write", killed.partition("-")[0]])
    if "-" in killed:
        expected[killed] += 1
    assert gates.ran() == expected
