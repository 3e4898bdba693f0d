"""Watching: each event once and in order, commits whole, an end that is a message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from stepwell.config import WatchSettings
from stepwell.core.port import EventPage
from stepwell.rpc import status
from stepwell.rpc.admission import GateLimits
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from stepwell_client.v1 import worker_pb2 as wpb
from tests.service.conftest import ME, NO_RUN, Client, World, completed, refusal
from tests.service.leaks.bench import Bench, Context, serving
from tests.support.patience import until

SMALL = WatchSettings(message_bytes_max=1_024)


async def finished(client: Client, *task_ids: str, **fields: Any) -> types_pb2.Run:
    """Run a plan to its end, one commit a task."""
    run = await client.start_tasks(*task_ids, queue="q", **fields)
    async with client.worker(queues=["q"], grant=1) as worker:
        for _ in task_ids:
            assignment = await worker.assignment()
            await worker.send(completed(assignment), grant=1)
            await worker.ack()
    return await client.wait(run.spec.run_id)


async def read_all(call: Any) -> tuple[list[types_pb2.Event], opb.WatchEnd]:
    events: list[types_pb2.Event] = []
    while True:
        message = await call.read()
        assert message is not grpc.aio.EOF, "the watch ended without a word"
        events += message.events.events
        if message.HasField("end"):
            return events, message.end


async def test_E1_E3_events_are_gap_free_and_go_on_behind_any_number(client: Client) -> None:
    run = await finished(client, "a", "b", "c")

    whole, _ = await read_all(client.watch(run.spec.run_id))

    assert [event.number for event in whole] == list(range(1, run.last_event + 1))
    for after in range(run.last_event + 1):
        rest, end = await read_all(client.watch(run.spec.run_id, after=after))
        assert rest == whole[after:]
        assert end.reason == opb.WATCH_END_REASON_FINISHED
        assert end.run == run


async def test_events_that_happen_while_it_is_watched_come_live(client: Client) -> None:
    run = await client.start_tasks("a", "b", queue="q")
    call = client.watch(run.spec.run_id, after=run.last_event)
    await call.initial_metadata()  # It stands before anything happens.
    watching = asyncio.ensure_future(read_all(call))
    async with client.worker(queues=["q"], grant=2) as worker:
        for _ in range(2):
            await worker.complete(await worker.assignment())

    events, end = await watching

    assert [event.number for event in events] == list(
        range(run.last_event + 1, end.run.last_event + 1)
    )


async def test_E5_a_cursor_from_the_future_is_refused(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")

    error = await refusal(client.watch(run.spec.run_id, after=run.last_event + 1))
    missing = await refusal(client.watch(NO_RUN))

    assert (error.code, error.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "CURSOR_IN_FUTURE")
    assert error.fields == ["after"]
    assert (missing.code, missing.reason) == (grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND")
    assert missing.metadata == {"run_id": NO_RUN}


async def test_E7_progress_never_overtakes_events(world: World) -> None:
    client = await world.client(await world.server(watch=WatchSettings(progress_ms=20)))
    run = await client.start_tasks("a", "b", "c", queue="q")
    seen = 0
    progress = 0
    call = client.watch(run.spec.run_id)

    async def watch() -> None:
        nonlocal seen, progress
        async for message in call:
            for event in message.events.events:
                assert event.number == seen + 1
                seen = event.number
            if message.HasField("progress"):
                progress += 1
                assert message.progress.resume_token == str(seen)

    watching = asyncio.ensure_future(watch())
    async with client.worker(queues=["q"], grant=1) as worker:
        for _ in range(3):
            before = progress
            assignment = await worker.assignment()
            await until(lambda: progress > before)  # noqa: B023 - awaited before `before` changes
            await worker.send(completed(assignment), grant=1)
            await worker.ack()
    await watching
    assert progress >= 3


async def test_E8_the_events_of_a_commit_are_not_split(world: World) -> None:
    client = await world.client(await world.server(watch=SMALL))
    run = await finished(client, *(f"task-{number}" for number in range(20)))
    messages = 0
    ends: list[int] = []

    async for message in client.watch(run.spec.run_id):
        if message.HasField("events"):
            messages += 1
            versions = {event.version for event in message.events.events}
            assert not versions & set(ends)
            ends += versions
            assert message.events.resume_token == str(message.events.events[-1].number)

    assert messages > 3
    assert len(ends) == run.version


async def test_filters_leave_out_events_and_nothing_else(client: Client) -> None:
    run = await finished(client, "a", "b")

    one, _ = await read_all(client.watch(run.spec.run_id, task_ids=["b"]))
    typed, _ = await read_all(
        client.watch(run.spec.run_id, types=[types_pb2.EVENT_TYPE_TASK_COMPLETED])
    )
    none, end = await read_all(
        client.watch(run.spec.run_id, types=[types_pb2.EVENT_TYPE_RUN_CANCELLED])
    )

    assert {event.task_id for event in one} == {"b"}
    assert {event.task_id for event in typed} == {"a", "b"}
    assert none == []
    assert end.reason == opb.WATCH_END_REASON_FINISHED


async def test_E2_watchers_of_two_replicas_see_the_same_events(
    world: World,
) -> None:
    one = await world.server()
    two = await world.server(store=one.store)
    clients = [await world.client(one), await world.client(two)]
    run_id = (await clients[0].start_tasks("a", "b", "c", queue="q")).spec.run_id
    watching = [asyncio.ensure_future(read_all(client.watch(run_id))) for client in 3 * clients]
    filtered = asyncio.ensure_future(read_all(clients[0].watch(run_id, task_ids=["b"])))
    await until(lambda: all(server.deps.notifier.subscribers > 2 for server in (one, two)))
    async with clients[0].worker(queues=["q"], grant=1) as worker:
        await worker.send(completed(await worker.assignment()), grant=1)
        await worker.ack()
        # Their run has a past, which no ring holds from its beginning.
        watching += [asyncio.ensure_future(read_all(client.watch(run_id))) for client in clients]
        for _ in range(2):
            await worker.send(completed(await worker.assignment()), grant=1)
            await worker.ack()

    whole, end = await watching[0]

    assert [event.number for event in whole] == list(range(1, end.run.last_event + 1))
    for other in watching:
        assert await other == (whole, end)
    assert (await filtered)[0] == [event for event in whole if event.task_id == "b"]
    # Those that waited for a hint of the other replica's end may leave a moment later.
    await until(lambda: not any(server.deps.notifier.subscribers for server in (one, two)))


async def test_a_run_that_vanishes_while_it_is_watched_is_purged(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.server()
    client = await world.client(server)
    run = await client.start_tasks("a", queue="q")
    call = client.watch(run.spec.run_id)
    await call.read()

    async def gone(*_names: str, **_page: int) -> None:
        return None

    monkeypatch.setattr(server.store, "read_events", gone)
    _, end = await read_all(call)

    assert end.reason == opb.WATCH_END_REASON_PURGED


async def test_E6_cursor_below_retention_gets_the_oldest_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.server()
    client = await world.client(server)
    run = await client.start_tasks("a", queue="q")

    async def pruned(*_names: str, **_page: int) -> EventPage:
        return EventPage(oldest=5, latest=9)

    monkeypatch.setattr(server.store, "read_events", pruned)
    error = await refusal(client.watch(run.spec.run_id, after=2))

    assert (error.code, error.reason) == (grpc.StatusCode.OUT_OF_RANGE, "CURSOR_OUT_OF_RANGE")
    assert error.metadata == {"oldest": "5", "latest": "9"}


class Sleeper(Context):
    """A reader that takes so many messages, and no more until it wakes up."""

    def __init__(self, takes: int = 1) -> None:
        super().__init__()
        self.awake = asyncio.Event()
        self._takes = takes

    async def write(self, message: Any) -> None:
        if len(self.written) >= self._takes:
            await self.awake.wait()
        await super().write(message)


async def _long_history(bench: Bench) -> str:
    """Return a run that is over, with much to be watched: each pause tells a long reason."""
    start = opb.StartRunRequest(queue="nobody")
    run_id = (await bench.call("Orchestrator/StartRun", start)).run.spec.run_id
    for _ in range(10):
        pause = opb.PauseRunRequest(run_id=run_id, reason="x" * 1_000)
        await bench.call("Orchestrator/PauseRun", pause)
        await bench.call("Orchestrator/ResumeRun", opb.ResumeRunRequest(run_id=run_id))
    await bench.call("Orchestrator/CancelRun", opb.CancelRunRequest(run_id=run_id))
    return run_id


@pytest.mark.parametrize("method", ["Orchestrator/WatchRun", "Worker/Work"])
async def test_E9_who_reads_no_more_is_cut_off_and_delays_nobody(
    tmp_path: Path, method: str
) -> None:
    stalled, quick = Sleeper(), Context()
    async with serving("memory://", tmp_path, watch=SMALL) as server:
        bench = Bench(server, GateLimits(stall_ms=20))
        watch = opb.WatchRunRequest(run_id=await _long_history(bench))
        plan = types_pb2.PlanDraft(tasks=[types_pb2.TaskSpec(task_id="a")])
        await bench.call("Orchestrator/StartRun", opb.StartRunRequest(queue="q", plan=plan))
        hello = wpb.Hello(worker_id="deaf", instance_id="i", queues=["q"])
        request = watch if method != "Worker/Work" else wpb.WorkRequest(hello=hello, credits=1)
        serving_it = asyncio.ensure_future(bench.serve(method, [request], stalled))
        await bench.serve("Orchestrator/WatchRun", [watch], quick)
        with pytest.raises(grpc.aio.AbortError):
            await serving_it
        assert not bench.executor.connected

    assert quick.written[-1].end.reason == opb.WATCH_END_REASON_FINISHED
    assert stalled.code is grpc.StatusCode.UNAVAILABLE
    assert len(stalled.written) == 1


def _wake_when_cut_off(reader: Sleeper, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noted(status.SlowConsumer):
        def __init__(self, message: str) -> None:
            super().__init__(message)
            # The patience is over once, and not yet twice: the end can still be told.
            reader.awake.set()

    monkeypatch.setattr(status, "SlowConsumer", Noted)


async def test_stalled_watcher_that_resumes_gets_slow_as_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Sleeper()
    _wake_when_cut_off(reader, monkeypatch)
    async with serving("memory://", tmp_path, watch=SMALL) as server:
        bench = Bench(server, GateLimits(stall_ms=20))
        watch = opb.WatchRunRequest(run_id=await _long_history(bench))
        await bench.serve("Orchestrator/WatchRun", [watch], reader)

    assert reader.written[-1].end.reason == opb.WATCH_END_REASON_SLOW_CONSUMER
    assert len(reader.written) == 3


@pytest.mark.parametrize("method", ["WatchRun", "WatchLogs"])
async def test_E1_reader_that_stalls_at_the_end_gets_no_second_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    reader = Sleeper(takes=0)
    _wake_when_cut_off(reader, monkeypatch)
    async with serving("memory://", tmp_path, watch=SMALL) as server:
        bench = Bench(server, GateLimits(stall_ms=20))
        run_id = await _long_history(bench)
        seen = (await bench.call("Orchestrator/GetRun", opb.GetRunRequest(run_id=run_id))).run
        request = {
            "WatchRun": opb.WatchRunRequest(run_id=run_id, resume_token=str(seen.last_event)),
            "WatchLogs": opb.WatchLogsRequest(run_id=run_id),
        }[method]
        with pytest.raises(grpc.aio.AbortError):
            await bench.serve(f"Orchestrator/{method}", [request], reader)

    assert reader.code is grpc.StatusCode.UNAVAILABLE
    assert len(reader.written) <= 1


# --- all runs --------------------------------------------------------------------------------------


async def _updates(call: Any, count: int) -> tuple[list[opb.RunUpdate], str]:
    found: list[opb.RunUpdate] = []
    cursor = ""
    while len(found) < count:
        message = await call.read()
        assert message is not grpc.aio.EOF
        found += message.updates.updates
        cursor = message.updates.resume_token or message.progress.resume_token or cursor
    return found, cursor


async def test_watch_of_all_runs_covers_every_run_and_resumes_at_a_cursor(
    client: Client,
) -> None:
    first = await client.start_tasks("a", queue="q")
    call: Any = client.ask("WatchRuns")
    updates, cursor = await _updates(call, 1)
    assert updates[0].run.spec.run_id == first.spec.run_id
    call.cancel()

    second = await client.start_tasks("a", queue="q")
    call = client.ask("WatchRuns", resume_token=cursor)
    updates, _ = await _updates(call, 1)

    assert [update.run.spec.run_id for update in updates] == [second.spec.run_id]
    assert updates[0].version <= updates[0].run.version
    call.cancel()


async def test_watch_from_now_begins_with_its_cursor(client: Client) -> None:
    await client.start_tasks("a", queue="q")
    call: Any = client.ask("WatchRuns", resume_token="now")
    first = await call.read()
    assert first.progress.resume_token

    later = await client.start_tasks("a", queue="q")
    updates, _ = await _updates(call, 1)

    assert [update.run.spec.run_id for update in updates] == [later.spec.run_id]
    call.cancel()


async def test_snapshot_of_a_run_that_this_replica_works_on_is_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await world.server()
    client = await world.client(server)
    call: Any = client.ask("WatchRuns", resume_token="now")
    await call.read()
    reads: list[str] = []

    async def read(_tenant_id: str, run_id: str) -> None:
        reads.append(run_id)

    monkeypatch.setattr(server.store, "get_run", read)
    run = await client.start_tasks("a", queue="q")
    updates, _ = await _updates(call, 1)

    assert updates[0].run.version == run.version
    assert reads == []
    call.cancel()


async def test_watching_all_runs_filters_by_pipeline_and_label(client: Client) -> None:
    await client.start_tasks("a", queue="q", pipeline_id="other")
    wanted = await client.start_tasks("a", queue="q", pipeline_id="mine", labels={"k": "v"})
    await client.start_tasks("a", queue="q", pipeline_id="mine")
    request = opb.WatchRunsRequest(pipeline_id="mine", labels={"k": "v"})

    call: Any = client.runs.WatchRuns(request, metadata=ME)
    updates, _ = await _updates(call, 1)

    assert [update.run.spec.run_id for update in updates] == [wanted.spec.run_id]
    call.cancel()


async def test_a_watch_of_all_runs_gets_each_deletion_whatever_its_filter(client: Client) -> None:
    run = await client.start_tasks("a", queue="q")
    run_id = run.spec.run_id
    call: Any = client.ask("WatchRuns")
    _, cursor = await _updates(call, 1)
    filtered: Any = client.ask("WatchRuns", resume_token="now", labels={"k": "v"})
    await filtered.read()

    cancel = opb.CancelRunRequest(run_id=run_id)
    await client.runs.CancelRun(cancel, metadata=ME)
    await client.runs.DeleteRun(opb.DeleteRunRequest(run_id=run_id), metadata=ME)

    resumed: Any = client.ask("WatchRuns", resume_token=cursor)
    for watch in (call, filtered, resumed):
        while not (update := (await _updates(watch, 1))[0][-1]).deleted:
            pass
        assert update.run_id == run_id
        assert not update.HasField("run")
        watch.cancel()


async def test_many_runs_come_in_messages_that_are_not_too_large(world: World) -> None:
    client = await world.client(await world.server(watch=WatchSettings(message_bytes_max=4096)))
    runs = [await client.start(goal="g" * 1_000, queue="q") for _ in range(20)]
    call: Any = client.ask("WatchRuns")
    found: set[str] = set()
    cursors: list[str] = []

    while len(found) < len(runs):
        message = await call.read()
        assert message.ByteSize() < 6_000
        found |= {update.run.spec.run_id for update in message.updates.updates}
        cursors.append(message.updates.resume_token)

    # Only behind the last part is all before it covered.
    assert set(cursors[:-1]) == {""}
    assert cursors[-1]
    call.cancel()


async def test_a_cursor_that_no_store_gave_out_is_refused(client: Client) -> None:
    call: Any = client.ask("WatchRuns", resume_token="nonsense")

    error = await refusal(call)

    assert (error.reason, error.fields) == ("CURSOR_INVALID", ["resume_token"])
