"""The bench runs: each of its works in little, on a real server with a real worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.backends import opened
from bench.records import Record, Sample, samples_of
from bench.rounds import WORKS, chosen, measured
from bench.stage import Stage
from bench.table import TABLE
from tests.bench.works import LITTLE, SHARING

FIGURES = {section.work: {line.figure for line in section.lines} for section in TABLE}


async def played(store: str, folder: Path, *names: str) -> list[Sample]:
    """Play these works on one stage; return what they came to."""
    samples: list[Sample] = []
    with opened(store, folder) as backend:
        stage = Stage(backend)
        try:
            for name in names:
                samples += samples_of(name, store, await LITTLE[name].measure(stage), 1.0)
        finally:
            await stage.close()
    return samples


@pytest.mark.parametrize(
    "names", [("limits",), SHARING, ("long",), ("watch",), ("overload",), ("parked",), ("threads",)]
)
async def test_work_comes_to_figures_of_the_table(names: Sequence[str], tmp_path: Path) -> None:
    samples = await played("sqlite", tmp_path, *names)

    assert [sample.work for sample in samples] == list(names)
    for sample in samples:
        assert sample.figures.keys() <= FIGURES[sample.work]
        assert all(value >= 0 for value in sample.figures.values())


@pytest.mark.parametrize("store", ["postgres", "redis"])
async def test_work_on_a_database_counts_its_cpu(
    store: str, tmp_path: Path, backends: None
) -> None:
    limits, chains, parked = await played(store, tmp_path, "limits", "chains", "parked")

    assert limits.figures
    assert chains.figures["database_us"] > 0
    assert parked.figures["claim"] > 0


async def test_replicas_are_compared(tmp_path: Path, backends: None) -> None:
    (sample,) = await played("grpc:sqlite", tmp_path, "replicas")

    assert sample.figures["ratio"] > 0


async def test_each_round_has_every_store_in_another_order() -> None:
    works = [(LITTLE["wide"], ("memory", "sqlite"))]
    samples = [sample async for sample in measured(works, 2, lambda _: None, [])]

    assert [sample.store for sample in samples] == ["memory", "sqlite", "sqlite", "memory"]


@dataclass(frozen=True)
class Failing:
    """A work that fails."""

    name: str = "failing"
    stores: Sequence[str] = ("memory",)
    once: bool = False

    async def measure(self, stage: Stage) -> Sequence[Record]:
        raise TimeoutError(stage.backend.name)


async def test_work_that_fails_is_named_and_costs_the_others_nothing() -> None:
    works = [(work, ("memory",)) for work in (Failing(), LITTLE["wide"])]
    failed: list[str] = []
    samples = [sample async for sample in measured(works, 1, lambda _: None, failed)]

    assert failed == ["failing on memory"]
    assert [sample.work for sample in samples] == ["wide"]


def test_every_work_is_in_the_table_and_in_little() -> None:
    names = {work.name for work in WORKS}

    assert names == FIGURES.keys() == LITTLE.keys()
    assert {work.name for work, _ in chosen([], [])} == names - {"replicas"}
