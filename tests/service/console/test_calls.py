"""Calls by HTTP: the same answers, errors and limits as by gRPC, in every form."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from contextlib import AsyncExitStack, aclosing
from typing import Any

import google.rpc.status_pb2 as status_pb2
import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from stepwell.config import GrpcSettings
from stepwell.core.records import limits
from stepwell_client.v1 import orchestrator_pb2 as opb
from stepwell_client.v1 import types_pb2
from tests.service.conftest import ME, NO_RUN, World, bearer
from tests.service.console.conftest import Console, new_console
from tests.service.console.http import FORMS, HttpRefusal, encoded, envelope, refusal_of
from tests.service.test_watch import finished
from tests.support.methods import STORE
from tests.support.patience import PATIENCE_S, until

START = "/stepwell.v1.Orchestrator/StartRun"
WATCH = "/stepwell.v1.Orchestrator/WatchRuns"
JSON = {"content-type": "application/json"}


async def refused(calling: Any) -> HttpRefusal:
    with pytest.raises(HttpRefusal) as caught:
        await calling
    return caught.value


# --- answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
async def test_run_is_started_read_and_watched_as_by_grpc(console: Console, form: str) -> None:
    started = await console.http.call(
        "Orchestrator/StartRun", opb.StartRunRequest(goal="2^53 + 1 → 💧", queue="nobody"), form
    )
    (answer,) = started
    assert isinstance(answer, opb.StartRunResponse)
    by_grpc = await console.client.get(answer.run.spec.run_id)
    assert answer.run == by_grpc

    run = await finished(console.client, "a", "b", goal=form)
    request = opb.WatchRunRequest(run_id=run.spec.run_id)
    messages = await console.http.call("Orchestrator/WatchRun", request, form)
    call = console.client.watch(run.spec.run_id)
    assert messages == [message async for message in call]


@pytest.mark.parametrize("form", FORMS)
async def test_errors_carry_the_status_and_details_that_grpc_has(
    console: Console, form: str
) -> None:
    run = await console.client.start(goal="here")
    requests: list[tuple[str, Message]] = [
        ("GetRun", opb.GetRunRequest(run_id=NO_RUN)),
        ("StartRun", opb.StartRunRequest(goal="g" * (limits.GOAL_BYTES_MAX + 1), priority=1_000)),
        ("WatchRun", opb.WatchRunRequest(run_id=NO_RUN)),
        ("WatchRun", opb.WatchRunRequest(run_id=run.spec.run_id, resume_token="1000")),
        ("WatchLogs", opb.WatchLogsRequest(run_id=run.spec.run_id, resume_token="none")),
        ("RetryTask", opb.RetryTaskRequest(run_id=run.spec.run_id, task_id="no-task")),
    ]
    for name, request in requests:
        by_http = await refused(console.http.call(f"Orchestrator/{name}", request, form))
        stub = getattr(console.client.runs, name)
        assert by_http.status == await _grpc_status(stub(request, metadata=ME)), name


async def _grpc_status(call: Any) -> status_pb2.Status:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if hasattr(call, "read") else call)
    trailing: Any = dict(caught.value.trailing_metadata() or ())
    return status_pb2.Status.FromString(trailing["grpc-status-details-bin"])


async def test_error_shows_its_details_in_json_too(console: Console) -> None:
    response = await console.http.client.post(
        START, json={"goal": "x", "priority": 1_000}, headers=dict(ME)
    )
    assert response.status_code == 400
    error = response.json()
    info, faults = (one["debug"] for one in error["details"])
    assert error["code"] == "invalid_argument"
    assert info["reason"] == "INVALID_ARGUMENT"
    assert faults["fieldViolations"][0]["field"] == "priority"


@pytest.mark.parametrize("form", FORMS)
async def test_watch_stands_before_anything_happens(console: Console, form: str) -> None:
    run = await console.client.start(goal="quiet")
    request = opb.WatchRunRequest(run_id=run.spec.run_id, resume_token=str(run.last_event))
    async with aclosing(console.http.stream("Orchestrator/WatchRun", request, form)) as watch:
        assert await anext(watch) is None
        await console.client.ask("CancelRun", run_id=run.spec.run_id)
        message: Any = await anext(watch)
        assert message.events.events[0].number == run.last_event + 1


async def test_large_messages_travel_as_json_both_ways(console: Console) -> None:
    goal = "ö" * (limits.GOAL_BYTES_MAX // 2)
    data = json.dumps("x" * (limits.PAYLOAD_BYTES_MAX // 2)).encode()
    request = opb.StartRunRequest(goal=goal, input=types_pb2.Payload(data=data))
    (answer,) = await console.http.call("Orchestrator/StartRun", request, "json")
    assert isinstance(answer, opb.StartRunResponse)
    assert answer.run == await console.client.get(answer.run.spec.run_id)
    assert answer.run.spec.goal == goal


# --- who and what is let in --------------------------------------------------------------------------


async def test_methods_of_other_services_are_not_there(console: Console) -> None:
    names = [
        *STORE,
        "Worker/ReportOutcomes",
        "Worker/Heartbeat",
        "Worker/Work",
        "Orchestrator/Nothing",
    ]
    paths = [*(f"/stepwell.v1.{name}" for name in names), "/stepwell.v1.", "/stepwell.v1.x/y"]
    for path in paths:
        known = await console.http.client.post(path, json={}, headers=dict(ME))
        assert known.status_code == 501, path
        assert refusal_of(known.json()).reason == "METHOD_UNKNOWN"
        unknown = await console.http.client.post(path, json={})
        assert unknown.status_code == 401, path


async def test_health_by_http_needs_a_method_that_is_not_there(console: Console) -> None:
    # Without a credential, as gRPC's callers ask: here the path is that of a page.
    answer = await console.http.client.post("/grpc.health.v1.Health/Check", json={})
    assert answer.status_code == 405


async def test_caller_is_refused_before_the_body_is_read(console: Console) -> None:
    body = b"\xff" * (limits.RECEIVE_BYTES_MAX + 100)
    answer = await console.http.client.post(START, content=body, headers=JSON)
    assert answer.status_code == 401


async def test_port_has_no_place_that_grpc_has_taken(world: World) -> None:
    async with AsyncExitStack() as stack:
        small = GrpcSettings(port=0, streams_max=1)
        console = await new_console(world, stack, grpc=small)
        run = await console.client.start(goal="watched")
        watch = console.client.watch(run.spec.run_id)
        await watch.initial_metadata()
        error = await refused(console.http.call("Orchestrator/WatchRuns", opb.WatchRunsRequest()))
        assert (error.code, error.reason) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "TOO_MANY_CALLS",
        )
        watch.cancel()


async def test_get_and_other_content_types_say_what_is_taken(console: Console) -> None:
    assert (await console.http.client.get(START)).status_code == 405
    assert (await console.http.client.options(START)).status_code == 405
    for path, content_type in (
        (START, "text/plain"),
        (START, "application/connect+json"),
        (START, "application/grpc-web"),
        (WATCH, "application/json"),
    ):
        headers = dict(ME) | {"content-type": content_type}
        answer = await console.http.client.post(path, content=b"{}", headers=headers)
        assert answer.status_code == 415
        taken = answer.headers["accept-post"].split(", ")
        assert taken[0] in answer.json()["message"]
        assert ("application/connect+json" in taken) is (path == WATCH)


# --- limits ------------------------------------------------------------------------------------------


def _too_large() -> bytes:
    return opb.StartRunRequest(goal="x" * limits.RECEIVE_BYTES_MAX).SerializeToString()


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_request_counts_with_the_size_that_it_has_inflated(
    console: Console, encoding: str
) -> None:
    def packed(data: bytes) -> bytes:
        return gzip.compress(data) if encoding == "gzip" else data

    headers = dict(ME) | {"content-type": "application/proto", "content-encoding": encoding}
    fits = opb.StartRunRequest(goal="small").SerializeToString()
    for body, reason in (
        (packed(fits), None),
        (packed(_too_large()), "MESSAGE_TOO_LARGE"),
        (packed(b"\0" * (8 * limits.RECEIVE_BYTES_MAX)), "MESSAGE_TOO_LARGE"),
    ):
        answer = await console.http.client.post(START, content=body, headers=headers)
        if reason is None:
            assert answer.status_code == 200
        else:
            assert answer.status_code == 429
            assert refusal_of(answer.json()).reason == reason


async def test_stream_takes_a_compressed_request_and_counts_it_too(console: Console) -> None:
    run = await finished(console.client, "a")
    raw = opb.WatchRunRequest(run_id=run.spec.run_id).SerializeToString()
    headers = dict(ME) | {
        "content-type": "application/connect+proto",
        "connect-content-encoding": "gzip",
    }
    path = "/stepwell.v1.Orchestrator/WatchRun"
    content = envelope(gzip.compress(raw), 1)
    fine = await console.http.client.post(path, content=content, headers=headers)
    assert b'"error"' not in fine.content
    content = envelope(gzip.compress(_too_large()), 1)
    answer = await console.http.client.post(path, content=content, headers=headers)
    assert b"MESSAGE_TOO_LARGE" in answer.content


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        (JSON, b"", "BODY_INVALID"),
        (JSON, b"[]", "BODY_INVALID"),
        (JSON, b'{"goal": "\xff"}', "BODY_INVALID"),
        (JSON, b'{"goal": "\\ud800"}', "BODY_INVALID"),
        (JSON, b'{"labels": "\\ud800"}', "BODY_INVALID"),
        (JSON, b'{"gool": "x"}', "BODY_INVALID"),
        (JSON, b'{"goal": "a", "goal": "b"}', "BODY_INVALID"),
        (JSON, b"[" * 100_000, "BODY_INVALID"),
        (JSON, b'{"input":' * 50_000, "BODY_INVALID"),
        (JSON | {"content-encoding": "br"}, b"{}", "COMPRESSION_UNKNOWN"),
        (JSON | {"content-encoding": "gzip"}, b"{}", "BODY_INVALID"),
        (JSON | {"content-encoding": "gzip"}, gzip.compress(b"{}", mtime=0)[:-4], "BODY_INVALID"),
        (JSON | {"connect-timeout-ms": "soon"}, b"{}", "BODY_INVALID"),
        ({"content-type": "application/proto"}, b"\xff", "INVALID_ARGUMENT"),
    ],
)
async def test_body_that_is_no_request_is_refused_with_a_reason(
    console: Console, headers: dict[str, str], body: bytes, reason: str
) -> None:
    answer = await console.http.client.post(START, content=body, headers=dict(ME) | headers)
    assert refusal_of(answer.json()).reason == reason


@pytest.mark.parametrize(
    "body", [b"", envelope(b"") * 2, envelope(b"", 4), envelope(b"", 1), envelope(b"ab")[:-1]]
)
async def test_body_that_is_no_envelope_is_refused(console: Console, body: bytes) -> None:
    headers = dict(ME) | {"content-type": "application/connect+proto"}
    answer = await console.http.client.post(WATCH, content=body, headers=headers)
    assert answer.status_code == 200
    assert b"BODY_INVALID" in answer.content


async def test_refused_bodies_are_counted(console: Console) -> None:
    await console.http.client.post(START, content=b"[]", headers=dict(ME) | JSON)
    labels = {"method": START, "code": "INVALID_ARGUMENT"}
    registry = console.server.metrics.registry
    assert registry.get_sample_value("stepwell_rpc_total", labels) == 1


# --- the end of calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
async def test_call_ends_when_its_time_is_over(console: Console, form: str) -> None:
    run = await console.client.start(goal="never done")
    header = {"connect-timeout-ms": "20"}
    request = opb.WaitRunRequest(run_id=run.spec.run_id)
    calling = console.http.call("Orchestrator/WaitRun", request, form, headers=header)
    error = await refused(calling)
    assert (error.code, error.reason) == (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        "DEADLINE_EXCEEDED",
    )


async def test_client_that_goes_away_cancels_its_call(console: Console) -> None:
    run = await console.client.start(goal="never done")
    requests: list[tuple[str, Message]] = [
        ("WatchRun", opb.WatchRunRequest(run_id=run.spec.run_id)),
        ("WatchRuns", opb.WatchRunsRequest()),
        ("WatchLogs", opb.WatchLogsRequest(run_id=run.spec.run_id, follow=True)),
    ]
    for name, request in requests:
        stream = console.http.stream(f"Orchestrator/{name}", request)
        await anext(stream)
        assert console.streams(name) == 1
        await stream.aclose()
        await until(lambda name=name: console.streams(name) == 0)

    labels = {"method": "/stepwell.v1.Orchestrator/WaitRun", "code": "CANCELLED"}
    wait = asyncio.ensure_future(
        console.http.call("Orchestrator/WaitRun", opb.WaitRunRequest(run_id=run.spec.run_id))
    )
    registry = console.server.metrics.registry
    await asyncio.sleep(0)
    await until(lambda: any(task.get_name() == "call by HTTP" for task in asyncio.all_tasks()))
    wait.cancel()
    await until(lambda: registry.get_sample_value("stepwell_rpc_total", labels) == 1)


async def test_drain_ends_streams_by_a_message_and_refuses_calls(console: Console) -> None:
    run = await console.client.start(goal="never done")
    watches = [
        console.http.stream("Orchestrator/WatchRun", opb.WatchRunRequest(run_id=run.spec.run_id)),
        console.http.stream("Orchestrator/WatchRuns", opb.WatchRunsRequest()),
    ]
    for watch in watches:
        await anext(watch)
    await console.server.drain()
    for watch in watches:
        last: Any = [message async for message in watch][-1]
        assert last.end.reason == opb.WATCH_END_REASON_DRAINING
    error = await refused(console.http.call("Orchestrator/ListRuns", opb.ListRunsRequest()))
    assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")


@pytest.mark.parametrize("name", ["WatchRuns", "ListRuns"])
async def test_reader_that_stalls_is_cut_off(
    console: Console, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(40):
        await console.client.start(goal="x" * limits.GOAL_BYTES_MAX, request_id=f"{number}")
    is_stream = name == "WatchRuns"
    request: Message = opb.WatchRunsRequest() if is_stream else opb.ListRunsRequest()
    body = encoded(request, "proto")
    content = envelope(body) if is_stream else body
    kind = FORMS["proto"][is_stream]
    host, port = console.http.url.removeprefix("http://").split(":")
    with socket.socket() as stalled:
        # Less than is sent: the rest stays with the server.
        stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        stalled.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(stalled, (host, int(port)))
        head = (
            f"POST /stepwell.v1.Orchestrator/{name} HTTP/1.1\r\nHost: {host}\r\n"
            f"Content-Type: {kind}\r\nAuthorization: {ME[0][1]}\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        await loop.sock_sendall(stalled, head.encode() + content)
        assert await loop.sock_recv(stalled, 12) == b"HTTP/1.1 200"

        async def is_over() -> bool:
            console.world.runtime.skip(10_000)
            return not any(task.get_name() == "call by HTTP" for task in asyncio.all_tasks())

        await until(is_over)
        # What the system has taken still arrives. The rest is gone, and the connection with it.
        size = 0
        while part := await loop.sock_recv(stalled, 1 << 20):
            size += len(part)
        assert size < 20 * limits.GOAL_BYTES_MAX
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("path", [START, "/session"])
async def test_body_that_does_not_come_ends_the_connection(
    console: Console, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    host, port = console.http.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: {ME[0][1]}\r\nContent-Length: 100\r\n\r\n"
    )
    writer.write(head.encode() + b'{"goal": "the rest')
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
    writer.close()
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


async def test_other_tokens_of_the_server_are_taken(console: Console) -> None:
    (info,) = await console.http.call(
        "Orchestrator/GetServerInfo", opb.GetServerInfoRequest(), metadata=bearer("reader")
    )
    assert isinstance(info, opb.GetServerInfoResponse)
    assert (info.subject, info.tenant_id) == ("reader", "tenant-a")
