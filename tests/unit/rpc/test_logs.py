"""The log's bound: the same words are written ten times a minute, and the rest is counted."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stepwell.logger import Logger
from stepwell.rpc.logs import SAME_LINES_MAX, SAME_LINES_SECONDS, WORDS_REMEMBERED_MAX, Limit


class Kept(logging.Handler):
    """A log behind a limit, on a clock that is set by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.addFilter(Limit(lambda: self.now))
        self.written: list[tuple[str, dict[str, Any]]] = []
        self.library = logging.getLogger("a library")
        self.library.handlers = [self]
        self.library.propagate = False
        self.log = Logger(self.library)

    def emit(self, record: logging.LogRecord) -> None:
        ours = vars(record)
        self.written.append((ours.get("event", record.getMessage()), ours.get("fields", {})))


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_R1_same_words_are_written_ten_times_a_minute(kept: Kept) -> None:
    for number in range(500):
        kept.log.warning("the disk is full", run_id=number)
        kept.library.warning("call %s failed", number)
    assert len(kept.written) == 2 * SAME_LINES_MAX


def test_line_after_a_minute_counts_those_that_were_left_out(kept: Kept) -> None:
    for _ in range(SAME_LINES_MAX + 7):
        kept.log.warning("the disk is full")
    kept.now = SAME_LINES_SECONDS
    kept.log.warning("the disk is full", run_id="r")
    kept.log.warning("the disk is full")
    assert kept.written[-2:] == [
        ("the disk is full", {"run_id": "r", "left_out": 7}),
        ("the disk is full", {}),
    ]


def test_rare_line_is_always_written_and_counts_nothing(kept: Kept) -> None:
    for _ in range(3 * SAME_LINES_MAX):
        kept.log.warning("a step is poison")
        kept.now += SAME_LINES_SECONDS / SAME_LINES_MAX
    assert kept.written == [("a step is poison", {})] * 3 * SAME_LINES_MAX


def test_words_that_are_never_the_same_are_forgotten(kept: Kept) -> None:
    for number in range(2 * WORDS_REMEMBERED_MAX):
        words = f"words {number}"
        kept.log.warning(words)
    assert len(kept.written) == 2 * WORDS_REMEMBERED_MAX
    for _ in range(SAME_LINES_MAX + 1):
        kept.log.warning("words 0")
    assert len(kept.written) == 2 * WORDS_REMEMBERED_MAX + SAME_LINES_MAX
