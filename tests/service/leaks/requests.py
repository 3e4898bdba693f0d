"""For every RPC a call that does what it is there for: its request is that of `tenants/rows.py`, over a run of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from stepwell.core.loop.occurrences import (
    Begin,
    Failed,
    NeedsAnswer,
    Result,
    Suspended,
    SuspendedCall,
)
from stepwell.core.port import Assignment, Claim, Commit, LogsOfExecution, QuestionQuery
from stepwell.core.records.model import Failure
from stepwell.core.records.states import LogKind
from stepwell.wire.records import to_message
from stepwell_client.answer_tokens import new_answer_token, sha256_of
from stepwell_client.store.v1 import store_pb2 as pb
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from stepwell_testkit.conformance import builders as b
from tests.service.leaks.bench import Asked, Bench, fresh
from tests.service.tenants.rows import SERVED_ROWS, STORE_ROWS, Names
from tests.unit.engine.executor_world import TENANT

GONE = frozenset({grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND})
HOUR = types_pb2.RetryPolicy(initial_backoff={"seconds": 3_600}, jitter=0.0)
DAY_MS = 86_400_000


def names_of(run_id: str, **fields: str) -> Names:
    """Return the names of a run of one task, `a`; each call has a request id of its own."""
    nothing = Names(TENANT, run_id, "none", "task:a#1", "0" * 32, fresh(), fresh(), "a")
    return nothing._replace(**fields)


def lease_of(got: Assignment) -> Names:
    return names_of(got.run.run_id, execution_id=got.execution.execution_id, lease_token=got.token)


def request_of(method: str, names: Names) -> Message:
    """Return the request of the tenants' table, which can be sent again where that is possible."""
    request = SERVED_ROWS[method](names)
    if "request_id" in request.DESCRIPTOR.fields_by_name:
        request.MergeFrom(type(request)(request_id=names.request_id))
    return request


# --- runs that calls are about -------------------------------------------------------------------------


async def start(bench: Bench, *, queue: str = "", budget: Any = None, **task: Any) -> str:
    """Start a run of one task, in a queue of its own where none is named."""
    plan = types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id="a", **task)])
    queue = queue or fresh()
    request = opb.StartRunRequest(queue=queue, pipeline_id=queue, plan=plan, budget=budget)
    return (await bench.call("Orchestrator/StartRun", request)).run.spec.run_id


async def leased(bench: Bench, queue: str = "", **task: Any) -> Assignment:
    """Start a run of one task and have it leased; its worker is gone then."""
    queue = queue or fresh()
    await start(bench, queue=queue, **task)
    worker = await bench.worker(queue)
    assignment = await worker.next()
    await bench.leave(worker)
    return assignment


async def reported(bench: Bench, result: Result, **task: Any) -> str:
    """Start a run whose one step came to this."""
    queue = fresh()
    run_id = await start(bench, queue=queue, **task)
    worker = await bench.worker(queue)
    await worker.deliver(await worker.next(), result)
    await bench.leave(worker)
    return run_id


async def furnish(bench: Bench) -> None:
    """Make the runs that reads are about."""
    lease = lease_of(await leased(bench))
    for method in ("Worker/AppendOutput", "Worker/ReportOutcomes"):
        await bench.call(method, SERVED_ROWS[method](lease))
    bench.ended = lease.run_id
    bench.live = await start(bench)
    thread = SERVED_ROWS["Orchestrator/AppendToThread"](names_of("none"))
    await bench.call("Orchestrator/AppendToThread", thread)


async def _paused(bench: Bench) -> str:
    run_id = await start(bench)
    await bench.call("Orchestrator/PauseRun", opb.PauseRunRequest(run_id=run_id))
    return run_id


async def _cancelled(bench: Bench, queue: str = "") -> str:
    run_id = await start(bench, queue=queue)
    await bench.call("Orchestrator/CancelRun", opb.CancelRunRequest(run_id=run_id))
    return run_id


async def _asking(bench: Bench) -> Names:
    run_id = await reported(bench, NeedsAnswer(prompt="sure?"))
    page = await bench.store.page(QuestionQuery(tenant_id=TENANT, run_id=run_id))
    return names_of(run_id, question_id=page.items[0].question.question_id)


async def _linked(bench: Bench) -> Names:
    queue = fresh()
    run_id = await start(bench, queue=queue)
    worker = await bench.worker(queue)
    token = new_answer_token(TENANT, run_id, bench.deps.runtime.new_id)
    asked = NeedsAnswer(prompt="paid?", token_sha256=sha256_of(token))
    await worker.deliver(
        await worker.next(), Suspended(waits=(SuspendedCall(call="link", wait=asked),))
    )
    await bench.leave(worker)
    return names_of(run_id, answer_token=token)


async def _unknown(bench: Bench) -> Names:
    queue = fresh()
    run_id = await start(bench, queue=queue, effect=types_pb2.EFFECT_AT_MOST_ONCE)
    worker = await bench.worker(queue)
    got = await worker.next()
    name = got.execution.execution_id
    await bench.executor.deliver(TENANT, run_id, Begin(execution_id=name, token=got.token))
    # It was restarted, and does not know what it was doing.
    await bench.leave(await bench.worker(queue, instance_id="two"))
    await bench.leave(worker)
    await bench.executor.quiet()
    return names_of(run_id, execution_id=name)


async def _of_no_thread(bench: Bench) -> Names:
    return names_of("none", thread_id=fresh())


async def _of_thread(bench: Bench) -> Names:
    names = await _of_no_thread(bench)
    await bench.call(
        "Orchestrator/AppendToThread", SERVED_ROWS["Orchestrator/AppendToThread"](names)
    )
    return names


async def _of_leased(bench: Bench) -> Names:
    return lease_of(await leased(bench))


_BROKEN = Failed(failure=Failure(kind="ValueError", message="broken"))
PREPARED: dict[str, Callable[[Bench], Awaitable[str | Names]]] = {
    "Orchestrator/PauseRun": start,
    "Orchestrator/SkipTask": start,
    "Orchestrator/StopRun": start,
    "Orchestrator/SendSignal": start,
    "Orchestrator/AppendToThread": _of_no_thread,
    "Orchestrator/ForkThread": _of_thread,
    "Orchestrator/SetThreadState": _of_no_thread,
    "Orchestrator/SetThreadLabels": _of_no_thread,
    "Orchestrator/DeleteThread": _of_thread,
    "Orchestrator/ResumeRun": _paused,
    "Orchestrator/CancelRun": _of_leased,
    "Orchestrator/DeleteRun": _cancelled,
    "Orchestrator/AnswerQuestion": _asking,
    "Orchestrator/AnswerByToken": _linked,
    "Orchestrator/RaiseBudget": lambda bench: start(bench, budget=types_pb2.Budget(tasks=5)),
    "Orchestrator/ResolveExecution": _unknown,
    "Orchestrator/RetryTask": lambda bench: reported(bench, _BROKEN, retry=HOUR),
    "Worker/ReportOutcomes": _of_leased,
    "Worker/Heartbeat": _of_leased,
    "Worker/AppendOutput": _of_leased,
}
"""Methods that change a run, and what makes one that they can change."""


# --- requests that are no tenant's, or more than one -----------------------------------------------------


async def _purge(bench: Bench) -> Asked:
    queue = fresh()
    await _cancelled(bench, queue)
    return Asked([opb.PurgeRunsRequest(pipeline_id=queue, max_runs=10)])


async def _work(bench: Bench) -> Asked:
    queue = fresh()
    names = lease_of(await leased(bench, queue))
    done: Any = SERVED_ROWS["Worker/ReportOutcomes"](names)
    of: Any = SERVED_ROWS["Worker/Work"](names)
    hello = wpb.Hello(worker_id=f"of-{queue}", instance_id="one", queues=[queue])
    hello.held.extend(of.hello.held)
    requests = [
        wpb.WorkRequest(hello=hello, credits=3),
        wpb.WorkRequest(outcomes=done.outcomes, credits=1),
    ]
    return Asked(requests, names.run_id)


def _created(run_id: str) -> Commit:
    """Return a run that is no sound one to the loop, which must never load it."""
    return b.created_leased(run_id, tenant=TENANT, lease_ms=DAY_MS)


def _claim() -> Message:
    wants = (b.want(tenant=b.TENANT, queues=["none"]),)
    return pb.ClaimRequest(claim=to_message(Claim(wants=wants)))


def _presence() -> Message:
    presence = to_message(b.presence(worker_id=fresh()))
    return pb.PutPresenceRequest(presences=[presence], ttl={"seconds": 1})


def _commit(run_id: str) -> Message:
    return pb.CommitRequest(commits=[to_message(_created(run_id))])


def _renew(run_id: str) -> Message:
    renewal = to_message(b.renewal(run_id, tenant=TENANT, lease_ms=DAY_MS))
    return pb.RenewRequest(renewals=[renewal])


def _record(run_id: str) -> Message:
    write = to_message(b.journal_write(b.entry(), run_id=run_id, tenant=TENANT))
    return pb.WriteJournalRequest(writes=[write])


def _append_logs(run_id: str) -> Message:
    entries = [to_message(b.line("a line"))]
    return pb.AppendLogsRequest(tenant_id=TENANT, run_id=run_id, entries=entries)


def _remove_logs(run_id: str) -> Message:
    logs = LogsOfExecution(tenant_id=TENANT, run_id=run_id, execution_id=b.STEP, kind=LogKind.CHUNK)
    return pb.RemoveLogsRequest(of_execution=to_message(logs))


def _delete(run_id: str) -> Message:
    return pb.DeleteRunRequest(tenant_id=TENANT, run_id=run_id, version=1)


OF_MORE: dict[str, Callable[[Bench], Awaitable[Asked]]] = {
    "Orchestrator/PurgeRuns": _purge,
    "Worker/Work": _work,
}
OF_NONE: dict[str, Callable[[], Message]] = {
    "Store/Subscribe": pb.SubscribeRequest,
    "Store/Describe": pb.DescribeRequest,
    "Store/Claim": _claim,
    "Store/PutPresence": _presence,
}
OF_ONE: dict[str, Callable[[str], Message]] = {
    "Store/Commit": _commit,
    "Store/Renew": _renew,
    "Store/WriteJournal": _record,
    "Store/AppendLogs": _append_logs,
    "Store/RemoveLogs": _remove_logs,
    "Store/DeleteRun": _delete,
}


async def asked(bench: Bench, method: str) -> Asked:
    """Return a call of a method, about a run of its own if it changes one."""
    if method in OF_MORE:
        return await OF_MORE[method](bench)
    if method in OF_NONE:
        return Asked([OF_NONE[method]()])
    if method in OF_ONE:
        run_id = fresh()
        if method != "Store/Commit":
            await bench.store.commit([_created(run_id)])
        return Asked([OF_ONE[method](run_id)], run_id)
    if method in PREPARED:
        made = await PREPARED[method](bench)
        names = names_of(made) if isinstance(made, str) else made
        call = Asked([request_of(method, names)], names.run_id)
        return call._replace(again=GONE) if method == "Orchestrator/DeleteRun" else call
    # What only looks, or makes a run: at the one that is over, or waits for the one that is not.
    names = names_of(bench.live if method == "Orchestrator/WaitRun" else bench.ended)
    if method in SERVED_ROWS:
        return Asked([request_of(method, names)])
    row = STORE_ROWS.get(method) or STORE_ROWS[f"{method} tasks"]
    return Asked([row(names)])
