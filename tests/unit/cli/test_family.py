"""The tree of child runs in `stepwell show`."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any, cast

import pytest
from rich.console import Console

from stepwell.cli.view import family
from stepwell_client import Run

ROOT = Run(id="root", children=3)
BELOW = {"root": [Run(id=f"child-{n}", children=2 * (n == 3)) for n in (3, 2, 1)]}
BELOW["child-3"] = [Run(id=f"grandchild-{n}") for n in (2, 1)]


class Lists:
    """A client that lists child runs, the newest first."""

    def runs(self, *, child_of: str, page_size: int) -> Iterator[Run]:
        assert page_size > 0
        yield from BELOW.get(child_of, ())


@pytest.mark.parametrize(
    ("rows_max", "shown", "more"),
    [
        (2, ["child-2", "child-3"], 3),
        (4, ["child-1", "child-2", "child-3", "grandchild-2"], 1),
        (9, ["child-1", "child-2", "child-3", "grandchild-1", "grandchild-2"], 0),
    ],
)
def test_tree_has_the_newest_of_a_level_and_says_how_many_more_there_are(
    rows_max: int, shown: list[str], more: int
) -> None:
    tree = family.read(cast(Any, Lists()), ROOT, rows_max)
    assert (sorted(one.id for one in tree.runs()), tree.more) == (shown, more)
    printed = StringIO()
    Console(file=printed, width=100).print(family.render(tree, ROOT, 0))
    assert (f"… and {more} more" in printed.getvalue()) is bool(more)
