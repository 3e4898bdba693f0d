"""Reads and removes a single run."""

from __future__ import annotations

from stepwell.core.port import Store
from stepwell.core.records.errors import FailedPrecondition, RunNotFound, StoreUnavailable
from stepwell.core.records.model import Run
from stepwell.engine.executor import Executor

_DELETE_ATTEMPTS_MAX = 10


async def read_run(store: Store, tenant_id: str, run_id: str) -> Run:
    """Return a run as of its last commit.

    Raises:
        RunNotFound: the tenant has no run with this id.
    """
    run = await store.get_run(tenant_id, run_id)
    if run is None:
        raise RunNotFound(run_id)
    return run


async def delete_run(executor: Executor, tenant_id: str, run_id: str) -> None:
    """Remove an ended run.

    Raises:
        FailedPrecondition: it has not ended (RUN_NOT_ENDED).
        RunNotFound: the tenant has no run with this id.
        StoreUnavailable: it was resumed and ended repeatedly meanwhile.
    """
    for _ in range(_DELETE_ATTEMPTS_MAX):
        run = await read_run(executor.store, tenant_id, run_id)
        if not run.ended:
            raise FailedPrecondition(
                f"the run is {run.status.lower()}; cancel it first", reason="RUN_NOT_ENDED"
            )
        # False if it was resumed or deleted after the read.
        if await executor.store.delete_run(tenant_id, run_id, version=run.version):
            executor.forget(tenant_id, run_id)
            return
    raise StoreUnavailable("the run is being changed concurrently; try again")
