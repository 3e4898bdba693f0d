"""The parts of docs/reliability.md that are written from what was played, and not by hand.

<!-- as last played: begin figures -->
<!-- as last played: end figures -->
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.support.proofs.record import Record

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"


def put(text: str, region: str, body: str) -> str:
    """Return the page with this in the region.

    Raises:
        ValueError: the page has no such region.
    """
    marks = [f"<!-- as last played: {side} {region} -->\n" for side in ("begin", "end")]
    begin, end = (re.escape(mark) for mark in marks)
    found = re.compile(f"({begin}).*?({end})", re.DOTALL)
    if not found.search(text):
        raise ValueError(f"the page has no region {region}: it begins with {marks[0]!r}")
    return found.sub(lambda match: f"{match[1]}{body}{match[2]}", text)


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---" for _ in head], *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def figures(records: Iterable[Record]) -> str:
    """Return the table of what each proof did."""
    body = [
        (
            one.proof,
            ", ".join(f"{count:,} {what}" for what, count in one.figures.items()),
            f"{one.seconds:,.0f} s",
            one.seed or "–",
            f"`{one.command}`",
        )
        for one in records
        if one.proof
    ]
    return table(("proof", "what was played", "took", "seed", "command"), body)


def rare(met: Iterable[tuple[str, int]]) -> str:
    """Return the table of what must happen, and how often it did."""
    return table(("what", "times"), [(name, f"{count:,}") for name, count in met])
