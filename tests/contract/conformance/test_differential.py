"""D1: the same program of calls has the same answers on every driver.

A share of what `python -m tests.contract.differential` does at length. A failure prints the program, made
small, with the command that plays it again.
"""

from __future__ import annotations

import pytest

from stepwell_testkit.conformance.harness import StoreFactory
from tests.contract.differential import Explorer, Subject

SEEDS = 2
PROGRAMS = 10
STEPS = 50


@pytest.mark.parametrize("seed", range(SEEDS), ids=lambda seed: f"seed-{seed}")
async def test_D1_same_calls_have_the_reference_answers(
    open_store: StoreFactory, seed: int
) -> None:
    subject = Subject(open_store)
    try:
        await Explorer(subject).explore(seed, programs=PROGRAMS, steps=STEPS)
    finally:
        await subject.drop()
