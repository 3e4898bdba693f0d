"""What a proof did, written down: for the figures in docs/reliability.md, and for what must have happened.

Records are kept only where `STEPWELL_PROOF_RECORDS` names a folder, as `make proof` does; each is a file of
its own, so that test processes don't meet.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

FOLDER = "STEPWELL_PROOF_RECORDS"


class Record(NamedTuple):
    """What one proof, or a part of it, did."""

    proof: str
    """Its row in the table of figures, such as `kills, sqlite`."""
    command: str
    """What plays it again, as a user types it."""
    figures: Mapping[str, int]
    """How many of what; the parts of a proof are added up."""
    happened: Mapping[str, int] = {}
    """How often each rare thing was met: names of `tests.support.proofs.must_happen`, and any others."""
    seconds: float = 0.0
    """How long it took."""
    seed: str = ""
    """Where its chance came from; empty: there is none in it."""


def keep(record: Record) -> None:
    """Write a record down, where records are wanted."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record._asdict() | {"happened": dict(record.happened)}, sort_keys=True)
    (path / f"{uuid4()}.json").write_text(text, encoding="utf-8")


def happened(*names: str) -> None:
    """Note that each of these rare things was met once, in a test that is about just that."""
    keep(Record("", "", {}, Counter(names)))


def kept(folder: Path) -> list[Record]:
    """Return the records of a folder."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json")))
    return [Record(**json.loads(text)) for text in texts]


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
