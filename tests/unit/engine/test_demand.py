"""The demand for claims: waits that end when something comes due."""

from __future__ import annotations

import asyncio

from stepwell.engine.demand import Demand
from stepwell.runtime import SystemRuntime


async def test_what_is_due_at_the_moment_at_which_a_wait_runs_out_raises_nothing() -> None:
    demand = Demand(SystemRuntime(), stickiness_ms=0)
    wait = asyncio.ensure_future(demand.wait(0, lambda: True))
    # One turn of the loop begins the wait, the next one runs it out; in the third it ends.
    for _ in range(2):
        await asyncio.sleep(0)
    demand.due_in(-1)
    assert not wait.done()
    assert await wait is False
