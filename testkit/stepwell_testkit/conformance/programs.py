"""Programs of calls, drawn at random, on the driver and on the reference."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

import pytest

from stepwell_testkit.conformance.drawn import Explorer, Subject
from stepwell_testkit.conformance.harness import Cases, StoreFactory

SEEDS = 2
PROGRAMS = 10
STEPS = 50


class TestPrograms(Cases):
    """A short run of `python -m stepwell_testkit.conformance.drawn`.

    A failure prints the shrunk program, with the command that replays it.
    """

    @pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
    async def test_D1_same_calls_have_the_reference_answers(
        self, open_store: StoreFactory, seed: int
    ) -> None:
        subject = Subject(open_store)
        try:
            await Explorer(subject).explore(seed, programs=PROGRAMS, steps=STEPS)
        finally:
            await subject.drop()
