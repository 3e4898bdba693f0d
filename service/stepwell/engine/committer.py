"""One door to the store for all runs of a replica: commits that queue up go together.

While a group is being made durable the next one gathers, so at low load nothing waits and at high load
the groups grow. A commit whose outcome is unknown is sent again, the same one, until the store has said
what became of it: nothing is decided on a guess.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from stepwell.core.loop.retry import backoff_ms
from stepwell.core.port import Commit, CommitResult, Runtime, Store
from stepwell.core.records import limits
from stepwell.core.records.errors import OutcomeUnknown, StoreUnavailable
from stepwell.core.records.model import RetryPolicy

_ASK_AGAIN = RetryPolicy(initial_backoff_ms=20, max_backoff_ms=2_000)
GROUPS_IN_FLIGHT_MAX = 2


class Committer:
    """Groups commits and tells each its verdict."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._queue: deque[tuple[Commit, asyncio.Future[CommitResult]]] = deque()
        self._in_flight = 0
        self._closed = False

    async def commit(self, commit: Commit) -> CommitResult:
        """Return the store's verdict.

        Raises:
            StoreUnavailable: nothing was applied.
            OutcomeUnknown: this replica is closing before the store could be asked.
        """
        if self._closed:
            raise StoreUnavailable("this replica is closing")
        verdict: asyncio.Future[CommitResult] = asyncio.get_running_loop().create_future()
        self._queue.append((commit, verdict))
        if self._in_flight < GROUPS_IN_FLIGHT_MAX:
            self._in_flight += 1
            self._runtime.spawn(self._drain(), name="committer")
        return await verdict

    async def _drain(self) -> None:
        try:
            while self._queue:
                count = min(len(self._queue), limits.COMMITS_PER_GROUP_MAX)
                await self._send([self._queue.popleft() for _ in range(count)])
        finally:
            self._in_flight -= 1

    async def _send(self, group: Sequence[tuple[Commit, asyncio.Future[CommitResult]]]) -> None:
        commits = [commit for commit, _ in group]
        try:
            results = await self._ask(commits)
        except (StoreUnavailable, OutcomeUnknown) as error:
            _tell_all(group, error)
        except Exception as error:  # noqa: BLE001 - one that can't be stored must not harm the others
            if len(group) == 1:
                _tell_all(group, error)
                return
            for one in group:
                await self._send([one])
        else:
            for (_, verdict), result in zip(group, results, strict=True):
                if not verdict.done():
                    verdict.set_result(result)

    async def _ask(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        """Ask until the store has answered. Only a first "did nothing" may be passed on as such."""
        asked = 0
        while True:
            try:
                return await self._store.commit(commits)
            except OutcomeUnknown:
                if self._closed:
                    raise
                asked += 1
            except StoreUnavailable:
                if not asked:
                    raise
                if self._closed:
                    raise OutcomeUnknown("closing before the store could be asked again") from None
                asked += 1
            await self._runtime.sleep(backoff_ms(_ASK_AGAIN, asked, self._runtime.random()) / 1_000)

    def close(self) -> None:
        """Ask no more; what is in flight ends as it ends."""
        self._closed = True


def _tell_all(
    group: Sequence[tuple[Commit, asyncio.Future[CommitResult]]], error: Exception
) -> None:
    for _, verdict in group:
        if not verdict.done():
            verdict.set_exception(error)
