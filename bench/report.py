"""The printed table: each figure with its goal, its range, the machine's speed meanwhile and what was kept before."""

from __future__ import annotations

from collections.abc import Iterator

from bench.records import Machine, Results, Spread
from bench.table import TABLE, Goal, Line

LABELS = {
    "memory": "memory",
    "sqlite": "SQLite",
    "postgres": "Postgres",
    "redis": "Redis `always`",
    "valkey": "Valkey `always`",
    "cluster": "Redis Cluster",
}


def label(store: str) -> str:
    """Return a store's name for people."""
    kind = store.removeprefix("grpc:")
    return LABELS[kind] + (" over gRPC" if kind != store else "")


def number(value: float) -> str:
    """Return a figure with the digits that mean something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def span(spread: Spread) -> str:
    """Return the range of a figure over its rounds."""
    return f"{number(spread.least)} – {number(spread.most)}" if spread.rounds > 1 else "1 round"


def goal_text(goal: Goal | None) -> str:
    """Return a goal as it is printed."""
    if goal is None:
        return ""
    return f"{'≤' if goal.most else '≥'} {goal.bound:,.5g}".replace(".0 ", " ")


def described(machine: Machine) -> str:
    """Return the machine and the checkout in a sentence."""
    return (
        f"{machine.date} UTC, commit {machine.commit or 'unknown'}, {machine.cores} cores "
        f"({machine.processor}), Python {machine.python}, load {machine.load:.1f} at the start"
    )


def table(results: Results, before: Results | None) -> Iterator[str]:
    """Yield the lines of the whole table; `before` is what was kept last."""
    yield described(results.machine)
    yield results.machine.command
    yield (
        f"Medians of {results.rounds} rounds, and their range. In each round every store has its turn. `spin` is the "
        "time of a fixed"
    )
    yield (
        "Python loop right before and after each figure, the speed of this machine at that moment: "
        "figures at different spins"
    )
    yield "can't be compared."
    if before is not None:
        yield f"`kept` is the last result that was kept: {described(before.machine)}"
    yield ""
    yield (
        f"  {'':<58}{'median':>10}  {'':<8}{'range':<19}{'goal':<9}{'':<8}"
        f"{'spin ms':>8}{'kept':>10}{'spin ms':>9}"
    )
    for section in TABLE:
        stores = results.stores(section.work)
        rows = [
            _row(results, before, section.work, store, line)
            for line in section.lines
            for store in stores
        ]
        found = [row for row in rows if row]
        if found:
            yield ""
            yield f"{section.title}"
            if section.note:
                yield section.note
            yield from found


def _all(results: Results) -> Iterator[tuple[str, Line, Spread]]:
    """Yield each figure that was measured."""
    for section in TABLE:
        for store in results.stores(section.work):
            for line in section.lines:
                if spread := results.spread(section.work, store, line.figure):
                    yield store, line, spread


def _row(results: Results, before: Results | None, work: str, store: str, line: Line) -> str:
    spread = results.spread(work, store, line.figure)
    if spread is None:
        return ""
    then = before.spread(work, store, line.figure) if before is not None else None
    goal = line.goal(store)
    words = line.words if work == "limits" else f"{label(store)}, {line.words}"
    verdict = "" if goal is None else "met" if goal.met(spread.median) else "MISSED"
    kept = f"{number(then.median):>10}{then.spin_ms:>9.1f}" if then is not None else ""
    return (
        f"  {words:<58}{number(spread.median):>10}  {line.unit:<8}{span(spread):<19}"
        f"{goal_text(goal):<9}{verdict:<8}{spread.spin_ms:>8.1f}{kept}"
    ).rstrip()
