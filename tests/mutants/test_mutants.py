"""The teeth: bugs as the field has them, planted one by one, each caught by an invariant with a name.

A little of it runs with every test run; `make mutants` plays them all and writes the table of
docs/reliability.md, and `make proof` plays them all, too.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from scripts import mutants

from tests.mutants.bug import Bug, Unnoticed, catch, planted
from tests.mutants.catalogue import BUGS, BY_NAME, WITHOUT
from tests.mutants.conforming import Conforming
from tests.mutants.simulated import Simulated
from tests.mutants.starving import nobody_starves
from tests.support.proofs.record import Record, keep
from tests.support.proofs.sizes import Scale, scale

TOP = Path(__file__).parents[2]
QUICK = (
    "acknowledged-before-commit",
    "attempt-number-reused",
    "busy-run-keeps-its-worker",
    "claim-of-every-tenant",
    "cursor-skips",
    "event-misses-a-field",
    "fence-dropped-in-memory",
    "fence-dropped-in-sql",
    "refused-commit-tried-again",
    "version-not-compared",
)
"""One of each kind, played with every test run."""
FAMILIES = {"S": 20, "E": 10, "L": 5, "C": 3, "T": 5, "D": 4, "R": 2}
"""How many invariants there are of each letter."""

played = BUGS if scale() is not Scale.TEST else [BY_NAME[name] for name in QUICK]


@pytest.mark.proof
@pytest.mark.parametrize("bug", played, ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught_by_a_named_invariant(bug: Bug) -> None:
    began = time.monotonic()
    invariant, caught = catch(bug)
    seconds = time.monotonic() - began
    print(f"{bug.name}: {invariant}, {caught.where}, after {caught.tried} {bug.check.unit}")

    # What caught it holds without the bug.
    caught.again()
    keep(Record("teeth", "make mutants", {"planted bugs caught": 1}, seconds=seconds))


@pytest.mark.parametrize("name", ["version-not-compared", "attempt-number-reused"])
def test_what_caught_a_bug_fails_again_as_long_as_the_bug_is_in(name: str) -> None:
    bug = BY_NAME[name]
    _, caught = catch(bug)
    with planted(bug), pytest.raises(Exception):  # noqa: B017, PT011 - each check has its own
        caught.again()
    caught.again()


@pytest.mark.parametrize("check", [Simulated(seeds=1), Conforming()], ids=lambda check: check.proof)
def test_a_check_that_holds_notices_nothing(check: Simulated | Conforming) -> None:
    with pytest.raises(Unnoticed):
        check.play(("S2",))


def test_L4_beside_a_busy_run_others_have_their_turn() -> None:
    nobody_starves()


def test_there_are_thirty_and_each_is_told_in_a_sentence() -> None:
    assert len(BUGS) >= 30
    assert len(BY_NAME) == len(BUGS)
    for bug in BUGS:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", bug.name), bug.name
        assert re.fullmatch(r".{20,200}\.", bug.what), bug.name
        assert bug.invariants, bug.name


def test_every_invariant_has_a_bug_that_breaks_it_or_a_reason() -> None:
    caught = {name for bug in BUGS for name in bug.invariants}
    every = {f"{letter}{n}" for letter, last in FAMILIES.items() for n in range(1, last + 1)}
    assert every - caught - WITHOUT.keys() == set()
    assert caught & WITHOUT.keys() == set(), "there is a bug for it by now"


def test_production_code_knows_nothing_of_any_bug() -> None:
    for name in ("service", "drivers", "clients"):
        for path in (TOP / name).rglob("*.py"):
            assert "planted" not in path.read_text(encoding="utf-8"), path


def test_the_page_names_these_bugs_and_invariants() -> None:
    assert mutants.differences(mutants.PAGE.read_text(encoding="utf-8")) == []
