"""E9: what a watcher holds while its reader doesn't read is counted in bytes, and in whole commits (E8)."""

from __future__ import annotations

from stepwell.core.records.states import EventType
from stepwell.watch.rings import EncodedEvent
from stepwell.watch.runs import PAGE_BYTES_MAX, events_that_fit


def log(*sizes: tuple[int, int]) -> list[EncodedEvent]:
    """Return events of these versions, with so many bytes."""
    return [
        EncodedEvent(number, version, EventType.RUN_PAUSED, "", b"x" * size)
        for number, (version, size) in enumerate(sizes, start=1)
    ]


def test_small_events_are_taken_as_they_come() -> None:
    assert events_that_fit(log(*((version, 10) for version in range(500)))) == 500
    assert events_that_fit([]) == 0


def test_E9_of_large_ones_a_few_are_taken() -> None:
    quarter = PAGE_BYTES_MAX // 4 + 1
    assert events_that_fit(log(*((version, quarter) for version in range(500)))) == 3


def test_E8_a_page_is_cut_between_commits() -> None:
    half = PAGE_BYTES_MAX // 2
    assert events_that_fit(log((1, 10), (2, half), (2, 10), (2, half), (3, 10))) == 1


def test_one_commit_that_is_larger_is_taken_whole() -> None:
    large = PAGE_BYTES_MAX
    assert events_that_fit(log((1, large), (1, large), (2, 10))) == 2
    assert events_that_fit(log((1, large), (1, large))) == 2
