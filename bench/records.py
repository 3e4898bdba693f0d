"""Results of the bench as records: what was measured, on what machine, and the JSON that keeps them."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

OUT = Path(__file__).parent / "out"
"""The last run's JSON and plots; git ignores it."""
LATEST = OUT / "latest.json"
PEERS = OUT / "peers.json"
KEPT = Path(__file__).parent / "kept"
"""Results that were kept, by date; the newest is what a run is compared with, and what the documents quote."""


class Record(Protocol):
    """Named figures that one round of a work came to: a NamedTuple of numbers, None where one has no meaning."""

    def _asdict(self) -> dict[str, float | None]: ...


class Sample(msgspec.Struct, frozen=True):
    """One round of a work on a store."""

    work: str
    store: str
    figures: dict[str, float]
    spin_ms: float
    """Speed of the machine right before and after (`bench.machine.spin`)."""


class Machine(msgspec.Struct, frozen=True):
    """The machine and the checkout that were measured."""

    date: str
    commit: str
    cores: int
    processor: str
    python: str
    load: float
    """Processes that wanted a core when the bench began, on average over a minute."""
    command: str


class Results(msgspec.Struct, frozen=True):
    """Everything that one run of the bench has measured."""

    machine: Machine
    samples: tuple[Sample, ...]

    @property
    def rounds(self) -> int:
        """The number of rounds: most works have one sample of a store in each, a few have more, or one in all."""
        samples = Counter((one.work, one.store) for one in self.samples)
        return statistics.mode(samples.values()) if samples else 0

    def stores(self, work: str) -> list[str]:
        """Return the stores that a work was measured on, in the order of measuring."""
        return list(dict.fromkeys(one.store for one in self.samples if one.work == work))

    def spread(self, work: str, store: str, figure: str) -> Spread | None:
        """Return a figure over all rounds, or None if it was not measured."""
        found = self._of(work, store, figure)
        values = [one.figures[figure] for one in found]
        return Spread.of(values, [one.spin_ms for one in found]) if found else None

    def values(self, work: str, store: str, figure: str) -> list[float]:
        """Return a figure of every round, in their order."""
        return [one.figures[figure] for one in self._of(work, store, figure)]

    def _of(self, work: str, store: str, figure: str) -> list[Sample]:
        return [
            one
            for one in self.samples
            if (one.work, one.store) == (work, store) and figure in one.figures
        ]


class Spread(NamedTuple):
    """Median of a figure, its range, and how fast the machine was meanwhile."""

    median: float
    least: float
    most: float
    rounds: int
    spin_ms: float

    @classmethod
    def of(cls, values: Iterable[float], spins: Iterable[float]) -> Spread:
        """Return the spread of values that are there."""
        seen = sorted(values)
        return cls(statistics.median(seen), seen[0], seen[-1], len(seen), statistics.median(spins))


def samples_of(
    work: str, store: str, records: Iterable[Record], spin_ms: float
) -> Iterator[Sample]:
    """Yield the samples that a work's records make."""
    for record in records:
        figures = {name: value for name, value in record._asdict().items() if value is not None}
        yield Sample(work, store, figures, spin_ms)


def write(results: Results, path: Path) -> None:
    """Write results as JSON that a person can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = msgspec.to_builtins(results)
    plain["samples"] = [
        {**one, "figures": {name: float(f"{value:.5g}") for name, value in one["figures"].items()}}
        for one in plain["samples"]
    ]
    lines = ",\n  ".join(json.dumps(one) for one in plain["samples"])
    head = json.dumps(plain["machine"], indent=1)
    path.write_text(f'{{"machine": {head},\n "samples": [\n  {lines}\n ]}}\n', encoding="utf-8")


def read(path: Path) -> Results:
    """Read results that `write` has written."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def newest(kind: str) -> Path | None:
    """Return the file of the newest kept results of a kind (`bench`, `peers`), or None."""
    return max(KEPT.glob(f"{kind}-*.json"), default=None)


def keep(results: Results, kind: str) -> Path:
    """Keep results by their date, in git's reach; return the file."""
    stamp = results.machine.date.replace(":", "").replace(" ", "-")
    path = KEPT / f"{kind}-{stamp}.json"
    write(results, path)
    return path
