"""Defects as drivers have them, planted in a memory store: programs find each within a few."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from stepwell.core.port import Store
from stepwell_testkit.proxy import StoreProxy
from tests.contract.conformance.conftest import MemoryFactory
from tests.contract.differential import Explorer, Program, ProgramFailed, Subject, replay
from tests.mutants.doors import FOUND_BY_PROGRAMS

PROGRAMS = 60


class PlantedFactory(MemoryFactory):
    """The memory driver with a defect."""

    def __init__(self, folder: Path, plant: Callable[[Store], Store]) -> None:
        super().__init__(folder)
        self.plant = plant

    async def at(self, url: str) -> Store:
        store = await super().at(url)
        planted = self.plant(store)
        self.opened[id(planted)] = (planted, url)
        return planted


@pytest.fixture
async def subjects(
    tmp_path: Path,
) -> AsyncIterator[Callable[[Callable[[Store], Store]], Subject]]:
    made: list[Subject] = []

    def make(plant: Callable[[Store], Store]) -> Subject:
        # A folder is a name, and stores of one name are one store.
        made.append(Subject(PlantedFactory(tmp_path / str(len(made)), plant)))
        return made[-1]

    yield make
    for subject in made:
        await subject.drop()
        await subject.factory.close()


@pytest.mark.parametrize("planted", FOUND_BY_PROGRAMS, ids=lambda planted: planted.__name__)
async def test_D1_a_planted_defect_is_found_and_its_replay_shows_it_again(
    planted: type[StoreProxy], subjects: Callable[[Callable[[Store], Store]], Subject]
) -> None:
    explorer = Explorer(subjects(planted), shrink_s=0.5)
    with pytest.raises(ProgramFailed) as failed:
        await explorer.explore(1, programs=PROGRAMS, steps=50)

    text = str(failed.value).rpartition("--replay ")[2]
    with pytest.raises(ProgramFailed):
        await replay(subjects(planted), Program.of(text))
    # And it was the defect.
    await replay(subjects(StoreProxy), Program.of(text))
