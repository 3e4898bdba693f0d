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

from tests.mutants import scenarios
from tests.mutants.checks import Conforming, Differential, Simulated, Survived
from tests.mutants.table import BY_NAME, TABLE, WITHOUT, Mutant
from tests.simulation.simulator.ports import HONEST, Ports
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import Scale, scale

TOP = Path(__file__).parents[2]
QUICK = (
    "acknowledged-before-commit",
    "event-misses-a-field",
    "fence-dropped",
    "lease-never-expires",
    "monotonic-clock-stopped",
    "progress-overtakes",
    "refused-tried-again",
    "results-misplaced",
    "stages-not-kept",
    "stale-result-accepted",
    "tenant-forgotten",
    "token-counter-restarts",
)
"""At least one for each port, played with every test run."""
FAMILIES = {"S": 20, "E": 10, "L": 5, "C": 3, "T": 5, "D": 4, "R": 2}
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


@pytest.mark.parametrize("name", ["fence-dropped", "token-counter-restarts"])
def test_caught_mutant_fails_again_while_it_is_in(name: str) -> None:
    mutant = BY_NAME[name]
    for caught in mutant.catch().values():
        with pytest.raises(Exception):  # noqa: B017, PT011 - each check has its own
            caught.again(mutant.ports)


@pytest.mark.parametrize(
    ("check", "invariant"),
    [(Simulated(seeds=1), "S2"), (Conforming(), "S2"), (Differential(programs=1), "D1")],
    ids=["simulator", "conformance suite", "differential"],
)
def test_check_without_a_mutant_survives(
    check: Simulated | Conforming | Differential, invariant: str
) -> None:
    with pytest.raises(Survived):
        check.play(HONEST, invariant)


def test_L4_busy_run_leaves_others_their_turn() -> None:
    scenarios.no_run_starves(Ports())


def test_E6_watch_from_before_the_oldest_event_is_refused_with_its_number() -> None:
    scenarios.old_cursor_is_refused(Ports())


def test_E9_stalled_watcher_holds_one_page() -> None:
    scenarios.stalled_watcher_holds_one_page(Ports())


def test_D3_failed_fsync_stops_the_store() -> None:
    scenarios.failed_sync_stops_the_store(Ports())


def test_each_mutant_has_a_name_of_its_own_and_a_sentence() -> None:
    assert len(BY_NAME) == len(TABLE)
    for mutant in TABLE:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", mutant.name), mutant.name
        assert re.fullmatch(r"[A-Z`].{20,150}\.", mutant.what), mutant.name
        assert mutant.invariants, mutant.name


def test_every_invariant_has_a_mutant_or_a_reason_for_none() -> None:
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


def test_service_has_no_switch_for_mutants() -> None:
    for name in ("service", "drivers", "clients"):
        for path in (TOP / name).rglob("*.py"):
            assert "mutant" not in path.read_text(encoding="utf-8"), path


def test_page_names_these_mutants_and_invariants() -> None:
    assert mutants.differences(mutants.PAGE.read_text(encoding="utf-8")) == []
