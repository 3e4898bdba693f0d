"""The documents quote what was kept: tables between marks, drawn from the newest kept results.

    <!-- measured by bench: begin speed -->
    <!-- measured by bench: end speed -->

`make bench ARGS=--write` keeps what it has measured and draws its tables again; `python -m
bench.quote` does so with what was measured last. A test fails while a table differs from what is
kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from bench import records, report
from bench.machine import TOP
from bench.peers import report as peers
from bench.records import Results
from bench.table import TABLE, Goal

PAGES = (TOP / "README.md", TOP / "docs" / "compared.md", TOP / "bench" / "README.md")
NOTHING = "Nothing is kept yet; `{command}` measures it.\n"
_REGION = re.compile(
    r"(?P<begin><!-- measured by bench: begin (?P<name>\w+) -->\n)"
    r"(?P<body>.*?)"
    r"(?P<end><!-- measured by bench: end (?P=name) -->)",
    re.DOTALL,
)


def speed(results: Results) -> Iterator[str]:
    """Yield the short table: speed and latency by store."""
    yield "| | 64 runs × 50 steps of 1 KiB | one run, step after step: p50 | p99 |"
    yield "| --- | --- | --- | --- |"
    for store in results.stores("chains"):
        cells = [report.label(store)]
        for work, figure, unit in (
            ("chains", "steps_per_second", "steps/s"),
            ("lone", "p50_ms", "ms"),
            ("lone", "p99_ms", "ms"),
        ):
            spread = results.spread(work, store, figure)
            cells.append(f"{report.number(spread.median)} {unit}" if spread else "–")
        yield f"| {' | '.join(cells)} |"


def goals(results: Results) -> Iterator[str]:
    """Yield the table of everything that has a goal, and of the machine's limits."""
    yield "| work | store | median | range | goal | |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for section in TABLE:
        for line in section.lines:
            for store in results.stores(section.work):
                spread = results.spread(section.work, store, line.figure)
                goal = line.goal(store)
                if spread is None or (goal is None and section.work != "limits"):
                    continue
                verdict = _verdict(goal, spread.median)
                yield (
                    f"| {section.title}: {line.words} | {report.label(store)} "
                    f"| {report.number(spread.median)} {line.unit} | {report.span(spread)} "
                    f"| {report.goal_text(goal)} | {verdict} |"
                )


def _verdict(goal: Goal | None, value: float | None) -> str:
    """Return whether a goal is met; empty where there is none."""
    return "" if goal is None or value is None else "met" if goal.met(value) else "missed"


def compared(results: Results) -> Iterator[str]:
    """Yield the table of peers."""
    yield "| | steps/s | p50 | p99 | its p50 by Stepwell's | Stepwell's speed by it | goal | |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in peers.rows(results):
        faster = f"{report.number(row.faster)} ×" if row.faster is not None else ""
        verdict = _verdict(row.goal, row.faster)
        goal = f"{report.goal_text(row.goal)} ×" if row.goal else ""
        sooner = f"{report.number(row.sooner)} ×" if row.sooner is not None else ""
        yield (
            f"| {row.name} | {report.number(row.speed.median)} | {report.number(row.p50_ms.median)} ms "
            f"| {report.number(row.p99_ms.median)} ms | {sooner} | {faster} "
            f"| {goal} | {verdict} |"
        )


TABLES: dict[str, tuple[str, str, Callable[[Results], Iterator[str]]]] = {
    "speed": ("bench", "make bench", speed),
    "goals": ("bench", "make bench", goals),
    "peers": ("peers", "make bench-peers", compared),
}
"""Name of a table → the kind of results that it is drawn from, the command that measures them, and what draws it."""


def drawn(name: str) -> str:
    """Return the text between a table's marks."""
    kind, command, draw = TABLES[name]
    newest = records.newest(kind)
    if newest is None:
        return NOTHING.format(command=command)
    results = records.read(newest)
    lines = "\n".join(draw(results))
    return f"\n{lines}\n\n`{results.machine.command}`, {report.described(results.machine)}; medians of {results.rounds} rounds.\n\n"


def fresh(text: str) -> str:
    """Return a page with fresh tables."""
    return _REGION.sub(lambda found: found["begin"] + drawn(found["name"]) + found["end"], text)


def stale() -> list[str]:
    """Return the pages with a table that differs from what is kept."""
    texts = {page: page.read_text(encoding="utf-8") for page in PAGES}
    return [str(page.relative_to(TOP)) for page, text in texts.items() if fresh(text) != text]


def write(kind: str, results: Results) -> None:
    """Keep results of a kind, and draw the tables of all pages."""
    print(f"kept: {records.keep(results, kind)}")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(fresh(text), encoding="utf-8")


def main() -> None:
    """Keep and quote what was measured last."""
    for kind, path in (("bench", records.LATEST), ("peers", records.PEERS)):
        if path.exists():
            write(kind, records.read(path))


if __name__ == "__main__":
    main()
