"""What a planted bug is, and what it means that a check has caught it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

from tests.mutants.planting import known_as


class Caught(NamedTuple):
    """A check that failed while a bug was in."""

    named: tuple[str, ...]
    """The invariants that it says are broken."""
    where: str
    """The seed, case, program or crash that showed it."""
    tried: int
    """How many of those were played until then, this one counted."""
    again: Callable[[], None]
    """Plays that one again; raises what it raised, as long as the bug is in, and nothing after."""


class Unnoticed(Exception):
    """A check held to its end although a bug was in."""


class Check(Protocol):
    """One of the project's proofs, played until it fails. Bug and check run in this process."""

    @property
    def proof(self) -> str:
        """Its name in the table."""
        ...

    @property
    def unit(self) -> str:
        """What it plays one of after the other, in the plural."""
        ...

    def play(self, invariants: tuple[str, ...]) -> Caught:
        """Play until something fails. What is named for invariants may leave out all but these.

        Raises:
            Unnoticed: nothing did.
        """
        ...


class Bug(NamedTuple):
    """A defect, how it is put in, and the proof that must notice it."""

    name: str
    what: str
    """One sentence: how such a bug really comes about."""
    invariants: tuple[str, ...]
    """Those by one of which it must be caught."""
    plant: Callable[[], AbstractContextManager[None]]
    """Has it in the code until the end of the block."""
    check: Check


@contextmanager
def planted(bug: Bug) -> Generator[None]:
    """Have a bug in this process until the end of the block, and known to those that it starts."""
    with known_as(bug.name), bug.plant():
        yield


def catch(bug: Bug) -> tuple[str, Caught]:
    """Plant a bug, play its check until it fails, and take the bug out again.

    Returns the invariant that caught it, and how.

    Raises:
        Unnoticed: the check held, or what it named is none of the invariants that this bug breaks.
    """
    with planted(bug):
        caught = bug.check.play(bug.invariants)
    for invariant in bug.invariants:
        if invariant in caught.named:
            return invariant, caught
    raise Unnoticed(
        f"{bug.name} was caught by {' '.join(caught.named)} ({caught.where}),"
        f" none of which is among {' '.join(bug.invariants)}"
    )
