"""For every RPC of the Store service a call that does what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepwell.core.port import ClaimRequest, LogsOfExecution, RunQuery
from stepwell.core.records.states import LogKind
from stepwell.wire import to_message
from stepwell_client.v1 import store_pb2 as pb
from stepwell_testkit.conformance import builders as b
from tests.service.leaks.bench import Asked, Bench, fresh
from tests.service.leaks.requests import row
from tests.unit.executor_world import TENANT

_S = "/stepwell.v1.Store/"


def _ask(method: str, make: Callable[[Bench], Any]) -> None:
    async def ask(bench: Bench) -> Asked:
        return Asked([make(bench)])

    row(_S + method)(ask)


def _of_the_ended(kind: Any, **fields: Any) -> Callable[[Bench], Any]:
    return lambda bench: kind(tenant_id=TENANT, run_id=bench.ended, **fields)


STEP = "task:a#1"
DAY_MS = 86_400_000
"""These runs are no sound ones to the loop, which must never load them."""
_ask("GetRun", _of_the_ended(pb.StoreGetRunRequest))
_ask("Load", _of_the_ended(pb.StoreLoadRequest))
_ask("ReadPayloads", _of_the_ended(pb.StoreReadPayloadsRequest, keys=[STEP]))
_ask("ReadPlan", _of_the_ended(pb.StoreReadPlanRequest, revision=1))
_ask("ReadEvents", _of_the_ended(pb.StoreReadEventsRequest, limit=10))
_ask("ReadInputs", _of_the_ended(pb.StoreReadInputsRequest, input_ids=["none"]))
_ask("FindKeyed", lambda _: pb.StoreFindKeyedRequest(tenant_id=TENANT, keys=["none"]))
_ask("Subscribe", lambda _: pb.StoreSubscribeRequest())
_ask("Describe", lambda _: pb.StoreDescribeRequest())
_ask(
    "Page",
    lambda _: pb.StorePageRequest(runs=to_message(RunQuery(tenant_id=TENANT, limit=5))),
)
_ask(
    "Claim",
    lambda _: pb.StoreClaimRequest(
        request=to_message(ClaimRequest(wants=(b.want(tenant=b.TENANT, queues=["none"]),)))
    ),
)
_ask(
    "PutPresence",
    lambda _: pb.StorePutPresenceRequest(
        presences=[to_message(b.presence(worker_id=fresh()))], ttl={"seconds": 1}
    ),
)


@row(_S + "Commit")
async def _(bench: Bench) -> Asked:
    run_id = fresh()
    commits = [to_message(b.created_leased(run_id, tenant=TENANT, lease_ms=DAY_MS))]
    return Asked([pb.StoreCommitRequest(commits=commits)], run_id)


async def _created(bench: Bench) -> str:
    run_id = fresh()
    await bench.store.commit([b.created_leased(run_id, tenant=TENANT, lease_ms=DAY_MS)])
    return run_id


@row(_S + "Renew")
async def _(bench: Bench) -> Asked:
    run_id = await _created(bench)
    renewals = [to_message(b.renewal(run_id, tenant=TENANT, lease_ms=DAY_MS))]
    return Asked([pb.StoreRenewRequest(renewals=renewals)], run_id)


@row(_S + "AppendLogs")
async def _(bench: Bench) -> Asked:
    run_id = await _created(bench)
    entries = [to_message(b.line("a line"))]
    return Asked([pb.StoreAppendLogsRequest(tenant_id=TENANT, run_id=run_id, entries=entries)])


@row(_S + "RemoveLogs")
async def _(bench: Bench) -> Asked:
    logs = LogsOfExecution(
        tenant_id=TENANT, run_id=await _created(bench), execution_id=b.STEP, kind=LogKind.CHUNK
    )
    return Asked([pb.StoreRemoveLogsRequest(of_execution=to_message(logs))])


@row(_S + "DeleteRun")
async def _(bench: Bench) -> Asked:
    run_id = await _created(bench)
    return Asked([pb.StoreDeleteRunRequest(tenant_id=TENANT, run_id=run_id, version=1)], run_id)
