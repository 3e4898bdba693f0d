"""How much work one check may cost, counted in steps: what is beyond it is refused, not waited for."""

from __future__ import annotations


class TooLong(Exception):
    """The check would take longer than it may."""


class Effort:
    """Steps that are left. A step takes some microseconds."""

    __slots__ = ("left",)

    def __init__(self, steps_max: int) -> None:
        self.left = steps_max

    def spend(self, steps: int = 1) -> None:
        """Take steps away.

        Raises:
            TooLong: there are none left.
        """
        self.left -= steps
        if self.left < 0:
            raise TooLong
