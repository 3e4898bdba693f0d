"""A run whose worker is killed in the midst of calls of its agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stepwell_client import Task
from tests.chaos.world.gates import Gates
from tests.chaos.world.processes import Place


async def read_and_kill(
    place: Place, agent: str, calls: Sequence[str], killed: Sequence[str]
) -> str:
    """Run the task `read` of an agent, and kill its worker in some of its calls. Returns the result.

    Raises AssertionError where another call than those that were under way at a kill was made twice. A third worker that
    is lost with a step would make it poison, so two kills are the most.
    """
    gates = Gates(place)
    for name in killed:
        gates.close(f"read-{name}")
    await place.start_server()
    place.start_worker(agent)
    async with place.client() as client:
        run = await client.start("read", plan=[Task("a", "read")])
        for name in killed:
            await gates.reached(f"read-{name}")
            place.kill_worker()
            gates.open(f"read-{name}")
            place.start_worker(agent)
        result = (await run.result())["a"]
    assert gates.ran() == Counter({f"read-{name}": 1 + (name in killed) for name in calls})
    return result
