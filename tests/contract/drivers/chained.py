"""The commits of a run that does one task after another, each leased by the commit that ends the one before."""

from __future__ import annotations

from collections.abc import Iterator

from stepwell.core.loop.advance import advance
from stepwell.core.loop.context import Context, FreeWorker, Grants
from stepwell.core.loop.occurrences import Completed, Delivery, Occurrence, Start
from stepwell.core.loop.state import RunState
from stepwell.core.port import Commit
from stepwell.core.records.model import Payload, RunSpec, TaskSpec
from stepwell.core.records.states import StepKind
from tests.unit.core.loop_world import committed

EPOCH_US = 1_700_000_000_000_000
WORKER = "bench-worker"


def chain(
    steps: int,
    *,
    run_id: str = "00000000-0000-4000-8000-000000000001",
    result: bytes = b"null",
) -> Iterator[Commit]:
    """Make the commits of a run of so many tasks; the same ones each time, with ids as long as the real ones."""
    state = RunState.empty("default", run_id)
    plan = tuple(
        TaskSpec(task_id=f"t{n}", type=f"t{n}", depends_on=(f"t{n - 1}",) if n else ())
        for n in range(steps)
    )
    occurrence: Occurrence = Start(spec=RunSpec(tenant_id="default", run_id=run_id), plan=plan)
    while True:
        version = state.run.version + 1
        worker = FreeWorker(worker_id=WORKER, instance_id=run_id, kinds=tuple(StepKind))
        context = Context(
            commit_id=f"{run_id[:-12]}{version:012x}",
            now_us=EPOCH_US + (version - 1) * 12_345,
            grants=Grants(workers=(worker,), tokens=(f"{version:032x}",)),
        )
        commit = committed(advance(state, [occurrence], context))
        state.apply(commit)
        yield commit
        if state.run.ended:
            return
        (lease,) = commit.leases
        occurrence = Delivery(
            execution_id=lease.execution_id,
            token=lease.token,
            result=Completed(result=Payload(data=result)),
        )
