"""A gate that lets a change through, refuses it, or has power go off at it."""

from __future__ import annotations

from typing import NamedTuple

from tests.chaos.disk.wire import Op

_NAMES = frozenset({Op.MKNOD, Op.MKDIR, Op.UNLINK, Op.RENAME, Op.FSYNCDIR})
ALL = frozenset({Op.WRITE, Op.SETATTR, Op.FSYNC}) | _NAMES


class Frozen(Exception):
    """Power goes off at this change."""


class Fault(NamedTuple):
    """Which change is refused, and how."""

    nth: int
    """From 1, of those that `ops` names."""
    errno: int
    ops: frozenset[Op] = ALL
    forever: bool = False
    """That one and all that follow."""


class Gate:
    """Counts the changes that programs ask for; a page that was mapped comes unasked, and doesn't count."""

    def __init__(self) -> None:
        self.count = 0
        self.refused: list[Op] = []
        self._cut_at = 0
        self._cut_ops = ALL
        self._fault: Fault | None = None
        self._of_fault = 0

    def clear(self) -> None:
        """Count from nothing, and let all pass."""
        self.__init__()

    def cut_at(self, nth: int, ops: frozenset[Op] = ALL) -> None:
        """Have power go off at the n-th change from here, or at the n-th of these operations."""
        self.clear()
        self._cut_at, self._cut_ops = nth, ops

    def fail(self, fault: Fault) -> None:
        """Refuse changes from here."""
        self.clear()
        self._fault = fault

    def passes(self, op: Op) -> None:
        """Let a change through.

        Raises:
            OSError: it is refused.
            Frozen: power goes off; it is not done.
        """
        self.count += 1
        if op in self._cut_ops and self._cut_at:
            self._cut_at -= 1
            if not self._cut_at:
                raise Frozen
        fault = self._fault
        if fault is None or op not in fault.ops:
            return
        self._of_fault += 1
        if self._of_fault == fault.nth or (fault.forever and self._of_fault > fault.nth):
            self.refused.append(op)
            raise OSError(fault.errno, "as planned")
