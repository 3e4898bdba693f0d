"""Plots of the bench's results: a picture a work, every round a dot, medians as bars, goals as lines."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.peers import report as peers
from bench.records import Results
from bench.report import described, label
from bench.table import TABLE, Line, Section

WIDTH, HEIGHT = 3.4, 3.2
"""Inches of one figure of a work."""


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw every work that was measured; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []
    for section in TABLE:
        stores = results.stores(section.work)
        lines = [line for line in section.lines if _stores(results, section, line)]
        if not stores or not lines:
            continue
        figure = Figure(figsize=(WIDTH * len(lines), HEIGHT), layout="constrained")
        figure.suptitle(f"{section.title}\n{described(results.machine)}", fontsize=7)
        for place, line in enumerate(lines, start=1):
            axes = figure.add_subplot(1, len(lines), place)
            _panel(axes, results, section, line)
        drawn.append(folder / f"{section.work}.png")
        figure.savefig(str(drawn[-1]), dpi=120)
    return drawn


def draw_peers(results: Results, folder: Path) -> Path:
    """Draw speed and latency of all peers; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(peers.rows(results))
    figure = Figure(figsize=(WIDTH * 3, HEIGHT), layout="constrained")
    figure.suptitle(described(results.machine), fontsize=7)
    panels = (
        ("64 runs × 50 steps, steps/s", [row.speed.median for row in rows]),
        ("one run, step after step: p50, ms", [row.p50_ms.median for row in rows]),
    )
    for place, (title, values) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        axes.bar(range(len(rows)), values, color="#b8cbe0")
        axes.set_xticks(
            range(len(rows)), [row.name.replace(", ", "\n") for row in rows], fontsize=5
        )
        axes.set_title(title, fontsize=7)
        axes.tick_params(axis="y", labelsize=7)
    path = folder / "peers.png"
    figure.savefig(str(path), dpi=120)
    return path


def _stores(results: Results, section: Section, line: Line) -> list[str]:
    return [
        store
        for store in results.stores(section.work)
        if results.spread(section.work, store, line.figure) is not None
    ]


def _panel(axes: Axes, results: Results, section: Section, line: Line) -> None:
    stores = _stores(results, section, line)
    for place, store in enumerate(stores):
        values = results.values(section.work, store, line.figure)
        spread = results.spread(section.work, store, line.figure)
        assert spread is not None
        axes.bar([place], [spread.median], color="#b8cbe0")
        axes.plot([place] * len(values), values, "o", color="#20456e", markersize=3)
        if goal := line.goal(store):
            axes.plot([place - 0.4, place + 0.4], [goal.bound] * 2, color="#b3261e")
    axes.set_xticks(range(len(stores)), [label(store) for store in stores], fontsize=7)
    axes.set_title(f"{line.words}, {line.unit}" if line.unit else line.words, fontsize=7)
    axes.tick_params(axis="y", labelsize=7)
