"""Every sentence of the store's port is held by a case, and every case holds what it says."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest

from stepwell.core.states import Durability
from stepwell.testing import conformance
from stepwell.testing.conformance import catalog, report
from stepwell.testing.conformance.harness import Cases
from tests.conformance.conftest import FACTORIES, UrlFactory


def _cases() -> list[str]:
    groups = [getattr(conformance, name) for name in conformance.__all__ if name.startswith("Test")]
    return [name for group in groups for name in vars(group) if name.startswith("test_")]


def test_every_sentence_of_the_port_is_held_by_a_case() -> None:
    assert catalog.unclaimed() == []


def test_every_case_quotes_the_port_as_it_stands() -> None:
    assert catalog.misquoted() == []


def test_every_invariant_that_a_store_can_keep_has_a_case() -> None:
    assert catalog.uncovered(_cases()) == []


def test_every_group_of_cases_is_exported() -> None:
    assert {group.__name__ for group in Cases.__subclasses__()} <= set(conformance.__all__)


def test_every_case_holds_a_sentence_and_has_a_name_of_its_own() -> None:
    cases = _cases()
    assert [name for name, times in Counter(cases).items() if times > 1] == []
    assert sorted(set(cases) - {promise.case for promise in catalog.PROMISES}) == []
    assert len(cases) >= 120


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.name)
def test_every_excuse_names_a_case_and_gives_a_reason(factory: type[UrlFactory]) -> None:
    assert sorted(set(factory.excuses) - set(_cases())) == []
    assert all(reason.strip() for reason in factory.excuses.values())
    if factory.name == "memory":
        assert factory.excuses == {}
        assert factory.durability is Durability.VOLATILE


def test_sentences_are_told_apart() -> None:
    text = """Do it: wholly, or not. `x` > 0: more; or less.

        Even over lines.
        None: nothing.

        Raises:
            Trouble: it broke.
        """
    assert catalog.sentences(inspect.cleandoc(text)) == [
        "Do it: wholly, or not.",
        "`x` > 0: more; or less.",
        "Even over lines.",
        "None: nothing.",
        "Trouble: it broke.",
    ]


def test_the_summary_names_what_was_kept_broken_and_excused() -> None:
    lines = report.summary_of(
        "mine",
        [
            report.Outcome("test_S1_x", "mine", "passed"),
            report.Outcome("test_S4_E3_y", "mine", "passed"),
            report.Outcome("test_S4_z", "mine", "failed"),
            report.Outcome("test_C2_w", "mine", "skipped", "its clock can't be moved"),
        ],
    )
    assert lines[0] == "mine: 2 passed, 1 failed, 1 skipped"
    assert lines[1] == "  kept: E3 S1"
    assert lines[2] == "  BROKEN: S4"
    assert "C2" in lines[3]
    assert lines[-1] == "  excused: test_C2_w: its clock can't be moved"
