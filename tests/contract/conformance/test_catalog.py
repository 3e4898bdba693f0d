"""Every sentence of the store's port is held by a case, and every case holds what it says."""

from __future__ import annotations

from collections import Counter
from types import FunctionType

import pytest

from stepwell.core.records.states import Durability
from stepwell_testkit import conformance
from stepwell_testkit.conformance import catalog, groups, report
from stepwell_testkit.conformance.groups import MANDATORY, OPTIONAL
from stepwell_testkit.conformance.harness import Cases
from tests.contract.conformance.conftest import FACTORIES, UrlFactory


def _functions() -> list[tuple[str, FunctionType]]:
    """Return each case with the name of its class."""
    classes = [getattr(conformance, it) for it in conformance.__all__ if it.startswith("Test")]
    return [
        (suite_class.__name__, function)
        for suite_class in classes
        for name, function in vars(suite_class).items()
        if name.startswith("test_")
    ]


def _cases() -> list[str]:
    return [function.__name__ for _, function in _functions()]


def test_every_sentence_of_the_port_is_held_by_a_case() -> None:
    assert catalog.unclaimed() == []


def test_every_case_quotes_the_port_as_it_stands() -> None:
    assert catalog.misquoted() == []


def test_every_invariant_that_a_store_can_keep_has_a_case() -> None:
    assert catalog.uncovered(_cases()) == []


def test_every_case_holds_a_sentence_and_has_a_name_of_its_own() -> None:
    cases = _cases()
    assert [name for name, times in Counter(cases).items() if times > 1] == []
    # A random program holds no one sentence, but all of them together.
    programs = {name for name in vars(conformance.TestPrograms) if name.startswith("test_")}
    assert set(cases) - {promise.case for promise in catalog.PROMISES} == programs


def test_every_class_of_cases_is_exported_and_stands_in_one_group() -> None:
    classes = sorted(group.__name__ for group in Cases.__subclasses__())
    assert set(classes) <= set(conformance.__all__)
    assert sorted(name for group in groups.GROUPS.values() for name in group.classes) == classes
    assert all(group.classes for group in groups.GROUPS.values())
    assert sorted([*OPTIONAL, *MANDATORY]) == sorted(groups.GROUPS)


def test_what_needs_optional_groups_is_a_case_and_they_are_optional() -> None:
    assert sorted(set(groups.ALSO) - set(_cases())) == []
    assert {name for names in groups.ALSO.values() for name in names} <= set(OPTIONAL)


@pytest.mark.parametrize("factory", FACTORIES, ids=lambda factory: factory.name)
def test_every_excuse_names_a_case_or_an_optional_group_and_gives_a_reason(
    factory: type[UrlFactory],
) -> None:
    assert groups.misnamed(factory.excuses, _cases()) == []
    if factory.name == "memory":
        assert factory.excuses == {}
        assert factory.durability is Durability.VOLATILE


def test_excuse_without_a_case_is_reported() -> None:
    said = groups.misnamed(
        {"test_x": "why", "commits": "no", "presance": "a typo", "logs": " "}, ["test_x"]
    )
    assert said == [
        "commits: no executor can do without this group; excuse single cases",
        "presance: there is no such case and no such optional group",
        "logs: gives no reason",
    ]


def test_a_case_is_excused_by_its_name_and_by_each_optional_group_that_it_needs() -> None:
    def excuse(*excuses: str) -> str:
        case = "test_a_deleted_run_hides_no_other_from_the_feed"
        found = groups.excuse_of("TestFeed", case, dict.fromkeys(excuses, "reason"))
        return found[0] if found is not None else ""

    assert excuse("test_a_deleted_run_hides_no_other_from_the_feed").startswith("test_")
    assert (excuse("feed"), excuse("delete"), excuse("delete", "feed")) == (
        *("feed", "delete", "feed"),
    )
    assert excuse("logs", "presence", "test_other") == ""
    assert groups.excuse_of("TestReady", "test_x", {"claims": "no"}) is None


def test_the_summary_names_what_was_kept_broken_and_excused_by_group() -> None:
    clock = "its clock can't be moved"
    outcomes = [
        report.Outcome("test_S1_x", "mine", "commits", "passed"),
        report.Outcome("test_S4_E3_y", "mine", "commits", "passed"),
        report.Outcome("test_S4_z", "mine", "claims", "failed"),
        report.Outcome("test_C2_w", "mine", "time", "skipped", "test_C2_w", clock),
        report.Outcome("test_a", "mine", "logs", "skipped", "logs", "it keeps none"),
        report.Outcome("test_b", "mine", "logs", "skipped", "logs", "it keeps none"),
        report.Outcome("test_c", "mine", "hints", "passed"),
    ]
    lines = report.summary_of("mine", outcomes)
    assert lines[:5] == [
        "mine: 7 cases: 3 passed, 1 failed, 3 skipped",
        "  mandatory: commits 2, claims 0 of 1, time 0 of 1",
        "  optional: logs 0 of 2, hints 1",
        "  kept: E3 S1",
        "  BROKEN: S4",
    ]
    assert lines[5].startswith("  not tested: ")
    assert "C2" in lines[5]
    assert lines[6:] == [
        "  excused: test_C2_w: its clock can't be moved",
        "  excused: logs (group, 2 cases): it keeps none",
    ]
