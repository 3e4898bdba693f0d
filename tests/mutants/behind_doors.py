"""Bugs of drivers as a door to the memory driver has them: found by random programs or by the suite."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from stepwell.core.port import Store
from tests.mutants import doors
from tests.mutants.bug import Bug, Check
from tests.mutants.conforming import Conforming
from tests.mutants.planting import swapped
from tests.mutants.programmed import Programmed

SUITE = Conforming(factory=doors.DoorFactory)
PROGRAMS = Programmed()


def _behind(name: str, door: Callable[[Store], Store], check: Check, *invariants: str) -> Bug:
    def plant() -> AbstractContextManager[None]:
        return swapped([(doors, "DOOR", [door])])

    return Bug(name, " ".join((door.__doc__ or "").split()), invariants, plant, check)


BUGS = [
    _behind("refused-commit-tried-again", doors.TriesAgainBehindTheBack, SUITE, "S5"),
    _behind("due-of-this-process", doors.DueOfThisProcess, SUITE, "L2"),
    _behind("any-token-renews", doors.AnyTokenRenews, SUITE, "S8"),
    _behind("delta-misses-inputs", doors.DeltaMissesInputs, PROGRAMS, "D1"),
    _behind("page-drops-a-row", doors.PageDropsARow, PROGRAMS, "D1"),
    _behind("role-forgotten", doors.RoleForgotten, PROGRAMS, "D1"),
    _behind("nothing-is-left", doors.NothingIsLeft, PROGRAMS, "D1"),
]
