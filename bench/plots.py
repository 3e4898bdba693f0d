"""Plots of the bench's results: a picture a work, every round a dot, medians as bars, goals as lines."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.peers import report as peers
from bench.records import Results
from bench.report import described, label
from bench.table import TABLE

PANELS_PER_ROW = 4
PANEL_WIDTH, WIDTH_MIN = 3.4, 9.0
PANEL_HEIGHT, BAR_HEIGHT = 0.9, 0.3
"""Inches, as the two before."""
BAR, DOT, GOAL = "#b8cbe0", "#20456e", "#b3261e"


class Bar(NamedTuple):
    """One bar of a panel."""

    name: str
    rounds: Sequence[float]
    goal: float | None = None


class Panel(NamedTuple):
    """One figure, as a bar for each store or project."""

    title: str
    bars: Sequence[Bar]


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw every work that was measured; return the files."""
    drawn: list[Path] = []
    for section in TABLE:
        panels: list[Panel] = []
        for line in section.lines:
            bars: list[Bar] = []
            for store in results.stores(section.work):
                if values := results.values(section.work, store, line.figure):
                    goal = line.goal(store)
                    bars.append(Bar(label(store), values, goal.bound if goal else None))
            if bars:
                title = f"{line.words}, {line.unit}" if line.unit else line.words
                panels.append(Panel(title, bars))
        if panels:
            title = f"{section.title}\n{described(results.machine)}"
            drawn.append(_draw(title, panels, folder / f"{section.work}.png"))
    return drawn


def draw_peers(results: Results, folder: Path) -> Path:
    """Draw speed and latency of all peers; return the file."""
    names = peers.names(results)
    panels = [
        Panel(
            title,
            [Bar(peers.title(name), results.values(peers.WORK, name, figure)) for name in names],
        )
        for figure, title in (
            ("steps_per_second", "64 runs × 50 steps, steps/s"),
            ("p50_ms", "one run, step after step: p50, ms"),
        )
    ]
    title = f"The same work on each\n{described(results.machine)}"
    return _draw(title, panels, folder / "peers.png")


def _draw(title: str, panels: Sequence[Panel], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = min(len(panels), PANELS_PER_ROW)
    rows = -(-len(panels) // columns)
    height = PANEL_HEIGHT + BAR_HEIGHT * max(len(panel.bars) for panel in panels)
    size = (max(PANEL_WIDTH * columns, WIDTH_MIN), height * rows)
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize=8)
    for place, panel in enumerate(panels, start=1):
        _draw_panel(figure.add_subplot(rows, columns, place), panel)
    figure.savefig(str(path), dpi=120)
    return path


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for place, bar in enumerate(panel.bars):
        axes.barh([place], [statistics.median(bar.rounds)], color=BAR, height=0.7)
        axes.plot(bar.rounds, [place] * len(bar.rounds), "o", color=DOT, markersize=3)
        if bar.goal is not None:
            axes.plot([bar.goal] * 2, [place - 0.4, place + 0.4], color=GOAL)
    axes.set_yticks(range(len(panel.bars)), [bar.name for bar in panel.bars], fontsize=8)
    axes.set_ylim(len(panel.bars) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_title(panel.title, fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
