"""Counts the steps of a check, so that an expensive one is refused instead of waited for."""

from __future__ import annotations


class TooLong(Exception):
    """The check would take too long."""


class Effort:
    """The remaining steps of a check. A step takes some microseconds."""

    __slots__ = ("left",)

    def __init__(self, steps_max: int) -> None:
        self.left = steps_max

    def spend(self, steps: int = 1) -> None:
        """Use up steps.

        Raises:
            TooLong: fewer are left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooLong
