"""What is read out when all is over stays as it is, whatever a server still does."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from stepwell.core.port import Commit, Store
from stepwell.core.records.states import Verdict
from stepwell.runtime import SystemRuntime
from stepwell.store.opener import open_store
from tests.chaos.network.checker import check
from tests.chaos.network.clients import following
from tests.chaos.network.history import History, Sending, Span
from tests.chaos.network.keeping import at_rest, kept_by

LATE_S = 0.6


@pytest.mark.parametrize("born", [False, True])
async def test_a_commit_that_was_given_up_and_comes_late_changes_nothing_any_more(
    born: bool,
) -> None:
    store = await open_store("memory://", runtime=SystemRuntime())
    history = History()
    commit = following(None, "run", "first")
    if born:
        span = Span(monotonic(), monotonic())
        (result,) = await store.commit([commit])
        history.sent(commit, Sending(span, result.verdict))
        commit = following(commit.run, "run", "second")
    history.sent(commit, Sending(Span(monotonic(), monotonic()), None, certain=False))
    late = asyncio.create_task(_late(store, commit))
    kept = await at_rest(store, history)
    assert await late is Verdict.CONFLICT
    assert await kept_by(store, history.runs) == kept
    check(history, kept, hold_ms=0)
    await store.close()


async def _late(store: Store, commit: Commit) -> Verdict:
    """Do what a server has not come to yet."""
    await asyncio.sleep(LATE_S)
    (result,) = await store.commit([commit])
    return result.verdict
