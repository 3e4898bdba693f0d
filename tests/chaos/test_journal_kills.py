"""J3 and J5 with real processes: a worker, or the server, is killed between and within the calls of a step.

A call that was acknowledged never runs again; one that was under way runs again, unless it is AT_MOST_ONCE.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell_client import BlockedKind, Client, Done, ExecutionStatus, NotDone, RunHandle, Task
from stepwell_client.v1 import types_pb2
from tests.chaos.world.gates import Gates
from tests.chaos.world.journaling_agent import CALLS
from tests.chaos.world.processes import Place
from tests.support.patience import until

AGENT = "tests.chaos.world.journaling_agent:agent"
THOUGHTS = [f"thought {number}" for number in range(CALLS)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    try:
        yield place
    finally:
        place.close()


@pytest.mark.parametrize("type_", ["think", "think-in-thread"])
async def test_J3_acknowledged_calls_never_run_again_whoever_is_killed(
    place: Place, type_: str
) -> None:
    gates = Gates(place)
    for number in (2, 4):
        gates.close(f"think-{number}")
    await place.start_server()
    place.start_worker(AGENT)
    async with place.client() as client:
        run = await client.start("think", plan=[Task("a", type_)])
        await gates.reached("think-2")
        place.kill_worker()
        gates.open("think-2")
        place.start_worker(AGENT)
        await gates.reached("think-4")
        # The worker lives on, and records its call on the server that comes back.
        place.kill_server()
        await place.start_server()
        gates.open("think-4")
        assert (await run.result())["a"] == THOUGHTS

    expected = Counter({f"think-{number}": 1 for number in range(CALLS)}) + Counter(["think-2"])
    assert gates.ran() == expected


async def _until_blocked_on(run: RunHandle, kind: BlockedKind) -> None:
    async def is_so() -> bool:
        return (await run.get()).blocked_on == kind

    await until(is_so)


async def _lost_while_charging(place: Place, gates: Gates, client: Client) -> RunHandle:
    """Return a run whose worker was killed while it charged, once another one has its step."""
    gates.close("charge")
    place.start_worker(AGENT)
    run = await client.start("charge", plan=[Task("a", "charge")])
    await gates.reached("charge")
    place.kill_worker()
    gates.open("charge")
    place.start_worker(AGENT)

    await _until_blocked_on(run, BlockedKind.UNKNOWN_OUTCOME)
    return run


@pytest.mark.parametrize("done", [True, False])
async def test_J5_a_begun_call_is_settled_by_a_person_and_never_by_itself(
    place: Place, done: bool
) -> None:
    gates = Gates(place)
    await place.start_server()
    async with place.client() as client:
        run = await _lost_while_charging(place, gates, client)
        executions = [one async for one in client.run(run.id).executions()]
        (unknown,) = [one for one in executions if one.unknown_call]
        assert unknown.status == types_pb2.EXECUTION_STATUS_UNKNOWN_OUTCOME
        assert unknown.unknown_call == "charge"
        resolution = Done("paid by hand") if done else NotDone("the bank knows of none")
        await client.run(run.id).resolve(unknown.id, resolution, call="charge")
        result = (await run.result())["a"]

    assert result == ("thought 0, paid by hand" if done else "thought 0, paid")
    assert gates.ran() == Counter({"think-0": 1, "charge": 1 if done else 2})


async def test_a_resting_step_needs_no_worker_and_outlives_the_server(place: Place) -> None:
    gates = Gates(place)
    await place.start_server()
    place.start_worker(AGENT)
    async with place.client() as client:
        run = await client.start("rest", plan=[Task("a", "rest")])
        await _until_blocked_on(run, BlockedKind.TIMER)
        place.kill_worker()
        place.kill_server()
        await place.start_server()
        place.start_worker(AGENT)
        asked: list[str] = []

        async def asks() -> bool:
            asked[:] = [one.id async for one in run.questions()]
            return bool(asked)

        await until(asks)
        await run.answer(asked[0], "Ada")
        assert (await run.result())["a"] == "thought 0 of Ada"
        kinds = [one.status async for one in client.run(run.id).executions()]
        entries = [one async for one in run.journal(values=True)]

    assert gates.ran() == Counter({"think-0": 1})
    assert ExecutionStatus.FAILED not in kinds
    names = [one.name for one in entries]
    assert names[:2] == ["think", "sleep"]
    assert len(entries) == 3
