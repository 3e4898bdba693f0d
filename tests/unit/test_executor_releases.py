"""S12: what never reached its worker spends no attempt, also where the store refuses to hear of it."""

from __future__ import annotations

from typing import Any

from stepwell.core.loop.signals import Start
from stepwell.core.port import Store
from stepwell.core.records.errors import StoreUnavailable
from stepwell.core.records.model import Payload, RetryPolicy, RunSpec
from stepwell.core.records.states import RunStatus
from stepwell_testkit.conformance.harness import turns
from stepwell_testkit.proxy import StoreProxy
from tests.unit.executor_world import RUN, TENANT, ExecutorWorld, FakeWorker
from tests.unit.loop_world import chain

LEASE_MS = 10_000
STEP_MS = 500
REFUSALS = 3


class Refusing(StoreProxy):
    """Refuses the reads of one assignment's bytes, and then some commits."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.unread = 1
        self.commits = 0

    async def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        if method == "read_payloads" and self.unread:
            self.unread -= 1
            self.commits = REFUSALS
            raise StoreUnavailable("it refused")
        if method == "commit" and self.commits:
            self.commits -= 1
            raise StoreUnavailable("it refused")
        return await super().call(method, *args, **kwargs)


async def test_S12_an_assignment_that_could_not_be_filled_spends_no_attempt(
    world: ExecutorWorld,
) -> None:
    once = RetryPolicy(max_attempts=1)
    spec = RunSpec(tenant_id=TENANT, run_id=RUN)
    start = Start(spec=spec, plan=tuple(chain("a", retry=once)), input=Payload(data=b'"x"'))
    await world.executor().send(TENANT, RUN, start)
    store = Refusing(world.store)
    # It has nothing at hand, and must read the run's input.
    worker = FakeWorker(world.executor(store, lease_ms=LEASE_MS))
    await worker.attach(1)
    for _ in range(4 * LEASE_MS // STEP_MS):
        world.pass_time(STEP_MS)
        await turns()
        if not worker.pile.empty():
            break
    assert (store.unread, store.commits) == (0, 0)
    assert await world.status() is RunStatus.RUNNING
    await worker.deliver(await worker.next())
    run = await world.run()
    assert (run.status, run.attempts.lost) == (RunStatus.SUCCEEDED, 0)
