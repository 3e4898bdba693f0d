"""The deletion of a thread, which is several commits and deletions: whatever stops in between, a second call ends it."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.app.threads import delete_thread
from stepwell.core.port import RunQuery
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.threads import threads_of
from tests.unit.engine.executor_world import TENANT, Rigged, executor_world
from tests.unit.engine.test_executor_threads import THREAD, join


@pytest.mark.parametrize("writes", range(14))
async def test_deletion_that_stops_after_some_writes_is_ended_by_the_next(writes: int) -> None:
    async with executor_world() as world:
        left, stopped = writes, False

        async def first(method: str, *args: Any, **kwargs: Any) -> None:
            nonlocal left, stopped
            if armed and method in ("commit", "delete_run"):
                left -= 1
                stopped |= left < 0
            if stopped and method not in ("subscribe", "close"):
                raise StoreUnavailable("it is down")

        armed = False
        executor = world.executor(Rigged(world.store, first))
        for number in (1, 2, 3):
            await join(executor, number)
        armed = True
        try:
            assert await delete_thread(executor, TENANT, "t1", force=True)
        except StoreUnavailable:
            assert stopped
        await executor.close()
        world.executors.remove(executor)

        other = world.executor()
        deleted = await delete_thread(other, TENANT, "t1", force=True)
        # A call that was stopped before its last write has left the thread.
        assert deleted is stopped
        assert not await delete_thread(other, TENANT, "t1", force=True)
        assert await world.store.get_run(*THREAD) is None
        for tenant_id in (TENANT, threads_of(TENANT)):
            assert not (await world.store.page(RunQuery(tenant_id=tenant_id))).items
