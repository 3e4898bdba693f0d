"""Where the bugs of one kind are collected: each is a function that says what to replace, and its words."""

from __future__ import annotations

from collections.abc import Callable

from tests.mutants.bug import Bug, Check
from tests.mutants.planting import Swap, by_swaps


class Shelf(list[Bug]):
    """Bugs in the order in which they are written down."""

    def put(
        self, name: str, check: Check, *invariants: str
    ) -> Callable[[Callable[[], list[Swap]]], Callable[[], list[Swap]]]:
        """Take in a function whose docstring tells the bug and which returns what to replace."""

        def take(make: Callable[[], list[Swap]]) -> Callable[[], list[Swap]]:
            what = " ".join((make.__doc__ or "").split())
            self.append(Bug(name, what, invariants, by_swaps(make), check))
            return make

        return take
