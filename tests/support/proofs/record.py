"""Records of what the proofs did: for the figures in docs/reliability.md, and for what must have happened.

A test's records go with its report to the process that writes them down (tests/support/proofs/played.py); one that
fails has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Record(NamedTuple):
    """Record of what one proof, or a part of it, did."""

    proof: str
    """Its row in the table of figures, such as `kills, sqlite`."""
    command: str
    """The command that plays it again."""
    figures: Mapping[str, int]
    """Counts by name; the parts of a proof are added up."""
    happened: Mapping[str, int] = {}
    """Counts of rare things: those of `tests.support.proofs.must_happen`, and any others."""
    seconds: float = 0.0
    """The time that it took."""
    seed: str = ""
    """The seed of its chance; empty: there is none in it."""


kept: list[Record] = []
"""Records of the test that runs."""


def keep(record: Record) -> None:
    """Keep a record of the test that runs."""
    kept.append(record)


def note(
    proof: str, figures: Mapping[str, int], happened: Mapping[str, int] = {}, seed: object = ""
) -> None:
    """Keep a record of the test that runs; who writes it down adds the test's seconds and its file's command."""
    keep(Record(proof, "", figures, happened, seed=str(seed)))


def happened(*names: str) -> None:
    """Note that each of these rare things was met once, in a test that is about just that."""
    keep(Record("", "", {}, Counter(names)))


def together(records: Iterable[Record]) -> list[Record]:
    """Return one record for each proof: figures, occurrences and seconds of its parts added up."""
    found: dict[str, Record] = {}
    for one in records:
        before = found.get(one.proof, one._replace(figures={}, happened={}, seconds=0.0))
        seeds = [seed for seed in (*before.seed.split(", "), one.seed) if seed]
        found[one.proof] = before._replace(
            figures=dict(_sum(before.figures, one.figures)),
            happened=dict(_sum(before.happened, one.happened)),
            seconds=before.seconds + one.seconds,
            seed=", ".join(dict.fromkeys(seeds)),
        )
    return sorted(found.values())


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Counter[str]:
    total = Counter(dict(one))
    total.update(other)
    return total
