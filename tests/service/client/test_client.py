"""The asynchronous client against a scripted server: requests, retries, errors, watches."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from stepwell_client import (
    Budget,
    Client,
    Effect,
    EventType,
    LogKind,
    Payload,
    RunFailed,
    RunStatus,
    StepKind,
    StepwellClientError,
    Task,
    Unavailable,
    decode,
    encode,
)
from stepwell_client.errors import CursorOutOfRange, RunNotFound, RunPurged
from stepwell_client.records import TaskPattern
from stepwell_client.v1 import orchestrator_pb2, types_pb2
from tests.service.client.fakes import (
    TOKEN,
    End,
    FakeServer,
    FastRuntime,
    Script,
    a_run,
    events,
    watch_end,
)
from tests.support.patience import PATIENCE_S
from tests.support.steps import RUN_ID

FINISHED = orchestrator_pb2.WATCH_END_REASON_FINISHED
DRAINING = orchestrator_pb2.WATCH_END_REASON_DRAINING
SLOW = orchestrator_pb2.WATCH_END_REASON_SLOW_CONSUMER
PURGED = orchestrator_pb2.WATCH_END_REASON_PURGED
LOST = End(grpc.StatusCode.UNAVAILABLE, "gone")
SUCCESS = types_pb2.RUN_STATUS_SUCCEEDED
FAILED = types_pb2.RUN_STATUS_FAILED
CANCELLED = types_pb2.RUN_STATUS_CANCELLED
SUCCEEDED = a_run(types_pb2.RUN_STATUS_SUCCEEDED)


def started(request: Any) -> orchestrator_pb2.StartRunResponse:
    return orchestrator_pb2.StartRunResponse(
        run=a_run(types_pb2.RUN_STATUS_QUEUED), created=not request.validate_only
    )


async def test_start_sends_what_was_asked_for_with_the_token(
    server: FakeServer, client: Client
) -> None:
    server.runs.answers["StartRunRequest"] = started

    run = await client.start(
        "count",
        input={"a": 1},
        pipeline="words",
        plan=[Task("t", "count", effect=Effect.AT_MOST_ONCE)],
        stages=[StepKind.SYNTHESIZE],
        labels={"team": "x"},
        max_parallel=4,
        budget=Budget(cost_micros=5, wall=60),
        request_id="mine",
    )

    (request,) = server.runs.requests
    assert (run.id, run.created) == (RUN_ID, True)
    assert (request.goal, request.pipeline_id, request.request_id) == ("count", "words", "mine")
    assert decode(request.input) == {"a": 1}
    assert request.plan.tasks[0].effect == types_pb2.EFFECT_AT_MOST_ONCE
    assert list(request.stages) == [types_pb2.STEP_KIND_SYNTHESIZE]
    assert request.max_parallel == 4
    assert not request.HasField("max_iterations")
    assert request.budget.wall.seconds == 60
    assert dict(request.labels) == {"team": "x"}
    assert server.runs.metadata[0]["authorization"] == f"Bearer {TOKEN}"


async def test_missing_plan_differs_from_an_empty_one(server: FakeServer, client: Client) -> None:
    server.runs.answers["StartRunRequest"] = started

    await client.start("a")
    await client.start("b", plan=[])

    assert [request.HasField("plan") for request in server.runs.requests] == [False, True]


async def test_a_server_that_is_not_there_is_unavailable_soon() -> None:
    async with Client("127.0.0.1:1", token="", runtime=FastRuntime()) as client:
        with pytest.raises(Unavailable):
            await client.run(RUN_ID).get()


async def test_pages_are_read_one_after_the_other(server: FakeServer, client: Client) -> None:
    page = orchestrator_pb2.ListRunsResponse
    server.runs.answers["ListRunsRequest"] = Script(
        page(runs=[a_run(SUCCESS), a_run(FAILED)], next_page_token="more"),
        page(next_page_token="and more"),
        page(runs=[a_run(CANCELLED)]),
    )

    found = [run.status async for run in client.runs(statuses=[RunStatus.FAILED], pipeline="p")]

    assert found == [SUCCESS, FAILED, CANCELLED]
    assert [request.page_token for request in server.runs.requests] == ["", "more", "and more"]
    assert {tuple(request.statuses) for request in server.runs.requests} == {(FAILED,)}


async def test_wait_goes_on_over_slices_and_lost_servers(
    server: FakeServer, client: Client
) -> None:
    answer = orchestrator_pb2.WaitRunResponse
    running = answer(run=a_run(types_pb2.RUN_STATUS_RUNNING))
    server.runs.answers["WaitRunRequest"] = Script(
        running, *[LOST] * 12, answer(run=SUCCEEDED, ended=True)
    )

    assert (await client.run(RUN_ID).wait()).status == RunStatus.SUCCEEDED


async def test_starts_waits_and_watches_go_on_before_a_server_has_ever_answered(
    server: FakeServer, client: Client
) -> None:
    ended = orchestrator_pb2.WaitRunResponse(run=SUCCEEDED, ended=True)
    created = orchestrator_pb2.StartRunResponse(run=SUCCEEDED, created=True)
    server.runs.answers |= {
        "WaitRunRequest": Script(*[LOST] * 12, ended),
        "StartRunRequest": Script(*[LOST] * 12, created),
    }
    server.runs.watches.extend([*[[LOST]] * 12, [watch_end(FINISHED)]])

    assert (await client.run(RUN_ID).wait()).status == RunStatus.SUCCEEDED
    assert (await client.start()).created
    assert await numbers(client.run(RUN_ID).watch()) == []
    server.runs.answers["StartRunRequest"] = Script(LOST)
    with pytest.raises(Unavailable):
        await client.start(server_seconds=0)


async def test_a_wait_for_somebody_is_logged_after_a_while(
    server: FakeServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    answer = orchestrator_pb2.WaitRunResponse
    paused = answer(run=a_run(types_pb2.RUN_STATUS_PAUSED, reason="not now"))
    server.runs.answers["WaitRunRequest"] = Script(*[paused] * 4, answer(run=SUCCEEDED, ended=True))
    await client.run(RUN_ID).wait()

    assert [request.timeout.seconds for request in server.runs.requests] == [10, 15, 15, 15, 15]
    assert caplog.messages[0] == f"run {RUN_ID} is paused: not now; resume it, or stop waiting"


async def test_a_run_that_failed_has_no_result_but_a_reason(
    server: FakeServer, client: Client
) -> None:
    failure = types_pb2.Failure(kind="ValueError", message="no good")
    run = a_run(types_pb2.RUN_STATUS_FAILED, failure=failure)
    server.runs.answers["WaitRunRequest"] = Script(
        orchestrator_pb2.WaitRunResponse(run=run, ended=True)
    )

    with pytest.raises(RunFailed, match="FAILED: ValueError: no good") as caught:
        await client.run(RUN_ID).result()

    assert caught.value.run_status == "FAILED"


async def test_results_without_room_are_fetched_by_themselves(
    server: FakeServer, client: Client
) -> None:
    def answer(request: orchestrator_pb2.ListResultsRequest) -> Any:
        result, done = orchestrator_pb2.Result, types_pb2.TASK_STATUS_COMPLETED
        if not request.execution_ids:
            entries = [
                result(task_id=f"t{n}", execution_id=f"x{n}", status=done, by_reference=True)
                for n in range(6)
            ]
            return orchestrator_pb2.ListResultsResponse(results=entries)
        alone = len(request.execution_ids) == 1
        return orchestrator_pb2.ListResultsResponse(
            results=[
                result(
                    execution_id=each,
                    payload=encode(each) if alone or each != "x2" else None,
                    by_reference=not alone and each == "x2",
                )
                for each in request.execution_ids
            ]
        )

    server.runs.answers["ListResultsRequest"] = answer

    results = await client.run(RUN_ID).results()

    assert dict(results.tasks) == {f"t{n}": f"x{n}" for n in range(6)}


# Watches.


async def numbers(watch: Any) -> list[int]:
    return [event.number async for event in watch]


@pytest.mark.usefixtures("scripted_server")
async def test_a_watch_over_lost_streams_has_no_gap_and_no_repeat(
    server: FakeServer, client: Client
) -> None:
    server.runs.watches.extend(
        [
            [events(1, 2), End()],  # End-of-file without a word.
            [events(3), LOST],
            [LOST],
            [events(3, 4), End(grpc.StatusCode.CANCELLED)],  # 3 comes again.
            [events(4), events(5), End(grpc.StatusCode.INTERNAL, "RST_STREAM")],
            [events(6), watch_end(DRAINING)],
            [events(7, 8), watch_end(SLOW)],
            [events(10), End()],  # 9 is missing: not handed on.
            [events(9, 10), watch_end(FINISHED, SUCCEEDED)],
        ]
    )

    watch = client.run(RUN_ID).watch()
    found = await asyncio.wait_for(numbers(watch), PATIENCE_S)

    assert found == list(range(1, 11))
    asked = [int(request.resume_token) for request in server.runs.requests]
    assert asked == [0, 2, 3, 3, 4, 5, 6, 8, 8]
    assert watch.run is not None
    assert watch.run.status == RunStatus.SUCCEEDED


async def test_a_filtered_watch_goes_on_after_what_was_filtered_out(
    server: FakeServer, client: Client
) -> None:
    progress = orchestrator_pb2.WatchRunResponse(
        progress=orchestrator_pb2.WatchProgress(resume_token="40")
    )
    server.runs.watches.extend(
        [
            [events(7, next_after=20), End()],
            [events(30, next_after=30), progress, End()],
            [watch_end(FINISHED)],
        ]
    )

    found = await numbers(
        client.run(RUN_ID).watch(types=[EventType.TASK_COMPLETED], task_ids=["t"])
    )

    assert found == [7, 30]
    assert [int(request.resume_token) for request in server.runs.requests] == [0, 20, 40]
    assert {tuple(request.types) for request in server.runs.requests} == {(11,)}


@pytest.mark.parametrize(
    ("last", "error"),
    [(watch_end(PURGED), RunPurged), (End(grpc.StatusCode.OUT_OF_RANGE, "x"), CursorOutOfRange)],
    ids=["purged", "permanent"],
)
async def test_a_watch_that_can_not_go_on_raises(
    server: FakeServer, client: Client, last: Any, error: type[Exception]
) -> None:
    server.runs.watches.append([events(1), last])

    with pytest.raises(error) as caught:
        await numbers(client.run(RUN_ID).watch())

    assert isinstance(caught.value, RunNotFound | CursorOutOfRange)


async def test_a_watch_gives_up_on_a_server_that_does_not_come_back(server: FakeServer) -> None:
    server.runs.watches.extend([[events(1), LOST], *[[LOST]] * 50])
    async with Client(
        server.target, token="", reconnect_seconds=0.02, runtime=FastRuntime()
    ) as client:
        watch = client.run(RUN_ID).watch()
        with pytest.raises(Unavailable):
            await numbers(watch)

    assert watch.position == 1
    assert len(server.runs.requests) < 50


async def left(watch: Any) -> None:
    async for event in watch:
        assert event.number == 1
        break


async def closed(watch: Any) -> None:
    async with watch:
        iterator = aiter(watch)
        assert (await anext(iterator)).number == 1
        waiting = asyncio.ensure_future(anext(iterator, None))
        await asyncio.sleep(0)
        await watch.aclose()
        assert await asyncio.wait_for(waiting, PATIENCE_S) is None


async def cancelled(watch: Any) -> None:
    seen = asyncio.Event()

    async def follow() -> None:
        async for _ in watch:
            seen.set()

    watching = asyncio.ensure_future(follow())
    await seen.wait()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching


@pytest.mark.parametrize("leave", [left, closed, cancelled])
async def test_a_watch_that_is_left_ends_its_stream(
    server: FakeServer, client: Client, leave: Callable[[Any], Awaitable[None]]
) -> None:
    server.runs.watches.append([events(1)])

    await leave(client.run(RUN_ID).watch())

    await asyncio.wait_for(server.runs.watch_cancelled.wait(), PATIENCE_S)
    assert server.runs.open_watches == 0
    gc.collect()


async def test_the_feed_of_all_runs_goes_on_after_its_cursor(
    server: FakeServer, client: Client
) -> None:
    answer = orchestrator_pb2.WatchRunsResponse

    def updates(cursor: str, *versions: int) -> Any:
        batch = [orchestrator_pb2.RunUpdate(version=version) for version in versions]
        return answer(updates=orchestrator_pb2.RunUpdateBatch(updates=batch, resume_token=cursor))

    idle = answer(progress=orchestrator_pb2.RunsProgress(resume_token="c2"))
    server.runs.watches.extend([[updates("c1", 1, 2), idle, End()], [updates("c3", 3)]])

    found = []
    async with client.watch("now") as watch:
        async for update in watch:
            found.append(update.version)
            if update.version == 3:
                break

    assert found == [1, 2, 3]
    assert [request.resume_token for request in server.runs.requests] == ["now", "c2"]
    assert watch.position == "c3"


# Logs and messages.


def batch(cursor: str, *texts: str) -> orchestrator_pb2.WatchLogsResponse:
    entries = [types_pb2.LogEntry(execution_id="e1", text=text) for text in texts]
    found = orchestrator_pb2.LogBatch(entries=entries, resume_token=cursor)
    return orchestrator_pb2.WatchLogsResponse(entries=found)


def log_end(reason: orchestrator_pb2.WatchEndReason) -> orchestrator_pb2.WatchLogsResponse:
    end = orchestrator_pb2.LogEnd(reason=reason, resume_token="4")
    return orchestrator_pb2.WatchLogsResponse(end=end)


async def test_a_log_over_lost_streams_goes_on_from_its_cursor(
    server: FakeServer, client: Client
) -> None:
    progress = orchestrator_pb2.LogProgress(resume_token="3")
    server.runs.watches.extend(
        [
            [batch("1", "one"), End()],
            [batch("2", "two"), orchestrator_pb2.WatchLogsResponse(progress=progress), LOST],
            [batch("4", "three"), log_end(DRAINING)],
            [log_end(FINISHED)],
        ]
    )

    log = client.run(RUN_ID).logs(follow=True, task_id="t", kinds=[LogKind.LINE])
    found = [entry.text async for entry in log]

    assert found == ["one", "two", "three"]
    assert [request.resume_token for request in server.runs.requests] == ["", "1", "3", "4"]
    assert {request.follow for request in server.runs.requests} == {True}
    assert {tuple(request.kinds) for request in server.runs.requests} == {(1,)}


async def test_the_log_of_a_run_that_was_deleted_raises(server: FakeServer, client: Client) -> None:
    server.runs.watches.append([batch("1", "one"), log_end(PURGED)])

    with pytest.raises(RunPurged):
        [entry async for entry in client.run(RUN_ID).logs(follow=True)]


def test_each_error_is_of_the_tree_and_drawn_in_it() -> None:
    module = sys.modules[StepwellClientError.__module__]

    errors = [
        item
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, Exception)
    ]
    assert all(issubclass(item, StepwellClientError) for item in errors)
    drawn = (module.__doc__ or "").replace("├", " ").replace("─", " ").split()
    assert [item.__name__ for item in errors if item.__name__ not in drawn] == []


async def test_workers_and_queues_come_as_records_over_all_pages(
    server: FakeServer, client: Client
) -> None:
    held = orchestrator_pb2.HeldStep(run_id=RUN_ID, execution_id="task:a#1", progress=encode(3))
    worker = orchestrator_pb2.ConnectedWorker(
        worker_id="w", kinds=[types_pb2.STEP_KIND_TASK], held=[held], held_count=1
    )
    worker.tasks.add(type="*", role="writer")
    server.runs.answers["ListWorkersRequest"] = Script(
        orchestrator_pb2.ListWorkersResponse(workers=[worker], next_page_token="more"),
        orchestrator_pb2.ListWorkersResponse(
            workers=[orchestrator_pb2.ConnectedWorker(worker_id="x")]
        ),
    )
    server.runs.answers["ListQueuesRequest"] = Script(
        orchestrator_pb2.ListQueuesResponse(
            queues=[orchestrator_pb2.Queue(name="q", limit=0)], next_page_token="more"
        ),
        orchestrator_pb2.ListQueuesResponse(
            queues=[orchestrator_pb2.Queue(name="r")], complete=True
        ),
    )
    workers = [one async for one in client.workers("q", run_id=RUN_ID)]
    found = await client.queues()

    assert [one.worker_id for one in workers] == ["w", "x"]
    assert workers[0].tasks == (TaskPattern(type="*", role="writer"),)
    assert workers[0].held[0].progress == Payload(b"3")
    assert [(one.queue, one.run_id) for one in server.runs.requests[:2]] == [("q", RUN_ID)] * 2
    assert [(one.name, one.limit) for one in found.queues] == [("q", 0), ("r", None)]
    assert not found.complete
