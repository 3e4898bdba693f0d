"""For every RPC of the Orchestrator and of the Worker service a call that does what it is there for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from stepwell.core.loop.signals import Begin, Failed, NeedsInput, Result
from stepwell.core.port import Assignment, InputQuery
from stepwell.core.records.model import Failure
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.leaks.bench import Asked, Bench, fresh
from tests.unit.executor_world import TENANT

Make = Callable[[Bench], Awaitable[Asked]]
ROWS: dict[str, Make] = {}
GONE = frozenset({grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND})
_O, _W = "/stepwell.v1.Orchestrator/", "/stepwell.v1.Worker/"


def row(method: str) -> Callable[[Make], Make]:
    """Say that this makes the calls of a method."""

    def add(make: Make) -> Make:
        assert method not in ROWS, method
        ROWS[method] = make
        return make

    return add


async def start(bench: Bench, *, queue: str = "", **task: Any) -> str:
    """Start a run of one task, in a queue of its own where none is named."""
    specs = [types_pb2.TaskSpec(task_id="a", **task)]
    plan = types_pb2.PlanDraft(tasks=specs)
    queue = queue or fresh()
    request = opb.StartRunRequest(queue=queue, pipeline_id=queue, plan=plan)
    return (await bench.call(_O + "StartRun", request)).run.spec.run_id


async def leased(bench: Bench, **task: Any) -> Assignment:
    """Start a run of one task and have it leased; its worker is gone then."""
    queue = fresh()
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


async def cancelled(bench: Bench, queue: str = "") -> str:
    run_id = await start(bench, queue=queue)
    await bench.call(_O + "CancelRun", opb.CancelRunRequest(run_id=run_id))
    return run_id


def proof_of(got: Assignment) -> dict[str, Any]:
    """Return the fields that name a lease."""
    return {
        "run_id": got.run.spec.run_id,
        "execution_id": got.execution.execution_id,
        "lease_token": got.token,
    }


def outcome_of(got: Assignment) -> wpb.Outcome:
    outcome = wpb.Outcome(delivery_id="d", **proof_of(got))
    outcome.completed.result.data = b'"done"'
    return outcome


async def furnish(bench: Bench) -> None:
    """Make the runs that reads are about."""
    got = await leased(bench)
    line = wpb.LogLine(text="a line")
    said = types_pb2.Message(role="user", content="a word")
    written = wpb.Appended(logs=[line], messages=[said], **proof_of(got))
    await bench.call(_W + "Append", wpb.AppendRequest(appended=[written]))
    await bench.call(_W + "Complete", wpb.CompleteRequest(outcomes=[outcome_of(got)]))
    bench.ended = got.run.spec.run_id
    bench.live = await start(bench)


# --- reads ---------------------------------------------------------------------------------------------


def _read(method: str, make: Callable[[Bench], Any]) -> None:
    async def ask(bench: Bench) -> Asked:
        return Asked([make(bench)])

    row(_O + method)(ask)


_SHORT = {"nanos": 20_000_000}
_read("GetRun", lambda bench: opb.GetRunRequest(run_id=bench.ended, version=2))
_read("ListRuns", lambda _: opb.ListRunsRequest(page_size=5))
_read("ListTasks", lambda bench: opb.ListTasksRequest(run_id=bench.ended, full_specs=True))
_read("ListExecutions", lambda bench: opb.ListExecutionsRequest(run_id=bench.ended))
_read("GetResults", lambda bench: opb.GetResultsRequest(run_id=bench.ended))
_read("WaitRun", lambda bench: opb.WaitRunRequest(run_id=bench.live, timeout=_SHORT))
_read("WatchRun", lambda bench: opb.WatchRunRequest(run_id=bench.ended))
_read("WatchRuns", lambda _: opb.WatchRunsRequest())
_read("ListPlans", lambda bench: opb.ListPlansRequest(run_id=bench.ended, with_tasks=True))
_read("ListCheckpoints", lambda bench: opb.ListCheckpointsRequest(run_id=bench.ended))
_read("ListInputs", lambda _: opb.ListInputsRequest())
_read("ReadLogs", lambda bench: opb.ReadLogsRequest(run_id=bench.ended, follow=True))
_read("GetMessages", lambda bench: opb.GetMessagesRequest(run_id=bench.ended))
_read("GetServerInfo", lambda _: opb.GetServerInfoRequest())


# --- commands ------------------------------------------------------------------------------------------


@row(_O + "StartRun")
async def _(bench: Bench) -> Asked:
    plan = types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id=name) for name in "ab"])
    return Asked([opb.StartRunRequest(queue=fresh(), plan=plan, request_id=fresh())])


@row(_O + "ResumeRun")
async def _(bench: Bench) -> Asked:
    run_id = await start(bench)
    await bench.call(_O + "PauseRun", opb.PauseRunRequest(run_id=run_id))
    return Asked([opb.ResumeRunRequest(run_id=run_id, request_id=fresh())], run_id)


@row(_O + "PauseRun")
async def _(bench: Bench) -> Asked:
    run_id = await start(bench)
    return Asked([opb.PauseRunRequest(run_id=run_id, request_id=fresh())], run_id)


@row(_O + "CancelRun")
async def _(bench: Bench) -> Asked:
    run_id = (await leased(bench)).run.spec.run_id
    return Asked([opb.CancelRunRequest(run_id=run_id, request_id=fresh())], run_id)


@row(_O + "DeleteRun")
async def _(bench: Bench) -> Asked:
    run_id = await cancelled(bench)
    return Asked([opb.DeleteRunRequest(run_id=run_id)], run_id, GONE)


@row(_O + "ForkRun")
async def _(bench: Bench) -> Asked:
    return Asked([opb.ForkRunRequest(run_id=bench.ended, version=1, request_id=fresh())])


@row(_O + "AnswerInput")
async def _(bench: Bench) -> Asked:
    run_id = await reported(bench, NeedsInput(prompt="sure?"))
    page = await bench.store.page(InputQuery(tenant_id=TENANT, run_id=run_id))
    request = opb.AnswerInputRequest(
        run_id=run_id,
        input_id=page.items[0].request.input_id,
        answer=types_pb2.Payload(data=b'"yes"', media_type="application/json"),
        request_id=fresh(),
    )
    return Asked([request], run_id)


@row(_O + "RaiseBudget")
async def _(bench: Bench) -> Asked:
    plan = types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id="a")])
    budget = types_pb2.Budget(tasks=5)
    request = opb.StartRunRequest(queue=fresh(), plan=plan, budget=budget)
    run_id = (await bench.call(_O + "StartRun", request)).run.spec.run_id
    more = types_pb2.Budget(tasks=10)
    raised = opb.RaiseBudgetRequest(run_id=run_id, budget=more, request_id=fresh())
    return Asked([raised], run_id)


@row(_O + "ResolveExecution")
async def _(bench: Bench) -> Asked:
    queue = fresh()
    run_id = await start(bench, queue=queue, effect=types_pb2.EFFECT_AT_MOST_ONCE)
    worker = await bench.worker(queue)
    got = await worker.next()
    name = got.execution.execution_id
    await bench.executor.deliver(TENANT, run_id, Begin(execution_id=name, token=got.token))
    # It was started anew, and does not know what it was doing.
    await bench.leave(await bench.worker(queue, instance_id="two"))
    await bench.leave(worker)
    await bench.executor.quiet()
    request = opb.ResolveExecutionRequest(
        run_id=run_id, execution_id=name, finding=types_pb2.FINDING_DONE, request_id=fresh()
    )
    return Asked([request], run_id)


@row(_O + "RetryTask")
async def _(bench: Bench) -> Asked:
    hour = types_pb2.RetryPolicy(initial_backoff={"seconds": 3_600}, jitter=0.0)
    broken = Failed(failure=Failure(kind="ValueError", message="broken"))
    run_id = await reported(bench, broken, retry=hour)
    return Asked([opb.RetryTaskRequest(run_id=run_id, task_id="a", request_id=fresh())], run_id)


@row(_O + "SkipTask")
async def _(bench: Bench) -> Asked:
    run_id = await start(bench)
    return Asked([opb.SkipTaskRequest(run_id=run_id, task_id="a", request_id=fresh())], run_id)


@row(_O + "StopRun")
async def _(bench: Bench) -> Asked:
    run_id = await start(bench)
    return Asked([opb.StopRunRequest(run_id=run_id, request_id=fresh())], run_id)


@row(_O + "PurgeRuns")
async def _(bench: Bench) -> Asked:
    queue = fresh()
    await cancelled(bench, queue)
    return Asked([opb.PurgeRunsRequest(pipeline_id=queue, max_runs=10)])


# --- workers -------------------------------------------------------------------------------------------


@row(_W + "Work")
async def _(bench: Bench) -> Asked:
    got = await leased(bench)
    queue = got.run.spec.queue
    held = wpb.HeldLease(**proof_of(got))
    hello = wpb.Hello(worker_id=f"of-{queue}", instance_id="one", queues=[queue], held=[held])
    requests = [
        wpb.WorkRequest(hello=hello, credits=3),
        wpb.WorkRequest(outcomes=[outcome_of(got)], credits=1),
    ]
    return Asked(requests, got.run.spec.run_id)


@row(_W + "Complete")
async def _(bench: Bench) -> Asked:
    got = await leased(bench)
    return Asked([wpb.CompleteRequest(outcomes=[outcome_of(got)])], got.run.spec.run_id)


@row(_W + "Heartbeat")
async def _(bench: Bench) -> Asked:
    got = await leased(bench)
    beat = wpb.LeaseHeartbeat(progress=types_pb2.Payload(data=b"half"), **proof_of(got))
    return Asked([wpb.HeartbeatRequest(heartbeats=[beat])], got.run.spec.run_id)


@row(_W + "Append")
async def _(bench: Bench) -> Asked:
    got = await leased(bench)
    said = types_pb2.Message(role="user", content="a word")
    line = wpb.LogLine(text="a line")
    written = wpb.Appended(logs=[line], messages=[said], **proof_of(got))
    return Asked([wpb.AppendRequest(appended=[written])], got.run.spec.run_id)
