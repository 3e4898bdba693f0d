"""SIGKILL of the server wherever a run can stand; the run ends as if nothing had been."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepwell_client import Client, Phase, RunHandle, RunStatus, TaskStatus
from stepwell_client.v1 import types_pb2
from tests.chaos.world.processes import Place
from tests.support.patience import PATIENCE_S

GATES = ("plan", "task-left", "task-right", "task-more", "reflect-1", "reflect-2", "synthesize")


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    place = Place(tmp_path)
    await place.start_server()
    try:
        yield place
    finally:
        place.close()


async def reached(
    client: Client,
    handle: RunHandle,
    there: Callable[[types_pb2.Run], bool],
    *,
    task: tuple[str, TaskStatus] | None = None,
) -> None:
    """Follow the run until it, and one of its tasks, stand where the test wants them."""
    async with asyncio.timeout(PATIENCE_S), handle.watch() as events:
        async for _ in events:
            run = await client.get(handle.id)
            if there(run) and (task is None or await task_is(client, handle.id, *task)):
                return
    raise AssertionError("the run ended before it was there")


def is_executing(run: types_pb2.Run) -> bool:
    return run.phase == Phase.EXECUTING


async def task_is(client: Client, run_id: str, task_id: str, status: TaskStatus) -> bool:
    return any(
        [e.task.task_id == task_id and e.task.status == status async for e in client.tasks(run_id)]
    )


async def canonical(client: Client, run_id: str) -> dict[str, Any]:
    """Return the part of a run that is the same however often it was interrupted."""
    run = await client.get(run_id)
    results = await client.results(run_id)
    entries = [entry async for entry in client.tasks(run_id)]
    return {
        "status": run.status,
        "phase": run.phase,
        "iteration": run.iteration,
        "revision": run.plan_revision,
        "tasks": {entry.task.task_id: entry.task.status for entry in entries},
        "results": dict(results.tasks),
        "result": results.answer(),
    }


async def uninterrupted(place: Place) -> dict[str, Any]:
    """Run it again on the same server, with nothing in the way."""
    for gate in GATES:
        place.open_gate(gate)
    async with place.client() as client:
        handle = await client.start("again")
        await handle.wait(timeout_seconds=PATIENCE_S)
        return await canonical(client, handle.id)


class Position(NamedTuple):
    """A place in a run's life at which its server is killed."""

    gates: Sequence[str]
    """Open from the beginning."""
    there: Callable[[types_pb2.Run], bool]
    task: tuple[str, TaskStatus] | None = None
    max_parallel: int = 8
    workers_end: bool = False
    """The worker is killed first, so that nothing is in flight."""
    end: RunStatus | None = None
    """The run has stopped with this status before the kill, and is resumed after it."""


PLANNED = ("plan", "task-left", "task-right")
POSITIONS = {
    "planning": Position((), lambda run: run.phase == Phase.PLANNING),
    "executing, nothing in flight": Position(
        ("plan",), is_executing, ("left", TaskStatus.READY), 1, workers_end=True
    ),
    "executing, tasks in flight": Position(("plan",), is_executing, ("right", TaskStatus.RUNNING)),
    "reflecting": Position(PLANNED, lambda run: run.phase == Phase.REFLECTING),
    "synthesizing": Position(GATES[:-1], lambda run: run.phase == Phase.SYNTHESIZING),
    "paused": Position(("plan",), is_executing, end=RunStatus.PAUSED),
    "failed": Position((*PLANNED, "fail"), lambda run: run.version > 1, end=RunStatus.FAILED),
}


async def stand(place: Place, client: Client, position: Position) -> RunHandle:
    """Start a run and bring it to its position."""
    for gate in position.gates:
        place.open_gate(gate)
    place.start_worker()
    handle = await client.start("again", max_parallel=position.max_parallel)
    if position.workers_end:
        await reached(client, handle, position.there)
        place.kill_worker()
        place.worker = None
    await reached(client, handle, position.there, task=position.task)
    if position.end is RunStatus.PAUSED:
        await handle.pause(reason="a pause")
    elif position.end is RunStatus.FAILED:
        assert (await handle.wait(timeout_seconds=PATIENCE_S)).failure.kind == "WANTED"
    return handle


@pytest.mark.parametrize("name", POSITIONS)
async def test_S18_run_ends_the_same_when_its_server_is_killed_anywhere(
    place: Place, name: str
) -> None:
    position = POSITIONS[name]
    async with place.client() as client:
        handle = await stand(place, client, position)
    place.kill_server()
    await place.start_server()
    if place.worker is None:
        place.start_worker()
    async with place.client() as client:
        if position.end is not None:
            assert (await client.get(handle.id)).status == position.end
            if position.end is RunStatus.FAILED:
                place.close_gate("fail")
            await client.resume(handle.id)
        for gate in GATES:
            place.open_gate(gate)
        async with asyncio.timeout(PATIENCE_S):
            run = await client.wait(handle.id)
        assert run.status == RunStatus.SUCCEEDED, place.log("server")
        assert await canonical(client, handle.id) == await uninterrupted(place)
