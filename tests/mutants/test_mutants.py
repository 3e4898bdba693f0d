"""Each mutant of the table is caught by each invariant that it names.

A few are played with every test run; `make mutants` plays all and writes the table of docs/reliability.md,
and `make proof` plays all, too.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from scripts import mutants

from tests.mutants.checks import SMALL_WORLDS, Check
from tests.mutants.table import BY_NAME, TABLE, WITHOUT, Mutant
from tests.simulation.simulator.ports import HONEST
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import Scale, scale

TOP = Path(__file__).parents[2]
QUICK = (
    *("acknowledged-before-commit", "ends-forgotten", "event-misses-a-field"),
    *("lease-never-expires", "monotonic-clock-stopped", "progress-overtakes"),
    *("refused-tried-again", "results-misplaced", "stages-not-kept", "stale-result-accepted"),
    *("tenant-forgotten", "token-counter-restarts"),
)
"""At least one for each port, played with every test run."""
FAMILIES = {
    "S": 20,
    "E": 10,
    "L": 5,
    "C": 3,
    "T": 5,
    "D": 4,
    "R": 2,
    "A": 1,
    "K": 1,
    "J": 5,
    "M": 4,
    "G": 3,
    "W": 1,
    "F": 4,
}
"""The number of invariants of each letter."""

played = TABLE if scale() is not Scale.TEST else [BY_NAME[name] for name in QUICK]


@pytest.mark.proof
@pytest.mark.parametrize("mutant", played, ids=lambda mutant: mutant.name)
def test_mutant_is_caught_by_each_of_its_invariants(mutant: Mutant) -> None:
    began = time.monotonic()
    for invariant, caught in mutant.catch().items():
        unit = mutant.check.unit
        print(f"{mutant.name}: {invariant}, {caught.where}, after {caught.played} {unit}")
        caught.again(HONEST)
    seconds = time.monotonic() - began
    keep(Record("mutants", "make mutants", {"mutants caught": 1}, seconds=seconds))


@pytest.mark.parametrize("check", SMALL_WORLDS, ids=lambda check: check.name)
def test_L4_E6_E9_D3_small_world_without_a_mutant_is_right(check: Check) -> None:
    for _, play in check.cases(""):
        play(HONEST)


def test_every_invariant_has_a_mutant_or_a_reason_for_none() -> None:
    assert len(BY_NAME) == len(TABLE)
    caught = {name for mutant in TABLE for name in mutant.invariants}
    every = {f"{letter}{n}" for letter, last in FAMILIES.items() for n in range(1, last + 1)}
    assert every - caught - WITHOUT.keys() == set()
    assert caught & WITHOUT.keys() == set(), "it has a mutant by now"


def test_mutants_name_no_private_part_of_the_service() -> None:
    for name in ("changes", "stores", "others", "table", "scenarios"):
        text = (TOP / "tests" / "mutants" / f"{name}.py").read_text(encoding="utf-8")
        foreign = [line for line in text.splitlines() if re.search(r"(?<!self)\._[a-z]", line)]
        assert not foreign, foreign
        assert not re.search(r"^from \S+ import .*\b_[a-z]", text, re.MULTILINE)


def test_page_names_these_mutants_and_invariants() -> None:
    assert mutants.differences(mutants.PAGE.read_text(encoding="utf-8")) == []
