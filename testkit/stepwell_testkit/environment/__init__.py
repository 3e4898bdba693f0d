"""A test kit for agents: their runs, in this process, with time that can be skipped and failures by script.

    async with Environment(agent) as env:
        env.fail("fetch", times=2)
        run = await env.start("report")
        assert await run.result() == "fine"
        history = await run.history()
        assert history.attempts("fetch") == ("FAILED", "FAILED", "COMPLETED")

It is the service's own loop, executor and store (memory, unless another is named), without a network. The
back-offs, leases, time-outs and delays of the service pass at once whenever nothing else can happen; what
an agent's own functions wait for takes the time that it takes. `skip` lets time pass while a run waits for
a person. Leave the context, and everything is stopped.
"""

from __future__ import annotations

from stepwell_testkit.environment.environment import Environment
from stepwell_testkit.environment.history import History
from stepwell_testkit.environment.run import EnvironmentRun, NothingHappens

__all__ = ["Environment", "EnvironmentRun", "History", "NothingHappens"]
