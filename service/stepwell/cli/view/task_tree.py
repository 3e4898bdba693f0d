"""The task tree: the head of a run, and the rows of its steps and tasks, drawn so that they fit the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from stepwell.cli.view import describe
from stepwell.cli.view.task_rows import NO_REPORTS, Reports, chosen, rows
from stepwell.cli.view.text import US, count, micros, one_line, short_id, span
from stepwell_client import BlockedKind, ExecutionStatus, RunView, TaskStatus
from stepwell_client.enums import ENDED, QuestionStatus

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BAR_CELLS = 24
_TITLES_WIDTH_MIN = 90
"""The width of a terminal that has room for titles beside ids and notes."""
_OTHERS_WIDTH = 22
"""The width that is left for a row's time and note, where its id is long."""
_LOST = (TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.CANCELLED)


def render(
    view: RunView,
    console: Console,
    now_us: int,
    *,
    rows_max: int,
    live: bool,
    exact: bool = False,
    reports: Reports = NO_REPORTS,
) -> RenderableType:
    """Return the run's head and its tree."""
    fancy = console.encoding.lower().startswith("utf")
    kept, left = chosen(rows(view, now_us, reports), rows_max)
    grid = Table.grid(padding=(0, 2, 0, 0))
    titled = console.width >= _TITLES_WIDTH_MIN and any(row.title for row in kept)
    names_width = console.width // 2 if titled else console.width - _OTHERS_WIDTH
    grid.add_column(no_wrap=True, overflow="ellipsis", max_width=max(24, names_width))
    if titled:
        grid.add_column(no_wrap=True, overflow="ellipsis", max_width=console.width // 4)
    grid.add_column(no_wrap=True, justify="right", min_width=6)
    grid.add_column(style="dim")  # This column becomes narrower where there is too little room.
    iterations = {row.order[0] for row in kept}
    iteration = 0
    for row in kept:
        if len(iterations) > 1 and row.order[0] != iteration:
            iteration = row.order[0]
            grid.add_row(Text(f"  iteration {iteration}", style="dim"))
        sign = row.sign.sign if fancy else row.sign.plain
        if live and fancy and row.sign is describe.RUNNING:
            sign = _SPINNER[now_us * 10 // US % len(_SPINNER)]
        name = Text("  " * (row.indent + 1))
        name.append(f"{sign} ", style=row.sign.style)
        name.append(row.name, style="dim" if row.sign.style == "dim" else "")
        took = Text(span(row.took_us) if row.took_us else "")
        titles = [Text(row.title)] if titled else []
        note = Text(row.note, no_wrap=True, overflow="ellipsis")
        grid.add_row(name, *titles, took, note)
    parts: list[RenderableType] = [*_head(view, now_us, fancy=fancy, live=live, exact=exact), grid]
    if left:
        parts.append(Text(f"  {left}", style="dim"))
    return Group(*parts)


def _head(view: RunView, now_us: int, *, fancy: bool, live: bool, exact: bool) -> Iterator[Text]:
    run = view.run
    yield Text(one_line(run.goal) or "(no goal)", style="bold", no_wrap=True, overflow="ellipsis")
    line = Text()
    line.append(short_id(run.id), style="bold")
    line.append("  ")
    line.append(describe.status(run), style=describe.STATUS_STYLES.get(run.status, ""))
    place = describe.where(view)
    took = span(describe.took_us(run, now_us))
    rest = [part for part in (place, took, describe.tasks(run), describe.spent(run.usage)) if part]
    line.append("  " + " · ".join(rest))
    yield line
    if run.counts.total and run.status not in ENDED:
        yield _bar(view, fancy=fancy)
    cause = _question(view) or describe.blocked(run, exact=exact)
    waited_us = now_us - micros(run.blocked_since_time)
    if cause and (not live or waited_us > US):
        yield Text(f"{cause} ({span(waited_us)})", style="yellow")
    if run.status not in ENDED:
        return
    if why := describe.failure(run.failure):
        yield Text(why, style="red")


def _bar(view: RunView, *, fancy: bool) -> Text:
    """Return how far the iteration has come: its tasks and, as one step each, the stages after them."""
    run = view.run
    tasks = [
        one.status
        for one in view.tasks.values()
        if view.iterations.get(one.revision, run.iteration) == run.iteration
    ]
    stages = [
        one
        for one in view.executions.values()
        if one.iteration == run.iteration
        and one.kind in run.stages
        and one.status == ExecutionStatus.COMPLETED
    ]
    total = max(1, len(tasks) + len(run.stages))
    bad = sum(status in _LOST for status in tasks)
    good = sum(status == TaskStatus.COMPLETED for status in tasks) + len(stages)
    full, empty = ("█", "░") if fancy else ("#", "-")
    done, lost = good * _BAR_CELLS // total, bad * _BAR_CELLS // total
    bar = Text()
    bar.append(full * done, style="green")
    bar.append(full * lost, style="red")
    bar.append(empty * (_BAR_CELLS - done - lost), style="dim")
    bar.append(f" {(good + bad) * 100 // total}%")
    return bar


def _question(view: RunView) -> str:
    """Return the question that the run waits for, or "" if none is known here."""
    if view.run.blocked_on != BlockedKind.QUESTION:
        return ""
    is_open = [one for one in view.questions.values() if one.status == QuestionStatus.OPEN]
    if not is_open:
        return ""
    more = f" (and {count(len(is_open) - 1, 'other question')})" if len(is_open) > 1 else ""
    return f"a person is asked: {one_line(is_open[0].prompt)}{more}"
