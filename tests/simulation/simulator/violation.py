"""The violation of an invariant, by its name in RELIABILITY.md."""

from __future__ import annotations

checked: dict[str, int] = {}
"""The count of checks of each invariant. `simulate` empties it: a process plays one seed at a time."""


class InvariantViolation(AssertionError):
    """An invariant did not hold. `name` is its name in `invariants.py`."""

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
