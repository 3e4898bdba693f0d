"""D1: the same program of calls has the same answers on every driver.

A share of what `python -m stepwell.testing.programs` does at length. A failure prints the program, made
small, with the command that plays it again.
"""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

import pytest

from stepwell.testing.conformance.catalog import promises
from stepwell.testing.conformance.harness import Cases, StoreFactory
from stepwell.testing.programs import Explorer, Subject

SEEDS = 2
PROGRAMS = 10
STEPS = 50


class TestSideBySide(Cases):
    """The driver and the reference, call by call."""

    @promises("Commit", "Rows are whole and replace those of the same key")
    @promises("Errors", "Nothing else is raised for a legal call")
    @pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
    async def test_D1_the_same_calls_have_the_same_answers_as_the_reference_gives(
        self, open_store: StoreFactory, seed: int
    ) -> None:
        subject = Subject(open_store)
        try:
            explorer = Explorer(subject, number=seed * PROGRAMS)
            await explorer.explore(seed, programs=PROGRAMS, steps=STEPS)
        finally:
            await subject.drop()
