"""Commits of all runs of a replica, in groups.

While the store makes one group durable, the next one gathers: at low load no commit waits, and at high
load the groups grow. A commit whose outcome is unknown is sent again unchanged until the store returns
its verdict: nothing is decided on a guess.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stepwell.core.loop.retry import backoff_ms
from stepwell.core.port import Commit, CommitResult, Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import OutcomeUnknown, StoreStopped, StoreUnavailable
from stepwell.core.records.model import RetryPolicy

_SEND_AGAIN = RetryPolicy(initial_backoff_ms=20, max_backoff_ms=2_000)
GROUPS_IN_FLIGHT_MAX = 2


class _Queued(NamedTuple):
    """A commit, and who is told what became of it."""

    commit: Commit
    settle: Callable[[CommitResult | Exception], None]


class Committer:
    """Groups commits, sends them to the store, and returns each one's verdict."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._queue: deque[_Queued] = deque()
        self._in_flight = 0
        self._starting = False
        """A task was started for the queue, and has taken nothing from it yet."""
        self._closed = False

    async def commit(self, commit: Commit) -> CommitResult:
        """Return the store's verdict.

        Raises:
            StoreUnavailable: nothing was applied.
            OutcomeUnknown: this replica is closing, or the store stopped, before it could be asked again.
        """
        verdict: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()

        def settle(answer: CommitResult | Exception) -> None:
            if verdict.done():
                return
            if isinstance(answer, Exception):
                verdict.set_exception(answer)
            else:
                verdict.set_result(answer)

        self.post(commit, settle)
        return await verdict

    def post(self, commit: Commit, settle: Callable[[CommitResult | Exception], None]) -> None:
        """Have a commit made; `settle` gets the verdict, or the error that `commit` would raise.

        `settle` is called once, never from here, and raises nothing.
        """
        if self._closed:
            error = StoreUnavailable("this replica is closing")
            asyncio.get_running_loop().call_soon(settle, error)
            return
        self._queue.append(_Queued(commit, settle))
        if self._in_flight < GROUPS_IN_FLIGHT_MAX and not self._starting:
            self._in_flight += 1
            self._starting = True
            self._runtime.spawn(self._drain(), name="committer")

    async def _drain(self) -> None:
        self._starting = False
        try:
            while self._queue:
                count = min(len(self._queue), limits.COMMITS_PER_GROUP_MAX)
                await self._send([self._queue.popleft() for _ in range(count)])
        finally:
            self._in_flight -= 1

    async def _send(self, group: Sequence[_Queued]) -> None:
        commits = [one.commit for one in group]
        try:
            results = await self._send_until_answered(commits)
        except (StoreUnavailable, OutcomeUnknown) as error:
            _reject_all(group, error)
        except Exception as error:  # noqa: BLE001 - a commit that can't be stored must not harm the others
            if len(group) == 1:
                _reject_all(group, error)
                return
            for one in group:
                await self._send([one])
        else:
            for one, result in zip(group, results, strict=True):
                one.settle(result)

    async def _send_until_answered(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        """Send until the store answers. Only a first StoreUnavailable means that nothing was done."""
        sent = 0
        while True:
            try:
                return await self._store.commit(commits)
            except OutcomeUnknown:
                if self._closed:
                    raise
                sent += 1
            except StoreStopped as error:
                # Whether it was applied is known when the store is open again, to another process perhaps.
                raise (OutcomeUnknown(error.message) if sent else error) from None
            except StoreUnavailable:
                if not sent:
                    raise
                if self._closed:
                    raise OutcomeUnknown("closing before the store could be sent again") from None
                sent += 1
            await self._runtime.sleep(backoff_ms(_SEND_AGAIN, sent, self._runtime.random()) / 1_000)

    def close(self) -> None:
        """Accept no further commits; those in flight may end."""
        self._closed = True


def _reject_all(group: Sequence[_Queued], error: Exception) -> None:
    for one in group:
        one.settle(error)
