"""SIGKILL of the server wherever a run can stand; the run ends as if nothing had been."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell_client import Client, Phase, RunHandle, RunStatus, TaskStatus
from stepwell_client.v1 import types_pb2
from tests.chaos.world.processes import Place

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
    async with asyncio.timeout(20), handle.watch() as events:
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
    """What of a run must be the same however often it was interrupted."""
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
        await handle.wait(timeout_seconds=30)
        return await canonical(client, handle.id)


async def kill_and_finish(
    place: Place, handle: RunHandle, resume: Callable[[Client], Awaitable[object]] | None = None
) -> None:
    """Kill the server, start another, open all gates, and compare the end."""
    place.kill_server()
    await place.start_server()
    if place.worker is None:
        place.start_worker()
    for gate in GATES:
        place.open_gate(gate)
    async with place.client() as client:
        if resume is not None:
            await resume(client)
        async with asyncio.timeout(40):
            run = await client.wait(handle.id)
        assert run.status == RunStatus.SUCCEEDED, place.log("server")
        assert await canonical(client, handle.id) == await uninterrupted(place)


async def test_killed_while_planning(place: Place) -> None:
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again")
        await reached(client, handle, lambda run: run.status == RunStatus.RUNNING)
        assert (await client.get(handle.id)).phase == Phase.PLANNING
        await kill_and_finish(place, handle)


async def test_killed_while_executing_with_nothing_in_flight(place: Place) -> None:
    place.open_gate("plan")
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again", max_parallel=1)
        await reached(client, handle, is_executing)
        place.kill_worker()
        place.worker = None
        await reached(client, handle, is_executing, task=("left", TaskStatus.READY))
        await kill_and_finish(place, handle)


async def test_killed_while_executing_with_tasks_in_flight(place: Place) -> None:
    place.open_gate("plan")
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again")
        await reached(client, handle, is_executing, task=("right", TaskStatus.RUNNING))
        await kill_and_finish(place, handle)


async def test_killed_while_reflecting(place: Place) -> None:
    for gate in ("plan", "task-left", "task-right"):
        place.open_gate(gate)
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again")
        await reached(client, handle, lambda run: run.phase == Phase.REFLECTING)
        await kill_and_finish(place, handle)


async def test_killed_while_synthesizing(place: Place) -> None:
    for gate in GATES[:-1]:
        place.open_gate(gate)
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again")
        await reached(client, handle, lambda run: run.phase == Phase.SYNTHESIZING)
        await kill_and_finish(place, handle)


async def test_killed_while_paused(place: Place) -> None:
    place.open_gate("plan")
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again")
        await reached(client, handle, is_executing)
        await handle.pause(reason="a look")

        async def resume(again: Client) -> None:
            run = await again.get(handle.id)
            assert (run.status, run.phase) == (RunStatus.PAUSED, Phase.EXECUTING)
            await again.resume(handle.id)

        await kill_and_finish(place, handle, resume)


async def test_killed_after_it_failed(place: Place) -> None:
    for gate in ("plan", "task-left", "task-right", "fail"):
        place.open_gate(gate)
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again")
        run = await handle.wait(timeout_seconds=30)
        assert run.status == RunStatus.FAILED

        async def resume(again: Client) -> None:
            run = await again.get(handle.id)
            assert (run.status, run.failure.kind) == (RunStatus.FAILED, "WANTED")
            place.close_gate("fail")
            await again.resume(handle.id)

        await kill_and_finish(place, handle, resume)
