"""Commits of all runs of a replica, in groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stepwell.core.port import Commit, CommitResult, Runtime, Store
from stepwell.core.records import limits
from stepwell.engine.groups import Groups


class Committer(Groups[Commit, CommitResult]):
    """Groups commits, sends them to the store, and returns the verdict on each."""

    def __init__(self, store: Store, runtime: Runtime) -> None:
        super().__init__(
            self._send_all, runtime, size_max=limits.COMMITS_PER_GROUP_MAX, name="committer"
        )
        self._store = store

    async def _send_all(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        return await self._store.commit(commits)

    async def commit(self, commit: Commit) -> CommitResult:
        """Return the store's verdict.

        Raises:
            StoreUnavailable: nothing was applied.
            OutcomeUnknown: this replica is closing, or the store stopped, before it could be asked
                again.
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
