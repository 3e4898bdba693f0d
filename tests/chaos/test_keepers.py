"""A worker whose interpreter is held by one call in C keeps its leases by its keeper, and only as long as it lives."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell_client import Client, ExecutionStatus, RunHandle, Task
from tests.chaos.world.gates import Gates
from tests.chaos.world.processes import Place
from tests.support.patience import PATIENCE_S, until

AGENT = "tests.chaos.world.holding_agent:agent"
LEASE_S = 3.0
HOLD_S = 3 * LEASE_S
FOR_EVER_S = 600.0
COMPLETED, LOST = ExecutionStatus.COMPLETED, ExecutionStatus.LOST

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="processes are looked for in Linux's /proc"
)


@pytest.fixture
async def place(backends: None, tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    place.environment["STEPWELL_EXECUTOR__LEASE_MS"] = f"{int(LEASE_S * 1_000)}"
    try:
        await place.start_server()
        yield place
    except BaseException:
        print(place.log("worker"))
        raise
    finally:
        place.close()


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Client]:
    async with place.client() as client:
        yield client


def pid_of(place: Place) -> int:
    assert place.worker is not None
    return place.worker.pid


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def keepers(pid: int) -> list[int]:
    """Return the keepers of a worker: its children that have opened its table."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            maps = (folder / "maps").read_text()
        except OSError:
            continue
        if int(status[1]) == pid and "stepwell-leases" in maps:
            found.append(int(folder.name))
    return found


async def started(place: Place, client: Client) -> int:
    """Start a worker, have it do a step, and return its keeper's process id."""
    place.start_worker(AGENT)
    assert await (await client.start("begin", plan=[Task("q", "quick")])).result() == {"q": "done"}
    await until(lambda: len(keepers(pid_of(place))) == 1)
    (keeper,) = keepers(pid_of(place))
    return keeper


async def attempts(run: RunHandle) -> dict[str, list[ExecutionStatus]]:
    found: dict[str, list[ExecutionStatus]] = {}
    async for one in run.executions():
        found.setdefault(one.task_id, []).append(one.status)
    return found


async def test_function_that_holds_the_interpreter_is_attempted_once(
    place: Place, client: Client
) -> None:
    await started(place, client)
    plan = [Task("h", "hold", input=HOLD_S), Task("q", "quick")]
    run = await client.start("hold", plan=plan, max_parallel=2)

    assert await run.result() == {"h": "held", "q": "done"}
    assert await attempts(run) == {"h": [COMPLETED], "q": [COMPLETED]}
    assert "its keeper has sent" in place.log("worker")


async def test_worker_of_one_place_gets_no_step_while_its_interpreter_is_held(
    place: Place, client: Client
) -> None:
    place.start_worker(AGENT, "--concurrency", "1")
    held = await client.start("hold", plan=[Task("t", "hold", input=HOLD_S)])
    await Gates(place).reached("hold-1")
    quick = await client.start("begin", plan=[Task("t", "quick")])

    for run in (held, quick):
        await run.result()
        assert await attempts(run) == {"t": [COMPLETED]}


async def test_step_of_a_killed_worker_is_lost_and_done_elsewhere(
    place: Place, client: Client
) -> None:
    keeper = await started(place, client)
    run = await client.start("hold", plan=[Task("h", "hold", input=FOR_EVER_S)])
    await Gates(place).reached("hold-1")
    place.kill_worker()
    await until(lambda: not is_there(keeper))
    place.start_worker(AGENT)

    assert await run.result() == {"h": "held"}
    assert await attempts(run) == {"h": [LOST, COMPLETED]}


async def test_killed_keeper_harms_nothing_and_another_one_is_started(
    place: Place, client: Client
) -> None:
    first = await started(place, client)
    gates = Gates(place)
    gates.close("hold-1")
    run = await client.start("hold", plan=[Task("h", "hold", input=HOLD_S)])
    await gates.reached("hold-1")
    os.kill(first, signal.SIGKILL)
    await until(lambda: bool(keepers(pid_of(place))) and first not in keepers(pid_of(place)))
    gates.open("hold-1")

    assert await run.result() == {"h": "held"}
    assert await attempts(run) == {"h": [COMPLETED]}


async def test_stopped_worker_is_not_kept(place: Place, client: Client) -> None:
    keeper = await started(place, client)
    run = await client.start("hold", plan=[Task("h", "hold", input=FOR_EVER_S)])
    await Gates(place).reached("hold-1")
    os.kill(pid_of(place), signal.SIGSTOP)

    async def is_lost() -> bool:
        return (await attempts(run))["h"][0] is LOST

    await until(is_lost)
    assert is_there(keeper)


async def test_idle_timeout_ends_a_function_that_holds_the_interpreter(
    place: Place, client: Client
) -> None:
    await started(place, client)
    plan = [Task("h", "hold", input=FOR_EVER_S, idle_timeout=2 * LEASE_S)]
    run = await client.start("hold", plan=plan)

    async def is_over() -> bool:
        return (await attempts(run)).get("h", [])[:1] == [ExecutionStatus.TIMED_OUT]

    await until(is_over)


async def test_worker_without_a_keeper_loses_such_a_step(place: Place, client: Client) -> None:
    place.environment["STEPWELL_KEEPER"] = "false"
    place.start_worker(AGENT)
    run = await client.start("hold", plan=[Task("h", "hold", input=HOLD_S)])
    await Gates(place).reached("hold-1")
    assert keepers(pid_of(place)) == []

    assert (await run.wait(PATIENCE_S)).status.name == "SUCCEEDED"
    assert (await attempts(run))["h"][0] is LOST
