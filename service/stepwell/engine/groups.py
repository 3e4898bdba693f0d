"""Writes to the store in groups, for many callers: while the store makes one durable, the next one gathers.

At low load nothing waits, and at high load the groups grow. A group with an unknown outcome is sent
again unchanged until the store answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from stepwell.core.loop.retry import backoff_ms
from stepwell.core.port import Runtime
from stepwell.core.records.errors import OutcomeUnknown, StoreStopped, StoreUnavailable
from stepwell.core.records.model import RetryPolicy

_SEND_AGAIN = RetryPolicy(initial_backoff_ms=20, max_backoff_ms=2_000)
GROUPS_IN_FLIGHT_MAX = 2

T = TypeVar("T")
A = TypeVar("A")


class _Queued(NamedTuple, Generic[T, A]):
    """One item, with the callback for the store's answer."""

    item: T
    settle: Callable[[A | Exception], None]


class Groups(Generic[T, A]):
    """Groups items, sends them to the store, and passes on the answer to each."""

    def __init__(
        self,
        write: Callable[[Sequence[T]], Awaitable[Sequence[A]]],
        runtime: Runtime,
        *,
        size_max: int,
        name: str,
    ) -> None:
        """`write` is the store's method, which answers repeated items like the first time. `name` is for its tasks."""
        self._write = write
        self._runtime = runtime
        self._size_max = size_max
        self._name = name
        self._queue: deque[_Queued[T, A]] = deque()
        self._in_flight = 0
        self._starting = False
        """True while a started task has not taken anything from the queue yet."""
        self._closed = False

    def post(self, item: T, settle: Callable[[A | Exception], None]) -> None:
        """Have an item written; `settle` gets the store's answer to it, or an error.

        The error is StoreUnavailable if nothing was done, or OutcomeUnknown if this replica is
        closing, or the store stopped, before it could be asked again. `settle` is called once,
        later, and must not raise.
        """
        if self._closed:
            error = StoreUnavailable("this replica is closing")
            asyncio.get_running_loop().call_soon(settle, error)
            return
        self._queue.append(_Queued(item, settle))
        if self._in_flight < GROUPS_IN_FLIGHT_MAX and not self._starting:
            self._in_flight += 1
            self._starting = True
            self._runtime.spawn(self._drain(), name=self._name)

    async def _drain(self) -> None:
        self._starting = False
        try:
            while self._queue:
                count = min(len(self._queue), self._size_max)
                await self._send([self._queue.popleft() for _ in range(count)])
        finally:
            self._in_flight -= 1

    async def _send(self, group: Sequence[_Queued[T, A]]) -> None:
        items = [one.item for one in group]
        try:
            answers = await self._send_until_answered(items)
        except (StoreUnavailable, OutcomeUnknown) as error:
            _reject_all(group, error)
        except Exception as error:  # noqa: BLE001 - one that can't be stored must not harm the others
            if len(group) == 1:
                _reject_all(group, error)
                return
            for one in group:
                await self._send([one])
        else:
            for one, answer in zip(group, answers, strict=True):
                one.settle(answer)

    async def _send_until_answered(self, items: Sequence[T]) -> Sequence[A]:
        """Send until the store answers. Only if the first answer is StoreUnavailable was nothing done."""
        sent = 0
        while True:
            try:
                return await self._write(items)
            except OutcomeUnknown:
                if self._closed:
                    raise
                sent += 1
            except StoreStopped as error:
                # The outcome is known once the store is reopened, perhaps by another process.
                raise (OutcomeUnknown(error.message) if sent else error) from None
            except StoreUnavailable:
                if not sent:
                    raise
                if self._closed:
                    raise OutcomeUnknown("closing before the store could be sent again") from None
                sent += 1
            await self._runtime.sleep(backoff_ms(_SEND_AGAIN, sent, self._runtime.random()) / 1_000)

    def close(self) -> None:
        """Accept no more items; those in flight may end."""
        self._closed = True


def _reject_all(group: Sequence[_Queued[T, A]], error: Exception) -> None:
    for one in group:
        one.settle(error)
