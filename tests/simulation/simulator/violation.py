"""The invariants that a simulation checks, by their names in RELIABILITY.md, and the violation of one."""

from __future__ import annotations

from collections.abc import Mapping

INVARIANTS = (
    *(f"S{number}" for number in range(1, 21)),
    # E6, E9 and L5 want retention, real memory and a stuck database: tests/chaos has them.
    *("E1", "E2", "E3", "E4", "E5", "E7", "E8", "E10"),
    *("L1", "L2", "L3", "L4", "C1", "C2", "C3", "T3", "A1", "K1"),
    *("J1", "J2", "J3", "J4", "J5"),
    *("M1", "M2", "M3", "M4", "G1", "G2", "G3", "W1", "F1", "F2", "F3", "F4", "H1", "H2", "H3"),
    "CREDITS",  # No worker gets more steps than it granted.
    "OWN",  # A step receives its own task's messages.
    "ONCE",  # A step's messages are kept once.
    "DEFECT",  # Nothing breaks by an error nobody expected.
)
checked: dict[str, int] = {}
"""The count of checks of each invariant. `simulate` empties it: a process plays one seed at a time."""


class InvariantViolation(AssertionError):
    """An invariant did not hold. `name` is one of `INVARIANTS`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


def holds(condition: object, name: str, *details: object) -> None:
    """Raise the violation of `name` unless `condition` is true; `details` are put together only then."""
    # A plain dict: this is called more often than anything else, and a Counter takes twice as long.
    checked[name] = checked.get(name, 0) + 1
    if not condition:
        raise InvariantViolation(name, " ".join(str(one) for one in details))


def unchecked(checks: Mapping[str, int]) -> list[str]:
    """Return the invariants that were never checked: many seeds with one of them prove less than they claim."""
    return [name for name in INVARIANTS if not checks.get(name)]
