"""Ten shares of the proofs, of about the same length: CI plays one of them for each commit.

A file with many tests is dealt out evenly, so that each share has a tenth of the simulator's seeds and of the
faulty store's cells. The others go, the longest first, to the share that is shortest so far, by the seconds
in tests/support/seconds.json.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

SHARES = 10
UNKNOWN_S = 5.0
"""Seconds of a test that has not been measured."""


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def seconds_of(test: str, seconds: Mapping[str, float]) -> float:
    """Return how long a test takes: its own time, or the mean of its file."""
    return seconds.get(test, seconds.get(file_of(test), UNKNOWN_S))


def by_file(tests: Iterable[str]) -> dict[str, list[str]]:
    """Return the tests of each file, in their order."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        files[file_of(test)].append(test)
    return dict(sorted(files.items()))


def shares_of(tests: Iterable[str], seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the share of each test; the same for the same tests and seconds, whatever their order."""
    found: dict[str, int] = {}
    lengths = [0.0] * SHARES
    few: list[str] = []
    turn = 0
    for parts in by_file(sorted(tests)).values():
        if len(parts) < SHARES:
            few += parts
            continue
        for test in parts:
            found[test] = turn % SHARES
            lengths[turn % SHARES] += seconds_of(test, seconds)
            turn += 1
    for test in sorted(few, key=lambda test: (-seconds_of(test, seconds), test)):
        share = lengths.index(min(lengths))
        found[test] = share
        lengths[share] += seconds_of(test, seconds)
    return found


def measured(tests: Mapping[str, float]) -> dict[str, float]:
    """Return what the table keeps of the tests that were played: a mean where a file has many."""
    table: dict[str, float] = {}
    for file, parts in by_file(tests).items():
        if len(parts) < SHARES:
            table |= {test: round(tests[test], 1) for test in parts}
        else:
            table[file] = round(sum(tests[test] for test in parts) / len(parts), 2)
    return table
