"""A driver of somebody else's: built, installed, found by its entry point, and its server killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepwell_client import Task
from stepwell_client.v1 import types_pb2
from tests.chaos.world.agent import GATES
from tests.chaos.world.processes import Place
from tests.support.patience import PATIENCE_S, until

AGENT = "tests.chaos.world.agent:agent"
PLAN = [
    Task("before", "quick"),
    Task("held", "gated", depends_on=["before"]),
    Task("after", "quick", depends_on=["held"]),
]


class JournalPlace(Place):
    """Server and worker over a journal."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        super().__init__(folder)
        self.environment |= {"PYTHONPATH": environment["PYTHONPATH"], GATES: str(folder)}

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
async def test_S3_a_run_over_a_journal_goes_on_after_kills(place: Place) -> None:
    place.start_worker(AGENT)
    async with place.client() as client:
        run = await client.start(plan=PLAN)

        async def is_held() -> bool:
            return (await run.get()).counts.completed == 1

        await until(is_held)
        place.kill_server()
        place.kill_worker()
        await place.start_server()
        place.start_worker(AGENT)
        (place.folder / "gate").touch()
        async with asyncio.timeout(PATIENCE_S):
            results = await run.result()
        assert {name: one["task"] for name, one in results.items()} == {t.id: t.id for t in PLAN}
        assert results["before"]["attempt"] == 1
        info = await client.info()
        assert info.store.driver == "journal"
        assert info.store.durability == types_pb2.DURABILITY_POWER
