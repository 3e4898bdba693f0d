"""What a simulation finds: an invariant of RELIABILITY.md, by its name, that did not hold."""

from __future__ import annotations


class InvariantViolation(AssertionError):
    """An invariant did not hold. `name` is its name there.

    Two names are not there: `CREDITS` is more steps than a worker granted, and `DEFECT` an error that
    nobody expected.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


def holds(condition: object, name: str, message: str) -> None:
    """Raise the violation of `name` unless `condition` is true."""
    if not condition:
        raise InvariantViolation(name, message)
