"""A coroutine that is cancelled at its n-th suspension, as a task is whose client has gone just then.

There are two moments: BEFORE what it waits for is done, so that the cancellation goes on inwards;
and AFTER, when the answer is there and nobody has taken it yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from enum import StrEnum
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Moment(StrEnum):
    BEFORE = "before"
    AFTER = "after"


class Cut:
    """Counts suspensions, and cancels at the chosen one."""

    def __init__(self, at: int, moment: Moment) -> None:
        self._at = at
        self._moment = moment
        self.suspensions = 0
        self.struck = False

    @coroutine
    def over(self, inner: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run it; to be awaited by a task."""
        task = asyncio.current_task()
        assert task is not None
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = inner.send(value) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            self.suspensions += 1
            now = self.suspensions == self._at
            if now and self._moment is Moment.BEFORE:
                self.struck = True
                task.cancel()
            value = error = None
            try:
                value = yield waits_for
            except BaseException as thrown:
                error = thrown
            if now and self._moment is Moment.AFTER and error is None:
                self.struck = True
                error = asyncio.CancelledError()
