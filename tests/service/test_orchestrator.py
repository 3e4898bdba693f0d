"""Starting, steering and reading runs, as clients do."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from stepwell.core.records.model import Run
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, NO_RUN, Client, World, bearer, completed, outcome, refusal

INVALID = grpc.StatusCode.INVALID_ARGUMENT
QUEUED = types_pb2.RUN_STATUS_QUEUED
PAUSED, CANCELLED = types_pb2.RUN_STATUS_PAUSED, types_pb2.RUN_STATUS_CANCELLED
SUCCEEDED, FAILED = types_pb2.RUN_STATUS_SUCCEEDED, types_pb2.RUN_STATUS_FAILED


async def start(client: Client, **fields: Any) -> opb.StartRunResponse:
    return await client.ask("StartRun", **fields)


def plan(*tasks: types_pb2.TaskSpec) -> types_pb2.PlanDraft:
    return types_pb2.PlanDraft(tasks=tasks)


# --- start -------------------------------------------------------------------------------------------


async def test_a_run_starts_with_defaults(client: Client) -> None:
    reply = await start(client, goal="find out", labels={"team": "x"})
    one = await start(client, pipeline_id="survey")
    two = await start(client, pipeline_id="survey", queue="gpu", on_behalf_of="cron")

    run = await client.get(reply.run.spec.run_id)
    assert reply.created
    assert run.status == QUEUED
    assert (run.spec.queue, run.spec.executor_id, run.spec.tenant_id) == (
        "default",
        "all",
        "tenant-a",
    )
    assert (run.spec.max_iterations, run.spec.max_parallel) == (10, 32)
    assert run.phase == types_pb2.PHASE_PLANNING
    assert dict(run.spec.labels) == {"team": "x"}
    assert one.run.spec.queue == "survey"
    assert (two.run.spec.queue, two.run.spec.executor_id) == ("gpu", "cron")


async def test_S16_a_start_sent_again_finds_its_run(client: Client) -> None:
    fields = {"goal": "g", "request_id": "r-1", "labels": {"a": "1", "b": "2", "c": "3"}}
    first = await start(client, **fields)
    again = await start(client, **fields)
    both = await asyncio.gather(*(start(client, goal="h", request_id="r-2") for _ in range(8)))

    assert first.created
    assert not again.created
    assert again.run.spec.run_id == first.run.spec.run_id
    assert len({reply.run.spec.run_id for reply in both}) == 1
    assert sum(reply.created for reply in both) == 1
    error = await refusal(start(client, goal="another", request_id="r-1"))
    assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")


async def test_S16_a_default_that_is_written_out_makes_no_other_request(client: Client) -> None:
    task = types_pb2.TaskSpec(task_id="a")
    spelled = types_pb2.TaskSpec(
        task_id="a",
        effect=types_pb2.EFFECT_IDEMPOTENT,
        retry=types_pb2.RetryPolicy(max_attempts=3, jitter=1),
    )
    short = await start(client, goal="g", plan=plan(task), request_id="s")
    long = await start(
        client,
        goal="g",
        plan=plan(spelled),
        request_id="s",
        queue="default",
        max_iterations=10,
        max_parallel=32,
        no_progress_limit=3,
        budget=types_pb2.Budget(),
    )
    run_id = short.run.spec.run_id
    retried: Any = {"run_id": run_id, "request_id": "r", "reason": "again"}
    paused = await client.ask("PauseRun", run_id=run_id)
    resumed = await client.ask("ResumeRun", **retried)
    again = await client.ask("ResumeRun", **retried, leave_failed=False)
    fork: Any = {"run_id": run_id, "request_id": "f", "version": paused.run.version}
    forked = await client.ask("ForkRun", **fork)
    same = await client.ask("ForkRun", **fork, mode=types_pb2.FORK_MODE_STRICT)

    assert (short.created, long.created) == (True, False)
    assert long.run.spec.run_id == run_id
    assert (resumed.changed, again.changed) == (True, False)
    assert (forked.created, same.created) == (True, False)
    error = await refusal(start(client, goal="g", plan=plan(task), request_id="s", max_parallel=31))
    assert error.reason == "REQUEST_ID_REUSED"


async def test_validate_only_starts_nothing(client: Client) -> None:
    reply = await start(
        client, goal="g", plan=plan(types_pb2.TaskSpec(task_id="a")), validate_only=True
    )

    assert not reply.created
    assert reply.run.phase == types_pb2.PHASE_EXECUTING
    assert not (await client.ask("ListRuns")).runs
    bad = plan(types_pb2.TaskSpec(task_id="a", depends_on=["b"]))
    error = await refusal(start(client, plan=bad, validate_only=True))
    assert error.fields == ["plan.tasks[0].depends_on[0]"]
    error = await refusal(start(client, stages=[types_pb2.STEP_KIND_REFLECT]))
    assert (error.reason, error.fields) == ("INVALID_ARGUMENT", ["stages"])
    first = await start(client, goal="g", request_id="r")
    rehearsed = await start(client, goal="g", request_id="r", validate_only=True)
    assert rehearsed.run.spec.run_id == first.run.spec.run_id
    error = await refusal(start(client, goal="x", request_id="r", validate_only=True))
    assert error.reason == "REQUEST_ID_REUSED"


async def test_plan_with_a_task_beyond_a_limit_is_refused_by_start_and_fork(client: Client) -> None:
    run_id = (await start(client, plan=plan(types_pb2.TaskSpec(task_id="a")))).run.spec.run_id
    bad = plan(types_pb2.TaskSpec(task_id="a"), types_pb2.TaskSpec(task_id="b", role="x y"))
    for asked in (
        start(client, plan=bad),
        client.ask("ForkRun", run_id=run_id, mode=types_pb2.FORK_MODE_PATCH, plan=bad),
    ):
        error = await refusal(asked)
        assert (error.code, error.fields) == (INVALID, ["plan.tasks[1].role"])


# --- commands ----------------------------------------------------------------------------------------


async def test_A1_a_command_names_its_caller_and_for_whom_it_acts(client: Client) -> None:
    run_id = (await start(client, on_behalf_of="cron")).run.spec.run_id
    await client.ask("PauseRun", run_id=run_id, on_behalf_of="ann@example.org")
    cancelled = await client.ask("CancelRun", run_id=run_id)
    named = [
        (event.actor, event.on_behalf_of, event.run.actor if event.run.HasField("actor") else "")
        async for message in client.watch(run_id)
        for event in message.events.events
    ]
    for_whom = ["cron", "ann@example.org", ""]
    assert named == [("all", one, "all") for one in for_whom]
    assert (cancelled.run.actor, cancelled.run.on_behalf_of) == ("all", "")
    error = await refusal(client.ask("StopRun", run_id=run_id, on_behalf_of="two words"))
    assert error.fields == ["on_behalf_of"]


async def test_pause_resume_and_cancel(client: Client) -> None:
    run_id = (await start(client, goal="g")).run.spec.run_id

    paused = await client.ask("PauseRun", run_id=run_id)
    again = await client.ask("PauseRun", run_id=run_id)
    rehearsed = await client.ask("ResumeRun", run_id=run_id, validate_only=True)
    resumed = await client.ask("ResumeRun", run_id=run_id)
    cancelled = await client.ask("CancelRun", run_id=run_id)
    twice = await client.ask("CancelRun", run_id=run_id)

    assert (paused.changed, paused.run.status) == (True, PAUSED)
    assert (again.changed, again.run.version) == (False, paused.run.version)
    assert (rehearsed.changed, rehearsed.run.status) == (False, PAUSED)
    assert (resumed.changed, resumed.run.status) == (True, QUEUED)
    assert (cancelled.changed, cancelled.run.status) == (True, CANCELLED)
    assert (twice.changed, twice.run.version) == (False, cancelled.run.version)
    for call, reason in (
        (client.ask("ResumeRun", run_id=run_id), "RUN_CANCELLED"),
        (
            client.ask("ResumeRun", run_id=run_id, validate_only=True),
            "RUN_CANCELLED",
        ),
        (client.ask("PauseRun", run_id=run_id), "RUN_ENDED"),
    ):
        error = await refusal(call)
        assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, reason)


async def test_S16_commands_are_idempotent_by_their_request_id(client: Client) -> None:
    run_id = (await start(client, goal="g")).run.spec.run_id
    pause: Any = {"run_id": run_id, "request_id": "p"}

    first = await client.ask("PauseRun", **pause, reason="lunch")
    await client.ask("ResumeRun", run_id=run_id)
    again = await client.ask("PauseRun", **pause, reason="lunch")

    assert first.changed
    assert not again.changed
    assert again.run.status == QUEUED
    error = await refusal(client.ask("PauseRun", **pause, reason="dinner"))
    assert (error.code, error.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    error = await refusal(client.ask("CancelRun", **pause, reason="lunch"))
    assert error.reason == "REQUEST_ID_REUSED"


async def test_only_a_run_that_has_ended_is_deleted(client: Client) -> None:
    run_id = (await start(client, goal="g", request_id="r")).run.spec.run_id

    error = await refusal(client.ask("DeleteRun", run_id=run_id))
    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RUN_NOT_ENDED")
    await client.ask("CancelRun", run_id=run_id)
    await client.ask("DeleteRun", run_id=run_id)

    for method in ("DeleteRun", "GetRun"):
        error = await refusal(client.ask(method, run_id=run_id))
        assert (error.reason, error.missing) == ("RUN_NOT_FOUND", [("run", run_id)])
    # A late retry of its start does not raise it.
    error = await refusal(start(client, goal="g", request_id="r"))
    assert error.code is grpc.StatusCode.ALREADY_EXISTS


async def test_waiting_ends_with_the_run_or_with_the_time(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    request = opb.WaitRunRequest(run_id=run.spec.run_id, timeout=Duration(nanos=50_000_000))
    early = await client.runs.WaitRun(request, metadata=ME)
    waiting = asyncio.ensure_future(client.wait(run.spec.run_id))
    async with client.worker(queues=["q"]) as worker:
        await worker.complete(await worker.assignment())

    assert not early.ended
    assert (await waiting).status == SUCCEEDED


async def test_waiting_for_a_run_reads_it_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.server()
    client = await world.client(server)
    run = await client.start_tasks("a", queue="q")
    get_run = server.store.get_run
    reads: list[str] = []
    read = asyncio.Event()

    async def counted(tenant_id: str, run_id: str) -> Run | None:
        reads.append(run_id)
        read.set()
        return await get_run(tenant_id, run_id)

    monkeypatch.setattr(server.store, "get_run", counted)
    waiting = asyncio.ensure_future(client.wait(run.spec.run_id))
    await read.wait()
    async with client.worker(queues=["q"]) as worker:
        await worker.complete(await worker.assignment())

    assert (await waiting).status == SUCCEEDED
    assert reads == [run.spec.run_id]


# --- lists -------------------------------------------------------------------------------------------


async def pages(client: Client, method: str, field: str, **fields: Any) -> list[Any]:
    """Return what is on all pages of a list."""
    found: list[Any] = []
    page = await client.ask(method, **fields)
    while True:
        found += getattr(page, field)
        if not page.next_page_token:
            return found
        page = await client.ask(method, **fields, page_token=page.next_page_token)


async def test_runs_are_listed_newest_first_by_pages_and_filters(client: Client) -> None:
    made = [
        (await start(client, goal=str(i), pipeline_id=f"p{i % 2}", labels={"n": str(i)})).run
        for i in range(7)
    ]
    await client.ask("CancelRun", run_id=made[3].spec.run_id)

    async def goals(**fields: Any) -> list[str]:
        runs = await pages(client, "ListRuns", "runs", page_size=2, **fields)
        return [run.spec.goal for run in runs]

    assert await goals() == ["6", "5", "4", "3", "2", "1", "0"]
    assert await goals(pipeline_id="p1") == ["5", "3", "1"]
    assert await goals(statuses=[CANCELLED]) == ["3"]
    assert await goals(labels={"n": "4"}) == ["4"]
    assert await goals(queue="p0") == ["6", "4", "2", "0"]
    assert await goals(executor_id="nobody") == []


async def test_blocked_on_separates_missing_workers_from_busy_ones(client: Client) -> None:
    one = await client.start_tasks("a", queue="q")
    tasks = [types_pb2.TaskSpec(task_id=f"t{i}", type="stew", role="cook") for i in range(2)]
    pin = types_pb2.WorkerVersion(match=types_pb2.VERSION_MATCH_AT_LEAST, version="1.10")
    two = await start(client, plan=plan(*tasks), queue="kitchen", worker_version=pin)
    worker_kind, capacity = types_pb2.BLOCKED_KIND_WORKER, types_pb2.BLOCKED_KIND_CAPACITY

    async def listed(*kinds: types_pb2.BlockedKind) -> set[str]:
        page = await client.ask("ListRuns", blocked_on=kinds)
        return {run.spec.run_id for run in page.runs}

    ids = (one.spec.run_id, two.run.spec.run_id)
    assert (await client.get(ids[0])).blocked_on == worker_kind
    assert (await client.get(ids[0])).HasField("blocked_since_time")
    async with client.worker(queues=["q", "kitchen"], grant=0):
        assert (await client.get(ids[0])).blocked_on == capacity
        # Nobody here has the version.
        blocked = await client.get(ids[1])
        assert blocked.blocked_on == worker_kind
        assert blocked.waiting_for == types_pb2.WaitingStep(
            queue="kitchen",
            kind=types_pb2.STEP_KIND_TASK,
            type="stew",
            role="cook",
            worker_version=pin,
        )
        assert await listed(capacity) == {ids[0]}
        assert await listed(worker_kind) == {ids[1]}
        assert await listed(worker_kind, capacity) == set(ids)
        waiter = [types_pb2.TaskPattern(type="stew"), types_pb2.TaskPattern(type="*", role="guest")]
        async with client.worker("w2", queues=["kitchen"], tasks=waiter, version="2", grant=0):
            assert (await client.get(ids[1])).blocked_on == worker_kind
        cook = [types_pb2.TaskPattern(type="*", role="cook")]
        async with client.worker("w3", queues=["kitchen"], tasks=cook, version="2", grant=0):
            assert (await client.get(ids[1])).blocked_on == capacity
            assert not (await client.get(ids[1])).HasField("waiting_for")


async def test_tasks_and_executions_are_listed_by_pages(client: Client) -> None:
    tasks = [
        types_pb2.TaskSpec(
            task_id=f"t{i}", title=f"T{i}", prompt="do it", depends_on=[f"t{i - 1}"] * (i > 0)
        )
        for i in range(5)
    ]
    run = (await start(client, plan=plan(*tasks), queue="q")).run
    async with client.worker(queues=["q"], grant=5) as worker:
        for _ in range(3):
            await worker.complete(await worker.assignment())
    run_id = run.spec.run_id

    listed = await pages(client, "ListTasks", "tasks", run_id=run_id, page_size=2)
    full = await client.ask("ListTasks", run_id=run_id, view=types_pb2.VIEW_FULL)
    executions = await pages(client, "ListExecutions", "executions", run_id=run_id, page_size=2)
    of_one = await client.ask("ListExecutions", run_id=run_id, task_id="t1")

    assert [entry.task.task_id for entry in listed] == [f"t{i}" for i in range(5)]
    assert [entry.spec.title for entry in listed] == [f"T{i}" for i in range(5)]
    assert {entry.spec.prompt for entry in listed} == {""}
    assert {entry.spec.prompt for entry in full.tasks} == {"do it"}
    assert [one.task_id for one in executions] == ["t0", "t1", "t2", "t3"]
    assert [one.task_id for one in of_one.executions] == ["t1"]


async def test_a_page_is_cut_before_it_outgrows_a_message(client: Client) -> None:
    for _ in range(60):
        await start(client, goal="g" * 60_000)

    first = await client.ask("ListRuns", page_size=1_000)
    found = await pages(client, "ListRuns", "runs", page_size=1_000)

    assert first.ByteSize() < 4 * 1024 * 1024
    assert first.next_page_token
    assert len({run.spec.run_id for run in found}) == len(found) == 60


# --- results -----------------------------------------------------------------------------------------


async def _with_results(client: Client, sizes: list[int]) -> str:
    run = await client.start_tasks(*(f"t{i}" for i in range(len(sizes))), queue="q")
    async with client.worker(queues=["q"], grant=1) as worker:
        for size in sizes:
            assignment = await worker.assignment()
            await worker.send(completed(assignment, bytes(size)), grant=1)
            await worker.ack()
    return run.spec.run_id


async def test_results_come_with_their_bytes_or_by_reference(client: Client) -> None:
    sizes = [1_000_000, 0, 1_000_000, 1_000_000, 1_000_000, 5]
    run_id = await _with_results(client, sizes)
    page = await client.ask("ListResults", run_id=run_id)

    async def of(**fields: Any) -> Any:
        return (await client.ask("ListResults", run_id=run_id, **fields)).results

    assert [result.task_id for result in page.results] == [f"t{i}" for i in range(6)]
    assert page.ByteSize() < 4 * 1024 * 1024
    assert page.results[1].HasField("payload")
    late = [result for result in page.results if result.by_reference]
    assert late
    for result in late:
        (found,) = await of(execution_ids=[result.execution_id])
        assert len(found.payload.data) == sizes[int(result.task_id[1:])]
        assert found.task_id == result.task_id
    assert [one.task_id for one in await of(task_ids=["t5", "nothing", "t1"])] == ["t5", "t1"]
    assert not await of(execution_ids=["x"])
    error = await refusal(of(task_ids=["t5"], execution_ids=["x"]))
    assert error.fields == ["execution_ids"]


async def test_results_come_by_pages(client: Client) -> None:
    run_id = await _with_results(client, [1] * 5)
    of: Any = {"run_id": run_id, "page_size": 2}

    every = await pages(client, "ListResults", "results", **of)
    named = await pages(client, "ListResults", "results", **of, task_ids=["t4", "t0", "t2"])

    assert [one.task_id for one in every] == [f"t{i}" for i in range(5)]
    assert [one.task_id for one in named] == ["t4", "t0", "t2"]


async def test_a_failed_task_shows_why(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    async with client.worker(queues=["q"]) as worker:
        why = types_pb2.Failure(kind="Boom", message="no", retryable=False)
        failed = wpb.Outcome.Failed(failure=why)
        await worker.report(outcome(await worker.assignment(), failed=failed))
    (found,) = (await client.ask("ListResults", run_id=run.spec.run_id)).results

    assert (found.status, found.failure.kind) == (types_pb2.TASK_STATUS_FAILED, "Boom")


async def test_server_info_says_who_calls_and_what_is_promised(client: Client) -> None:
    info = await client.ask("GetServerInfo", metadata=bearer("reader"))

    assert (info.tenant_id, info.subject, list(info.scopes)) == ("tenant-a", "reader", ["run:read"])
    assert info.store.driver in {"memory", "sqlite"}
    assert info.store.durability
    assert info.limits["payload_bytes_max"] == 1024 * 1024
    assert info.version
    assert info.HasField("server_time")
    assert info.replica_id


# --- what is refused ---------------------------------------------------------------------------------


async def test_token_of_another_query(client: Client) -> None:
    foreign = bearer("foreign")
    for metadata in (ME, ME, ME, foreign, foreign):
        await client.ask("StartRun", goal="g", metadata=metadata)
    mine, theirs = [
        (await client.ask("ListRuns", page_size=1, metadata=metadata)).next_page_token
        for metadata in (ME, foreign)
    ]
    run = await client.start_tasks("a", "b")
    tasks = await client.ask("ListTasks", run_id=run.spec.run_id, page_size=1)

    assert (await client.ask("ListRuns", page_token=mine)).runs
    torn = (mine[:-2], mine + "=", "nonsense", "\N{SNOWMAN}", "A" * 1024)
    for token in (mine, theirs, tasks.next_page_token, *torn):
        queue = "q" if token == mine else ""
        error = await refusal(client.ask("ListRuns", page_token=token, queue=queue))
        assert (error.code, error.reason) == (INVALID, "PAGE_TOKEN_INVALID"), token
        assert error.fields == ["page_token"]


async def test_a_goal_of_10_mb(client: Client) -> None:
    error = await refusal(client.start(goal="g" * 10_000_000))
    smaller = await refusal(client.start(goal="g" * 1_000_000))

    assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.reason == "MESSAGE_TOO_LARGE"
    assert (smaller.code, smaller.fields) == (INVALID, ["goal"])


async def test_malformed_message_is_refused_with_the_field(client: Client) -> None:
    call = client.channel.unary_unary("/stepwell.v1.Orchestrator/StartRun")
    half_a_pair = (
        opb.StartRunRequest(goal="???").SerializeToString().replace(b"???", b"\xed\xa0\xbd")
    )

    for raw, field in ((b"\xff\xff\xff", "request"), (half_a_pair, "goal")):
        error = await refusal(call(raw, metadata=ME))
        assert (error.code, error.reason) == (INVALID, "INVALID_ARGUMENT")
        assert error.fields == [field]


async def test_a_plan_beyond_its_size_is_an_invalid_plan(client: Client) -> None:
    many = plan(*[types_pb2.TaskSpec(task_id=f"t{n}") for n in range(10_001)])
    large = plan(*[types_pb2.TaskSpec(task_id=f"t{n}", prompt="x" * 200_000) for n in range(17)])

    for refused, field in ((many, "plan.tasks"), (large, "plan")):
        error = await refusal(start(client, plan=refused))
        assert (error.code, error.reason, error.fields) == (INVALID, "PLAN_INVALID", [field])


async def test_an_unexpected_error_leaks_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.server()
    client = await world.client(server)

    async def explode(*_args: object) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr(server.store, "get_run", explode)
    error = await refusal(client.get(NO_RUN))

    assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in error.message
    assert error.metadata["error_id"] in error.message
