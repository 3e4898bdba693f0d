"""Leases that are over when a test says so, and a worker that is as good as dead.

The leases of these tests are long: a machine that stands still for a while takes no step from a worker. So
a test that needs one to be over ends it in the store, as though its time had passed.
"""

from __future__ import annotations

from stepwell.core.port import Renewal
from stepwell.core.records.states import ExecutionStatus
from stepwell_client import Worker
from tests.service.capabilities.conftest import TENANT, Served
from tests.support.patience import until


async def go_silent(served: Served, worker: Worker, run_id: str) -> None:
    """Have it send no heartbeats and take nothing more, until what it holds of a run is lost."""
    worker._state.draining = True
    worker._heartbeats.stop()
    await end_leases(served, run_id)


async def end_leases(served: Served, run_id: str) -> None:
    """Let the leases of a run's steps end now, and wait until the server has seen it."""
    held = await _leases(served, run_id)
    ended = [
        Renewal(tenant_id=TENANT, run_id=run_id, execution_id=name, token=token, lease_ms=1)
        for name, token in held
    ]

    async def are_over() -> bool:
        # Each time: a heartbeat that was on its way may have come after the last one.
        await served.store.renew(ended)
        return not held & await _leases(served, run_id)

    await until(are_over)


async def _leases(served: Served, run_id: str) -> set[tuple[str, str]]:
    """Return the steps that are leased, each with its token."""
    loaded = await served.store.load(TENANT, run_id)
    assert loaded is not None
    return {
        (one.execution.execution_id, one.token)
        for one in loaded.executions
        if one.execution.status is ExecutionStatus.LEASED
    }
