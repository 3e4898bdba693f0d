"""A driver of somebody else's: built, installed, found by its entry point, and its server killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell_client import (
    Client,
    Run,
    RunHandle,
    RunStatus,
)
from stepwell_client.v1 import types_pb2
from tests.chaos.world.processes import Place
from tests.support.patience import PATIENCE_S

AGENT = "tests.contract.third_party.stages:agent"
GATES = ("plan", "task-left", "task-right", "task-more", "reflect-1", "reflect-2", "synthesize")


class JournalPlace(Place):
    """Server and worker over a journal."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(folder)
        self.environment["PYTHONPATH"] = environment["PYTHONPATH"]

    @property
    def store_url(self) -> str:
        return f"journal://{self.folder}/runs.journal"


@pytest.fixture
async def place(tmp_path: Path, environment: dict[str, str]) -> AsyncIterator[Place]:
    place = JournalPlace(tmp_path, environment)
    await place.start_server()
    try:
        yield place
    finally:
        place.close()


async def reached(client: Client, handle: RunHandle, there: Callable[[Run], bool]) -> None:
    """Follow the run until it stands where the test wants it."""
    async with asyncio.timeout(PATIENCE_S), handle.watch() as events:
        async for _ in events:
            if there(await client.run(handle.id).get()):
                return
    raise AssertionError("the run ended before it was there")


async def canonical(client: Client, run_id: str) -> dict[str, Any]:
    """Return the part of a run that is the same however often it was interrupted."""
    run = await client.run(run_id).get()
    results = await client.run(run_id).results()
    return {
        "status": run.status,
        "phase": run.phase,
        "iteration": run.iteration,
        "revision": run.plan_revision,
        "tasks": {one.id: one.status async for one in client.run(run_id).tasks()},
        "results": dict(results.tasks),
        "result": results.answer(),
    }


async def uninterrupted(client: Client) -> dict[str, Any]:
    """Run it again on the same server, with nothing in the way."""
    handle = await client.start("again")
    await handle.wait(timeout_seconds=PATIENCE_S)
    return await canonical(client, handle.id)


@pytest.mark.timeout(180)
async def test_S3_S18_a_run_over_a_journal_goes_on_after_kills(place: Place) -> None:
    for gate in GATES:
        if gate not in {"task-left", "reflect-2"}:
            place.open_gate(gate)
    place.start_worker(AGENT)
    async with place.client() as client:
        handle = await client.start("again")
        await reached(client, handle, lambda run: run.counts.completed == 1)
        place.kill_server()
        place.kill_worker()
        await place.start_server()
        place.start_worker(AGENT)
        place.open_gate("task-left")
        await reached(client, handle, lambda run: run.iteration == 2)
        place.kill_server()
        await place.start_server()
        place.open_gate("reflect-2")
        async with asyncio.timeout(60):
            run = await client.run(handle.id).wait()
        assert run.status == RunStatus.SUCCEEDED, place.log("server")
        assert await canonical(client, handle.id) == await uninterrupted(client)
        info = await client.info()
        assert info.store.driver == "journal"
        assert info.store.durability == types_pb2.DURABILITY_POWER
