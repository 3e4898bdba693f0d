"""A test kit for agents: runs in this process, with skippable time and scripted failures.

    async with Environment(agent) as env:
        env.fail("fetch", times=2)
        run = await env.start("report")
        assert await run.result() == "fine"
        history = await run.history()
        assert history.attempts("fetch") == ("FAILED", "FAILED", "COMPLETED")

It uses the service's loop, executor and store (memory by default), without a network. Back-offs,
leases, time-outs and delays of the service pass at once whenever nothing else can happen; waits of
the agent's functions take real time. `skip` lets time pass while a run waits for a person. Leaving
the context stops everything.
"""

from __future__ import annotations

from stepwell_testkit.environment.environment import Environment
from stepwell_testkit.environment.history import History
from stepwell_testkit.environment.run import EnvironmentRun, NothingHappens

__all__ = ["Environment", "EnvironmentRun", "History", "NothingHappens"]
