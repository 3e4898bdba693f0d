"""The table of peers: speed, times, and how Stepwell compares, by the figures of one and the same round."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from bench.records import Results, Spread
from bench.report import described, label, number, span
from bench.table import Goal, least

WORK = "peers"
OWN_STORES = {"own": "sqlite"}
"""Stepwell's store that a peer's own is compared with."""
GOALS = {"restate": least(2), "dbos": least(10), "langgraph": least(6)}
"""Stepwell's speed on SQLite by theirs."""
CALLS = "stepwell-calls"
"""Stepwell's calls within a step, which are what Restate and DBOS call steps."""
NAMES = {
    "stepwell": "Stepwell",
    CALLS: "Stepwell's calls",
    "restate": "Restate",
    "dbos": "DBOS Transact",
    "langgraph": "LangGraph",
    "absurd": "Absurd",
    "temporal": "Temporal's development server",
}


class Row(NamedTuple):
    """A project on a store, and Stepwell's figures by its own."""

    name: str
    speed: Spread
    p50_ms: Spread
    p99_ms: Spread
    faster: float | None
    """Stepwell's speed by its speed, on the same store; None: it is Stepwell."""
    sooner: float | None
    """Its p50 by Stepwell's."""
    goal: Goal | None


def title(name: str) -> str:
    """Return the name of a project on a store for people."""
    program, _, store = name.partition(":")
    return NAMES[program] + (f", {label(store)}" if store != "own" else "")


def names(results: Results) -> list[str]:
    """Return who was measured, in the order of measuring, Stepwell first."""
    return sorted(results.stores(WORK), key=lambda name: not name.startswith("stepwell"))


def rows(results: Results) -> Iterator[Row]:
    """Yield a row for each that was measured."""
    measured = names(results)
    for name in measured:
        program, _, store = name.partition(":")
        speed, p50, p99 = (
            results.spread(WORK, name, figure)
            for figure in ("steps_per_second", "p50_ms", "p99_ms")
        )
        assert speed is not None
        assert p50 is not None
        assert p99 is not None
        own = f"stepwell:{OWN_STORES.get(store, store)}"
        ours = program in ("stepwell", CALLS) or own not in measured
        yield Row(
            title(name),
            speed,
            p50,
            p99,
            None if ours else _ratio(results, own, name, "steps_per_second"),
            None if ours else _ratio(results, name, own, "p50_ms"),
            GOALS.get(program) if store != "postgres" else None,
        )


def _ratio(results: Results, above: str, below: str, figure: str) -> float:
    """Return the median, over the rounds, of one's figure by another's."""
    series = [
        [one.figures[figure] for one in results.samples if one.store == name]
        for name in (above, below)
    ]
    return statistics.median(a / b for a, b in zip(*series, strict=False))


def table(results: Results) -> Iterator[str]:
    """Yield the lines of the printed table."""
    yield described(results.machine)
    yield results.machine.command
    yield "64 runs × 50 steps in sequence of 1 KiB; one run step after step (p50, p99). Medians, range of the speed."
    yield "`Stepwell by it`: its speed on the same store (SQLite for Restate's own) by theirs, and their p50 by its own."
    yield ""
    yield (
        f"{'':<32}{'steps/s':>9}  {'range':<16}{'p50 ms':>8}{'p99 ms':>9}{'spin ms':>9}"
        f"{'Stepwell by it':>17}{'p50':>9}  goal"
    )
    for row in rows(results):
        compared = ""
        if row.faster is not None and row.sooner is not None:
            compared = f"{number(row.faster):>15} ×{number(row.sooner):>7} ×"
        if row.goal is not None and row.faster is not None:
            compared += f"  ≥ {row.goal.bound:g} {'met' if row.goal.met(row.faster) else 'MISSED'}"
        yield (
            f"{row.name:<32}{number(row.speed.median):>9}  "
            f"{span(row.speed):<16}"
            f"{number(row.p50_ms.median):>8}{number(row.p99_ms.median):>9}"
            f"{row.speed.spin_ms:>9.1f}{compared}"
        )
