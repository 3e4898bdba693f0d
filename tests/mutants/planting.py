"""How bugs are put in: names in modules of the project are replaced for a while.

Production code has no switch for any of it. Whoever took a name over by `from … import` has it replaced,
too; the proofs have not: what they look up themselves stays honest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

Swap = tuple[Any, str, Any]
"""An owner, the name in it, and what it is while the bug is in."""

_PRODUCTION = ("stepwell", "stepwell_drivers")


PLANTED = "STEPWELL_TEETH_PLANTED"
"""The variable that names a bug to a process which is started while it is in."""
NO_BUG = "-"
_planted = [NO_BUG]


def now_planted() -> str:
    """Return the name of the bug that is in now; `NO_BUG`: none. For a process that is started meanwhile."""
    return _planted[-1]


@contextmanager
def known_as(name: str) -> Generator[None]:
    """Have this be the bug that is in, until the end of the block."""
    _planted.append(name)
    try:
        yield
    finally:
        _planted.pop()


@contextmanager
def swapped(swaps: Iterable[Swap]) -> Generator[None]:
    """Have these names replaced until the end of the block."""
    now = list(swaps)
    # Looked up in the owner itself: a static method must be put back as one.
    kept = [(owner, name, vars(owner)[name]) for owner, name, _ in now]
    for owner, name, value in now:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in reversed(kept):
            setattr(owner, name, value)


def by_swaps(make: Callable[[], list[Swap]]) -> Callable[[], AbstractContextManager[None]]:
    """Return what plants a bug by replacing names."""
    return lambda: swapped(make())


def everywhere(honest: object, planted: object) -> list[Swap]:
    """Replace a function or class in every module of production code that has it by its name."""
    found: list[Swap] = []
    for name, module in tuple(sys.modules.items()):
        ours = name.partition(".")[0] in _PRODUCTION
        if ours and module is not None:
            found += [
                (module, each, planted) for each, value in vars(module).items() if value is honest
            ]
    assert found, f"{honest} is nowhere"
    return found


def hidden(owner: object, name: str) -> Any:
    """Return a private part: bugs sit where nobody else should reach."""
    return getattr(owner, name)
