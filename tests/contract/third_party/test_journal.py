"""A driver of somebody else's: built, installed, found by its entry point, and its server killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell_client import RunStatus, TaskStatus
from stepwell_client.v1 import types_pb2
from tests.chaos.test_positions import GATES, canonical, reached, uninterrupted
from tests.chaos.world.processes import Place


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


@pytest.mark.timeout(180)
async def test_S3_S18_a_run_over_a_journal_goes_on_after_kills(place: Place) -> None:
    for gate in GATES:
        if gate not in {"task-left", "reflect-2"}:
            place.open_gate(gate)
    place.start_worker()
    async with place.client() as client:
        handle = await client.start("again")
        await reached(
            client,
            handle,
            lambda run: run.version > 1,
            task=("right", TaskStatus.COMPLETED),
        )
        place.kill_server()
        place.kill_worker()
        await place.start_server()
        place.start_worker()
        place.open_gate("task-left")
        await reached(client, handle, lambda run: run.iteration == 2)
        place.kill_server()
        await place.start_server()
        place.open_gate("reflect-2")
        async with asyncio.timeout(60):
            run = await client.wait(handle.id)
        assert run.status == RunStatus.SUCCEEDED, place.log("server")
        assert await canonical(client, handle.id) == await uninterrupted(place)
        info = await client.server_info()
        assert info.store.driver == "journal"
        assert info.store.durability == types_pb2.DURABILITY_POWER
