"""The child runs below a run, as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from stepwell.cli.view import describe
from stepwell.cli.view.text import count, one_line, short_id, span
from stepwell_client import Run, SyncClient

ROWS_MAX = 100


class Family(NamedTuple):
    """Child runs by the run that started them, the first before the others, and how many more there are."""

    children: Mapping[str, Sequence[Run]] = {}
    more: int = 0
    """At least so many more are below the run."""

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [run for some in self.children.values() for run in some]


def read(client: SyncClient, run: Run, rows_max: int = ROWS_MAX) -> Family:
    """Return the runs below a run, level by level; of more than `rows_max` the newest of a level."""
    found: dict[str, list[Run]] = {}
    level, left, more = [run], rows_max, 0
    while level:
        below: list[Run] = []
        for one in level:
            if not one.children:
                continue
            size = min(left, one.children)
            listing = client.runs(child_of=one.id, page_size=size) if size else ()
            newest = list(islice(listing, size))
            # Fewer than were started are left where some were deleted.
            more += one.children - size if len(newest) == size else 0
            left -= len(newest)
            if newest:
                found[one.id] = newest[::-1]
            below += newest
        level = below
    return Family(found, more)


def render(family: Family, run: Run, now_us: int) -> RenderableType:
    """Return the tree below a run: the status of each, the task that started it, and its goal."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    title = Text(count(run.children, "child run"), style="bold")
    for style in ("", "", "", "dim"):
        grid.add_column(no_wrap=True, overflow="ellipsis", style=style)

    def add(above: Run, indent: int) -> None:
        for one in family.children.get(above.id, ()):
            place = one.child_of
            grid.add_row(
                Text("  " * indent + short_id(one.id)),
                Text(describe.status(one), style=describe.STATUS_STYLES.get(one.status, "")),
                Text(span(describe.took_us(one, now_us))),
                Text(one_line(f"{place.task_id} {one.goal}" if place else one.goal)),
            )
            add(one, indent + 1)

    grid.add_row(title)
    add(run, 1)
    if family.more:
        grid.add_row(Text(f"  … and {family.more:,} more"))
    return grid
